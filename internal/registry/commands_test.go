//go:build unix

package registry

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Every kind that runs commands of a workflow asks the same gate: in a file
// that the user has not named they have to be allowed, and where they are to be
// confined they never run without.
func TestEveryCommandIsGuarded(t *testing.T) {
	runners := Runners()
	guarded := map[string]func(made string) map[string]any{
		"script": func(made string) map[string]any {
			return map[string]any{"language": "sh", "script": "echo x > " + made}
		},
		"command": func(made string) map[string]any { return map[string]any{"command": "echo x > " + made} },
		"hook": func(made string) map[string]any {
			return map[string]any{"hooks": []kinds.HookSetting{{Command: "echo x > " + made}}, "strict": true}
		},
		"worker": func(made string) map[string]any {
			return map[string]any{"agent": "a", "command": []string{"sh", "-c", "echo x > " + made + "; echo '{}'"}}
		},
		"shell": func(made string) map[string]any {
			return map[string]any{
				"scripts":  []kinds.ShellScript{{Shell: "sh", Path: "x.sh", Text: "echo x > " + made}},
				"workflow": "w", "folder": ".",
			}
		},
	}
	for name, settings := range guarded {
		for how, c := range map[string]struct {
			change func(*step.Job)
			class  ir.Class // "" lets it run, "-" does well without
		}{
			"named":      {func(j *step.Job) {}, ""},
			"no consent": {func(j *step.Job) { j.MayRunCommands = false }, ir.ClassDenied},
			"simulated":  {func(j *step.Job) { j.Machine = simulatedMachine{} }, "-"},
			"unconfined": {func(j *step.Job) {
				j.Sandbox = func() (*process.Sandbox, error) {
					return nil,
						process.ErrNoSandbox
				}
			}, ir.ClassMissing},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				root := t.TempDir()
				made := filepath.Join(root, "made")
				task := ir.Task{Kind: name}
				for key, value := range settings(made) {
					task.Settings.Put(key, value, source.Span{})
				}
				if uses := catalog.Kinds()[name].Uses(&task); len(uses.Commands) == 0 {
					t.Errorf("%s does not say that it runs commands", name)
				}
				job := steptest.Play{}.Job(name, filepath.Join(root, "run"), &steptest.Log{}, &steptest.World{})
				job.Task, job.Project, job.MayRunCommands = &task, root, true
				c.change(job)
				_, err := runners[name].Run(t.Context(), job)
				var failed *step.Error
				_, missing := os.Stat(made)
				switch {
				case c.class == "" && missing != nil:
					t.Errorf("it did not run: %v", err)
				case c.class != "" && missing == nil:
					t.Error("it ran")
				case c.class == "-":
					if err != nil {
						t.Error(err)
					}
				case c.class != "" && name != "hook" && (!errors.As(err, &failed) || failed.Class != c.class):
					t.Errorf("%v", err)
				}
			})
		}
	}
	for name, k := range catalog.Kinds() {
		if uses := k.Uses(&ir.Task{Kind: name}); len(uses.Commands) > 0 && guarded[name] == nil {
			t.Errorf("%s runs commands, but has no entry in guarded", name)
		}
	}
}
