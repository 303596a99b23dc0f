package node_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

func needsPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
}

// A python3 that nothing holds is not run, also where the machine that resumes
// a run differs from the one that began it; unless the run was begun like that.
func TestPythonIsConfinedOrRefused(t *testing.T) {
	needsPython(t)
	outside := filepath.Join(t.TempDir(), "outside")
	touch := "    try:\n        open('" + outside + "', 'w').close()\n        return {'a': 'written'}\n    except OSError:\n        return {'a': 'held'}\n"
	noSandbox := node.Kind{Confine: func(string, ...string) (*process.Sandbox, error) { return nil, process.ErrNoSandbox }}
	run := func(kind node.Kind, more settings) (string, error) {
		more["python"] = true
		result, err := steptest.Play{Settings: function(touch, more), With: inProject(t)}.Done(t, kind, &steptest.Log{}, &steptest.World{})
		return string(result.Value), err
	}
	_, err := run(noSandbox, settings{})
	var f *step.Error
	if !errors.As(err, &f) || f.Class != step.ClassMissing || !strings.Contains(f.Message, "--python=unconfined") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("it was run all the same")
	}
	if process.Confinable() == nil {
		if got, err := run(node.Kind{}, settings{}); err != nil || got != `{"a":"held"}` {
			t.Errorf("in a sandbox: %s, %v", got, err)
		}
	}
	if got, err := run(noSandbox, settings{"unconfined": true}); err != nil || got != `{"a":"written"}` {
		t.Errorf("unconfined: %s, %v", got, err)
	}
}

// inProject gives a job folders of its own.
func inProject(t *testing.T) func(*step.Job) {
	return func(j *step.Job) {
		with("a")(j)
		j.Project = t.TempDir()
		j.Dir = filepath.Join(j.Project, ".espalier", "runs", "r1")
	}
}

func TestMain(m *testing.M) {
	process.Confine(os.Args)
	os.Exit(m.Run())
}
