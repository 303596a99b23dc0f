package web

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"slices"

	"github.com/espalier-run/espalier/examples"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/source"
)

// example is a workflow that a first visit can simulate.
type example struct {
	// Picture names a drawing of the template.
	Name, About, Note, Picture string
	file, script               string // script is the content of a file of replies; empty for simulated ones
	files                      fs.ReadFileFS
	fields                     []app.Field
}

//go:embed examples
var failing embed.FS

// exampleList are the examples of the first visit.
var exampleList = []example{
	{
		Name: "contract-review", files: examples.Files, file: "agent-flow/contract-review.md", Picture: "fan",
		About: "Three readers work side by side, then a person signs off.", Note: "Has a gate.",
		fields: []app.Field{{Name: "contract", Text: exampleContract}, {Name: "counterparty", Text: "Alder Papers"}},
	},
	{
		Name: "support-triage", files: examples.Files, file: "agent-flow/support-triage.md", Picture: "loop",
		About: "Sorts a ticket, drafts an answer, and improves it until it is good enough.", Note: "Has a loop.",
		fields: []app.Field{
			{Name: "ticket", Text: "Since Monday the export job stops after 40,000 rows with \"cursor expired\"."},
			{Name: "customer_id", Text: "C-20418"},
		},
	},
	{
		Name: "second-opinion", files: examples.Files, file: "agent-flow/second-opinion.md", Picture: "chain",
		About: "Three readers classify a case, and the majority counts.", Note: "Has a fan-out.",
		fields: []app.Field{
			{Name: "case_text", Text: "The parcel arrived a week late and one of two lamps is broken."},
		},
	},
	{
		Name: "parcel-refund", files: failing, file: "examples/parcel-refund.md", Picture: "fail",
		script: "examples/parcel-refund.script.yaml",
		About:  "Answers a complaint. The mail server refuses the address.", Note: "Fails, and you correct it.",
		fields: []app.Field{{Name: "complaint", Text: "My parcel never arrived. Ada, ada.lovelace(at)mail.example"}},
	},
}

const exampleContract = `Master services agreement between Orchard Desk and Alder Papers.

7.2 The Supplier shall be liable without limit for any loss of data.
12.1 The agreement is renewed for one year unless notice is given 90 days before its end.
14.3 The Supplier may engage further processors.`

type welcomePage struct {
	shell
	Examples  []example
	Workflows int
	Ready     bool
}

func (h *Handler) welcome(r *request) error {
	found, err := h.o.App.Workflows(r.Context(), catalog.ReadOptions{})
	if err != nil {
		return err
	}
	diagnosis, err := h.o.App.Diagnose(r.Context(), false)
	if err != nil {
		return err
	}
	return h.render(r, http.StatusOK, "welcome.html", welcomePage{
		shell: h.shell(r, "", "Run your first workflow"), Examples: exampleList, Workflows: len(found.Workflows),
		Ready: diagnosis.Ready(),
	})
}

// exampleOf returns the name of a workflow if it is an example and no workflow of the project; empty otherwise. The
// page of such a run offers to run the example again, since there is no workflow page.
func (h *Handler) exampleOf(ctx context.Context, name string) (string, error) {
	if !slices.ContainsFunc(exampleList, func(e example) bool { return e.Name == name }) {
		return "", nil
	}
	found, err := h.o.App.Workflows(ctx, catalog.ReadOptions{})
	if err != nil || slices.ContainsFunc(found.Workflows, func(w app.Workflow) bool { return w.Name == name }) {
		return "", err
	}
	return name, nil
}

// startExample simulates an example, or answers it from its script. Its file is not written to the project: it is
// passed as unsaved text, and the run keeps its own copy.
func (h *Handler) startExample(r *request) error {
	name := r.PostFormValue("example")
	for _, e := range exampleList {
		if e.Name != name {
			continue
		}
		raw, err := e.files.ReadFile(e.file)
		if err != nil {
			return err
		}
		how := app.PrepareRequest{Fields: e.fields, Options: app.RunOptions{Simulate: true}}
		if e.script != "" {
			script, err := e.files.ReadFile(e.script)
			if err != nil {
				return err
			}
			how.Options.Simulate, how.Script = false, source.NewFile(path.Base(e.script), string(script))
		}
		file := e.Name + ".md"
		id, err := h.start(r, app.AnalyzeRequest{
			Workflow: file, Unsaved: map[string]string{file: string(raw)}, Reading: catalog.ReadOptions{Run: true},
		}, how)
		if err != nil {
			return err
		}
		return h.redirect(r, runPath(string(id), "?done=simulated"))
	}
	return notFound("there is no such example")
}
