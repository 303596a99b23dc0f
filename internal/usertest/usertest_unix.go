//go:build unix

package usertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rerun is the variable of a test binary that Run has started.
const rerun = "ESPALIER_TEST_USER"

// required is the variable that makes tests fail where they cannot run in every combination of users and sandboxes.
const required = "ESPALIER_TEST_CONFINEMENT"

// nobody is the user ID of the account "nobody", which owns no files.
const nobody = 65534

// Skip skips a test that this machine cannot run. If ESPALIER_TEST_CONFINEMENT is set, as "make test-confinement" does,
// the test fails instead.
func Skip(t *testing.T, reason ...any) {
	t.Helper()
	if os.Getenv(required) != "" {
		t.Fatal(append([]any{"this combination cannot be tested here: "}, reason...)...)
	}
	t.Skip(reason...)
}

// Run runs the tests of this test binary that match a pattern, as in -test.run, once more as an ordinary user. It does
// nothing if this process is not root. A machine on which root cannot become another user skips the subtest.
func Run(t *testing.T, pattern string) {
	t.Helper()
	if os.Getenv(rerun) != "" {
		return
	}
	t.Run("ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			Skip(t, fmt.Sprintf("uid %d is an ordinary user already", os.Geteuid()))
		}
		dir := t.TempDir()
		self := filepath.Join(dir, filepath.Base(os.Args[0]))
		copySelf(t, self)
		for _, path := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			Skip(t, "root cannot give files to another user: ", err)
		}
		cmd := exec.Command(self, "-test.run="+pattern, "-test.v", "-test.timeout=4m")
		for _, one := range os.Environ() {
			if !strings.HasPrefix(one, "XDG_") {
				cmd.Env = append(cmd.Env, one)
			}
		}
		cmd.Env = append(cmd.Env, rerun+"=1", "HOME="+dir, "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &ended) && errors.Is(err, fs.ErrPermission):
			Skip(t, "root cannot become another user, or that user cannot enter this folder: ", err)
		case err != nil:
			t.Errorf("%v\n%s", err, out)
		case !strings.Contains(string(out), "--- PASS: "):
			t.Errorf("no test matches %q:\n%s", pattern, out)
		}
	})
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
