package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
)

func (a *app) driftCommand() *cobra.Command {
	var fix bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "drift WORKFLOW [--fix-topology] [--json]",
		Short: "Say where the parts of a workflow disagree",
		Long: `Compare what a workflow says in several places (its prose, its diagram, its code
and its rules) and say where they disagree. The exit code is 1 when they do.
--fix-topology writes the diagram anew, from the code and the rules.`,
		Args:              takesWorkflow(1, "one workflow"),
		ValidArgsFunction: a.completeWorkflow,
		RunE: func(_ *cobra.Command, args []string) error {
			an, err := a.usable(args[0])
			if err != nil {
				return err
			}
			drifter, ok := registry.Formats().Find(an.format).(format.Drifter)
			if !ok {
				return usage("NOF files have prose, a diagram and code that say the same thing.", "%s says everything once, so nothing in it can disagree", an.file.Path)
			}
			if fix {
				if an, err = a.fixTopology(an, drifter); err != nil {
					return err
				}
			}
			found := drifter.Drift(an.diagnostics)
			if a.json {
				if err := a.writeJSON(newReport([]string{an.file.Path}, an.files, found, nil)); err != nil {
					return err
				}
			} else if err := (diag.Printer{Files: an.files, Color: a.colorOut}).Print(a.painted(), found); err != nil {
				return err
			}
			if found.Count(diag.Warning)+found.Count(diag.Error) == 0 {
				a.note("%s: nothing disagrees.", an.file.Path)
				return nil
			}
			return &failure{code: exitFailed, message: fmt.Sprintf("%s: %s", an.file.Path, diag.Summary(found))}
		},
	})
	cmd.Flags().BoolVar(&fix, "fix-topology", false, "write the diagram anew, from the code and the rules")
	return cmd
}

// fixTopology rewrites the file, if there is anything to change in it.
func (a *app) fixTopology(an analysis, drifter format.Drifter) (analysis, error) {
	space, err := a.workspace()
	if err != nil {
		return an, err
	}
	p, f, err := space.File(an.file.Path)
	if err != nil {
		return an, err
	}
	text, _ := drifter.FixTopology(f, p)
	if text == f.Text {
		a.note("%s: the diagram is as it should be.", f.Path)
		return an, nil
	}
	info, err := os.Stat(f.Abs)
	if err != nil {
		return an, err
	}
	if err := os.WriteFile(f.Abs, []byte(text), info.Mode().Perm()); err != nil {
		return an, &failure{code: exitNotReady, message: fmt.Sprintf("%s cannot be written: %v", f.Path, bareReason(err)), help: "Check the rights of the file."}
	}
	a.note("%s: the diagram was drawn anew.", f.Path)
	a.opened = nil // what was read of it before is old
	space.Close()
	return a.read(f.Abs)
}
