package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
)

// Every help text fits a terminal of 80 columns, with its flags and examples.
func TestHelpFits80Columns(t *testing.T) {
	dir := t.TempDir()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		if cmd.IsAdditionalHelpTopicCommand() {
			args = []string{"help", cmd.Name()}
		}
		code, stdout, stderr := run(t, dir, args...)
		if code != 0 || stdout == "" {
			t.Errorf("%s: %d %s", args, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			line = strings.TrimRight(line, "\n")
			if diag.Width(line) > 80 {
				t.Errorf("%s: wider than 80 columns: %s", args, line)
			}
		}
		for _, below := range cmd.Commands() {
			if !below.Hidden {
				check(below)
			}
		}
	}
	check(Commands())

	_, stdout, _ := run(t, dir, "run", "--help")
	if !strings.Contains(stdout, " --python[=HOW] ") {
		t.Error(stdout)
	}
}
