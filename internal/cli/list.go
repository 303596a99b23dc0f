package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
)

func (a *invocation) listCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list [DIR] [--json]",
		Short: "List the workflows of this project and the user's skills",
		Long: `List the workflows of the project around the working folder, and the skills in
the user's folders; with a folder, only the workflows below it. "espalier help
formats" describes which files are workflows and where a project starts.`,
		Args:              takes(0, 1, "at most one folder"),
		ValidArgsFunction: completeFolder,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := a.app().Workflows(context.Background(), a.reading)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				dir := a.inDir(args[0])
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return usage("Pass a folder, or nothing for the whole project.", "%s is not a folder", args[0])
				}
				found.Workflows = slices.DeleteFunc(found.Workflows, func(w app.Workflow) bool {
					below, err := filepath.Rel(dir, a.inDir(w.Path))
					return err != nil || !filepath.IsLocal(below)
				})
			}
			if a.json {
				return a.writeJSON(found)
			}
			t := table{header: []string{"NAME", "FORMAT", "PROBLEMS", "PATH"}, whole: []int{0, 3}}
			for _, w := range found.Workflows {
				t.add(w.Name, cmp.Or(w.Format, "?"), problems(w.Problems), w.Path)
				t.under(fit(w.Description, a.columns()-underIndent))
			}
			t.last = t.naturalWidth() > a.columns()
			a.printTable(&t, "")
			for _, w := range found.Workflows {
				if w.ShadowedBy != "" {
					a.note("%s is hidden by %s, which has the same name.", w.Path, w.ShadowedBy)
				}
			}
			for _, s := range found.Skipped {
				a.note("%s was skipped: %s", s.Path, sentence(s.Reason))
			}
			if len(found.Workflows) == 0 {
				a.note("There are no workflows in %s. Run \"espalier new NAME\" to create one.", folder(found.Root))
			}
			return nil
		},
	})
}

// problems describes the numbers of errors and warnings of a workflow; "-" for none.
func problems(n map[string]int) string {
	var parts []string
	if e := n["errors"]; e > 0 {
		parts = append(parts, plural(e, "error"))
	}
	if w := n["warnings"]; w > 0 {
		parts = append(parts, plural(w, "warning"))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
