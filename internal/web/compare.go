package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// comparePage compares two runs.
type comparePage struct {
	shell
	A, B   *side
	Facts  []factRow
	Path   []pathRow
	Output []valueRow
	Prompt []valueRow
	Others []runRow // runs that can be compared with the first one
}

// side is one of the two runs. story has the messages of all steps, because prompts are compared.
type side struct {
	runRow
	run    *app.Run
	story  *story
	output map[string]json.RawMessage
}

type factRow struct {
	Name, A, B string
	Differs    bool
}

// pathRow is a step that both runs have taken, or one of them.
type pathRow struct {
	Step         string // the path
	Title        string // the path, as people know it
	A, B         stateView
	TookA, TookB string
	OnlyA, OnlyB bool
	Differs      bool
}

// valueRow is a value of both runs.
type valueRow struct {
	Name string
	A, B json.RawMessage // nil in a run that does not have it
	Diff []diffPair      // empty if they are equal
}

// compare compares two runs. Without a second one it chooses the newest successful run of the same workflow, or else
// the newest other one.
func (h *Handler) compare(r *request) error {
	page := comparePage{shell: h.shell(r, "runs", "Compare runs")}
	a, b := r.URL.Query().Get("a"), r.URL.Query().Get("b")
	if a == "" {
		return invalid("choose the runs to compare", "Open a run and choose Compare.")
	}
	var err error
	if page.A, err = h.side(r, a); err != nil {
		return err
	}
	runs, err := h.o.App.Runs(r.Context(), app.Filter{Name: page.A.Workflow, Limit: 20})
	if err != nil {
		return err
	}
	for i := range runs {
		if string(runs[i].ID) == page.A.ID {
			continue
		}
		row, err := h.row(r, &runs[i])
		if err != nil {
			return err
		}
		page.Others = append(page.Others, row)
		if b == "" && row.Outcome == journal.OutcomeOK {
			b = row.ID // the last good run
		}
	}
	if b == "" && len(page.Others) > 0 {
		b = page.Others[0].ID
	}
	if b != "" {
		if page.B, err = h.side(r, b); err != nil {
			return err
		}
		page.fill()
	}
	return h.render(r, http.StatusOK, "compare.html", page)
}

// side loads one of the two runs. The output is redacted as the workflow asks for, because the journal has it as it is.
func (h *Handler) side(r *request, name string) (*side, error) {
	run, err := h.o.App.Find(r.Context(), name)
	if err != nil {
		return nil, err
	}
	s := &side{run: run, output: map[string]json.RawMessage{}}
	if s.runRow, err = h.row(r, run); err != nil {
		return nil, err
	}
	if s.story, err = h.read(r.Context(), run, everyStep); err != nil {
		return nil, err
	}
	if s.State == journal.StateFinished {
		end, err := h.o.App.Ending(r.Context(), run)
		if err != nil {
			return nil, err
		}
		output, err := h.o.App.RedactValue(r.Context(), run, end.Output)
		if err != nil {
			return nil, err
		}
		for _, m := range members(output) {
			s.output[m.Name] = m.Value
		}
	}
	return s, nil
}

// fill compares the two runs: facts, the paths that they took, outputs, and prompts that differ.
func (p *comparePage) fill() {
	fact := func(name, a, b string) { p.Facts = append(p.Facts, factRow{name, a, b, a != b}) }
	fact("State", stateOf(p.A.State, p.A.Outcome).Word(), stateOf(p.B.State, p.B.Outcome).Word())
	fact("Started", stamp(p.A.Started), stamp(p.B.Started))
	fact("Duration", report.Duration(p.A.Took), report.Duration(p.B.Took))
	fact("Tokens", report.Number(p.A.Tokens), report.Number(p.B.Tokens))
	fact("Cost", price.Spent(p.A.Cost), price.Spent(p.B.Cost))
	fact("Steps done", report.Number(p.A.story.Done), report.Number(p.B.story.Done))
	fact("Started by", cmp.Or(visible(p.A.By), "—"), cmp.Or(visible(p.B.By), "—"))
	p.paths()
	for _, name := range slices.Sorted(maps.Keys(union(p.A.output, p.B.output))) {
		p.Output = append(p.Output, newValueRow(name, p.A.output[name], p.B.output[name]))
	}
	p.prompts()
}

// union returns the values of two maps; those of the second one where both have a key.
func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func newValueRow(name string, a, b json.RawMessage) valueRow {
	row := valueRow{Name: visible(name), A: a, B: b}
	if a != nil && b != nil {
		row.Diff = pairs(diffValues(a, b))
	}
	return row
}

// paths aligns the steps of both runs by their paths, in the order in which the first run entered them, followed by
// those that only the second one entered. Of several visits it compares the last ones.
func (p *comparePage) paths() {
	find := func(s *story, path string) *stepView {
		for _, v := range slices.Backward(s.steps) {
			if v.Path == path {
				return v
			}
		}
		return nil
	}
	order, titles := []string{}, map[string]string{} // by the paths of the steps
	for _, s := range []*story{p.A.story, p.B.story} {
		for _, v := range s.steps {
			if titles[v.Path] == "" && len(order) < rowsPerPage {
				order, titles[v.Path] = append(order, v.Path), v.path()
			}
		}
	}
	for _, path := range order {
		a, b := find(p.A.story, path), find(p.B.story, path)
		row := pathRow{Step: visible(path), Title: visible(titles[path]), OnlyA: b == nil, OnlyB: a == nil}
		if a != nil {
			row.A, row.TookA = stateView{a.State}, report.Duration(a.length())
		}
		if b != nil {
			row.B, row.TookB = stateView{b.State}, report.Duration(b.length())
		}
		row.Differs = a == nil || b == nil || a.State != b.State
		p.Path = append(p.Path, row)
	}
}

// length returns how long the visit took; 0 if it has not ended.
func (v *stepView) length() time.Duration {
	if v.Ended.IsZero() {
		return 0
	}
	return v.Ended.Sub(v.Started)
}

// prompts compares what the models were asked: of each step, the first prompt that is known.
func (p *comparePage) prompts() {
	titles := map[string]string{} // by the paths of the steps
	asked := func(s *story) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		for _, v := range s.steps {
			titles[v.Path] = v.path()
			for _, m := range v.Messages {
				if m.From != "engine" || out[v.Path] != nil {
					continue
				}
				text := m.System
				for _, t := range m.Texts {
					text += "\n" + t
				}
				raw, err := json.Marshal(text)
				if err == nil {
					out[v.Path] = raw
				}
			}
		}
		return out
	}
	a, b := asked(p.A.story), asked(p.B.story)
	for _, path := range slices.Sorted(maps.Keys(union(a, b))) {
		if !bytes.Equal(a[path], b[path]) {
			p.Prompt = append(p.Prompt, newValueRow(titles[path], a[path], b[path]))
		}
	}
}
