package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/manifest"
)

type clock = func() time.Time

func (a *app) promoteCommand() *cobra.Command {
	var force bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "promote NAME [RUN] [--force]",
		Short: "Put a generated workflow in its place",
		Long: `Put a workflow that "espalier create" has staged into workflows/NAME. The
generation must have passed its check; everything that was staged is kept in
outputs/NAME/RUN/build, compared, and only then removed from artifacts/.`,
		Args:              takes(1, 2, "a name, and a run when several are staged"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			space, err := a.workspace()
			if err != nil {
				return err
			}
			here, err := space.Here()
			if err != nil {
				return err
			}
			name := args[0]
			if err := checkName(name); err != nil {
				return err
			}
			run := ""
			if len(args) > 1 {
				run = args[1]
			}
			if run, err = stagedRun(here.Root, name, run); err != nil {
				return err
			}
			m, err := manifest.Promote(here.Root, name, run, force, a.Now())
			var not *manifest.NotReady
			switch {
			case errors.As(err, &not), errors.Is(err, manifest.ErrChanged):
				return &failure{
					code: exitNotReady, message: fmt.Sprintf("the generation %s of %q cannot be promoted: %v", run, name, err),
					help: fmt.Sprintf("\"espalier create %s\" carries it on and checks it; --force promotes it all the same.", name),
				}
			case errors.Is(err, manifest.ErrEdited):
				return &failure{
					code: exitNotReady, message: fmt.Sprintf("the generation %s of %q is not promoted: %v", run, name, err),
					help: "Keep what you need of it; --force then replaces it.",
				}
			case errors.Is(err, manifest.ErrIncomplete):
				return &failure{
					code: exitNotReady, message: fmt.Sprintf("the generation %s of %q cannot be promoted: %v", run, name, err),
					help: fmt.Sprintf("\"espalier create %s\" carries it on; or begin again with what it should do.", name),
				}
			case err != nil:
				return err
			}
			if a.json {
				return a.writeJSON(m)
			}
			fmt.Fprintln(a.stdout, m.Promotion.Target)
			a.note("Kept in %s. \"espalier run %s\" runs it.", m.Promotion.ArchivePath, name)
			return nil
		},
	})
	cmd.Flags().BoolVar(&force, "force", false, "promote what has not passed its check")
	return cmd
}

// stagedRun is the generation that is meant: the newest one, unless it is named.
func stagedRun(root, name, prefix string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(root, "artifacts", name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range slices.Backward(entries) {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		// A folder without a manifest is what an interruption left of one.
		if _, err := os.Stat(filepath.Join(manifest.Staged(root, name, e.Name()), manifest.FileName)); err == nil {
			return e.Name(), nil
		}
	}
	return "", usage(fmt.Sprintf("\"espalier create %s\" makes one.", name), "no generation of %q is staged", strings.TrimSpace(name+" "+prefix))
}

// dryRun names the scripts that a run would run, and starts nothing.
func (a *app) dryRun(an *analysis) error {
	commands := registry.Commands(an.program)
	a.note("%s is ready to run. Nothing was started.", an.name())
	if a.json {
		return a.writeJSON(map[string]any{"ready": true, "commands": orEmpty(commands)})
	}
	for _, c := range commands {
		fmt.Fprintln(a.stdout, c)
	}
	return nil
}

// consentedTo refuses a run that would run commands to which no person has
// consented, before it begins or goes on.
func consentedTo(p *ir.Program, tools *registry.Tools, o registry.RunOptions, can remedies) error {
	commands := tools.Unapproved(p, o)
	if len(commands) == 0 {
		return nil
	}
	lines := make([]string, len(commands))
	for i, c := range commands {
		lines[i] = c.String()
	}
	return &failure{
		code: exitNotReady, message: "the workflow runs commands on this machine, which needs your consent:\n  " + strings.Join(lines, "\n  "),
		help: can.still + " Review them; then " + can.allow,
	}
}
