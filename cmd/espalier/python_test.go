package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/process"
)

// On a machine that cannot confine commands, --python refuses before anything
// starts, unless the flag is --python=unconfined.
func TestPythonWithoutSandboxIsRefused(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "format", "nof", "testdata",
		"spec", "cost-audit.nof.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeApproved(t, filepath.Join(dir, "flow.nof.md"), string(text))
	writeApproved(t, filepath.Join(dir, ".espalier", "keep"), "")
	writeApproved(t, filepath.Join(dir, "any.yaml"),
		"replies: [{reply: {recommendations: [], rules_applied: [], meta_insight: fine}}]\n")
	try := func(args ...string) (int, string) {
		var output bytes.Buffer
		code := cli.Main(cli.Environment{
			Stdin: strings.NewReader(""), Stdout: &output, Stderr: &output, Dir: dir,
			Getenv:   func(name string) string { return map[string]string{"HOME": dir}[name] },
			Confined: func() (process.Confinement, error) { return process.Confinement{}, process.ErrNoSandbox },
		}, append([]string{"run", "flow.nof.md", "--script", "any.yaml"}, args...))
		return code, output.String()
	}
	code, output := try("--python")
	if code != 6 || !strings.Contains(output, "bubblewrap") || !strings.Contains(output, "--python=unconfined") {
		t.Errorf("exit code %d\n%s", code, output)
	}
	if _, err := os.Stat(filepath.Join(dir, ".espalier", "espalier.db")); err == nil {
		t.Error("something was started")
	}
	if code, output := try("--python=unconfined"); code != 0 {
		t.Errorf("exit code %d\n%s", code, output)
	}
	if code, output := try("--python=free"); code != 2 || !strings.Contains(output, `"free"`) {
		t.Errorf("exit code %d\n%s", code, output)
	}
	if code, output := try(); code != 0 {
		t.Errorf("without python3: exit code %d\n%s", code, output)
	}
}
