package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
)

func (a *invocation) driftCommand() *cobra.Command {
	var fix bool
	cmd := a.jsonFlag(a.ofWorkflow(&cobra.Command{
		Use:   "drift WORKFLOW [--fix-topology] [--json]",
		Short: "Report contradictions between the parts of a workflow",
		Long: `Compare the parts of a workflow that describe the same thing (its prose, its
diagram, its code and its rules) and report contradictions. The exit code is 1
if there are any. --fix-topology regenerates the diagram from the code and the
rules.`,
	}, func(an *app.Analysis) error {
		drifter, ok := catalog.Formats().Find(an.Format).(format.Drifter)
		if !ok {
			return usage("\"espalier drift\" compares the prose, the diagram and the code of NOF files.",
				"the format of %s has no parts that describe the same thing", an.File.Path)
		}
		if fix {
			var err error
			if an, err = a.fixTopology(an); err != nil {
				return err
			}
		}
		found := drifter.Drift(an.Diagnostics)
		if a.json {
			if err := a.writeJSON(newReport([]string{an.File.Path}, an.Files, found, nil)); err != nil {
				return err
			}
		} else if err := (diag.Printer{Files: an.Files, Color: a.colorOut}).Print(a.painted(), found); err != nil {
			return err
		}
		if found.Count(diag.Warning)+found.Count(diag.Error) == 0 {
			a.note("%s: no contradictions.", an.File.Path)
			return nil
		}
		return fail(exitFailed, "", "%s: %s", an.File.Path, diag.Summary(found))
	}))
	cmd.Flags().BoolVar(&fix, "fix-topology", false, "regenerate the diagram from the code and the rules")
	return cmd
}

// fixTopology rewrites the diagram of a workflow, if there is anything to change in it.
func (a *invocation) fixTopology(an *app.Analysis) (*app.Analysis, error) {
	changed, err := a.app().FixTopology(an)
	switch {
	case err != nil:
		return nil, fail(ExitNotReady, "Check the permissions of the file.", "%s cannot be written: %v", an.File.Path,
			bareReason(err))
	case !changed:
		a.note("%s: the diagram is up to date.", an.File.Path)
		return an, nil
	}
	a.note("%s: the diagram was updated.", an.File.Path)
	return a.app().Analyze(context.Background(), app.AnalyzeRequest{Workflow: an.File.Abs, Reading: a.reading})
}
