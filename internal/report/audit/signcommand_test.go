//go:build unix

package audit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/audit"
)

// Only a command that has run and found a fault shows that a signature is not valid.
func TestCommandThatCannotRunRejectsNoSignature(t *testing.T) {
	const notRun = "the command that checks the signature could not be run: "
	for name, c := range map[string]struct {
		command string
		invalid bool
		says    string
	}{
		"a fault":           {"echo forged; exit 1", true, "the command reports exit status 1: forged"},
		"no output":         {"exit 3", true, "the command reports exit status 3"},
		"an unknown name":   {"espalier-no-such-program", false, "exit status 127: "},
		"not a program":     {"/dev/null", false, "exit status 126: "},
		"killed by signals": {"kill -9 $$", false, "signal: killed. Check --check-command"},
	} {
		t.Run(name, func(t *testing.T) {
			err := audit.CommandCheck(c.command)([]byte("x"), audit.Signature{Signature: []byte("y")})
			if err == nil || errors.Is(err, audit.ErrSignature) != c.invalid || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			if strings.HasSuffix(err.Error(), ": ") {
				t.Errorf("%q", err)
			}
			if !c.invalid && !strings.HasPrefix(err.Error(), notRun) {
				t.Error(err)
			}
		})
	}
	t.Run("no shell", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		err := audit.CommandCheck("true")(nil, audit.Signature{})
		if err == nil || errors.Is(err, audit.ErrSignature) {
			t.Error(err)
		}
	})
}
