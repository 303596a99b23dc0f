//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The unit is one that systemd accepts without a warning.
func TestSystemdUnitIsValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit := filepath.Join("..", "..", "deploy", "espalier.service")
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The files of the image are enough: on a read-only root with nothing else, as
// the user of the image, the server starts and runs a workflow.
func TestContainerRootIsEnough(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("bubblewrap is not installed")
	}
	recipe, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	copies := regexp.MustCompile(`(?m)^COPY (\S+) (\S+)$`).FindAllSubmatch(recipe, -1)
	if len(copies) != 2 {
		t.Fatalf("%s", recipe)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(root, "espalier"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, dir := range []string{"project", "state", "tmp", "proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	project, state := t.TempDir(), t.TempDir()
	put(t, filepath.Join(project, "tight.md"), strings.Replace(tightFlow, "max_steps: 1", "max_steps: 5", 1))
	env := regexp.MustCompile(`(?m)^ENV (.*)$`).FindSubmatch(recipe)
	args := []string{
		"--ro-bind", root, "/", "--bind", project, "/project", "--bind", state, "/state", "--tmpfs", "/tmp",
		"--proc", "/proc", "--dev", "/dev", "--unshare-user", "--uid", "65532", "--gid", "65532", "--chdir", "/project",
		"--die-with-parent", "--clearenv",
	}
	for pair := range strings.FieldsSeq(string(env[1])) {
		name, value, _ := strings.Cut(pair, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "/espalier", "serve", "--addr", "127.0.0.1:0", "--json")
	cmd := exec.Command(bwrap, args...)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var at struct{ Address string }
	if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&at); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, stdout)
	token, err := os.ReadFile(filepath.Join(project, ".espalier", "server-token"))
	if err != nil {
		t.Fatal(err)
	}
	s := &serverProcess{t: t, cmd: cmd, url: "http://" + at.Address, token: strings.TrimSpace(string(token))}
	run := s.call(http.MethodPost, "/api/v1/runs", `{"workflow": "tight", "simulate": true}`, 201)["run_id"].(string)
	s.until(run, "finished")
}
