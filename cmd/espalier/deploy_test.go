//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
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

// The files of the image are enough: on a read-only root with nothing else, as the user of the image, the server starts
// and runs a workflow. The root has the files that the recipe names, and is that of an image where one can be built.
func TestContainerRootIsEnough(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	recipe, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "espalier"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("files", func(t *testing.T) {
		if n := strings.Count(string(recipe), "\nCOPY "); n != 2 {
			t.Fatalf("%d files are copied", n)
		}
		root := t.TempDir()
		if err := os.Link(filepath.Join(folder, "espalier"), filepath.Join(root, "espalier")); err != nil {
			t.Fatal(err)
		}
		env := regexp.MustCompile(`(?m)^ENV (.*)$`).FindSubmatch(recipe)
		serveFromRoot(t, root, strings.Fields(string(env[1])))
	})
	t.Run("image", func(t *testing.T) {
		if _, err := exec.LookPath("buildah"); os.Getenv("NEED_BUILDAH") == "" && (err != nil || os.Getuid() != 0) {
			t.Skip("building an image needs buildah and root; \"make test-deploy\" installs buildah")
		}
		writeApproved(t, filepath.Join(folder, "ca-certificates.crt"), "certificates of authorities\n")
		storage := t.TempDir()
		buildah := func(args ...string) string {
			t.Helper()
			cmd := exec.Command("buildah", append([]string{
				"--storage-driver", "vfs", "--root", filepath.Join(storage, "images"),
				"--runroot", filepath.Join(storage, "run"),
			}, args...)...)
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(out))
		}
		buildah("bud", "--isolation", "chroot", "--tag", "espalier",
			"--file", filepath.Join("..", "..", "deploy", "Containerfile"), folder)
		var image struct {
			OCI struct {
				Config struct {
					User, WorkingDir     string
					Env, Entrypoint, Cmd []string
				} `json:"config"`
			} `json:"OCIv1"`
		}
		if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "espalier")), &image); err != nil {
			t.Fatal(err)
		}
		c := image.OCI.Config
		if c.User != "65532:65532" || c.WorkingDir != "/project" || strings.Join(c.Entrypoint, " ") != "/espalier" ||
			len(c.Cmd) == 0 || c.Cmd[0] != "serve" {
			t.Errorf("%+v", c)
		}
		container := buildah("from", "espalier")
		defer buildah("rm", container)
		serveFromRoot(t, buildah("mount", container), c.Env)
	})
}

// serveFromRoot starts the server on a read-only root as the user of the image, and runs a workflow.
func serveFromRoot(t *testing.T, root string, env []string) {
	t.Helper()
	for _, dir := range []string{"project", "state", "tmp", "proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	project, state := t.TempDir(), t.TempDir()
	writeApproved(t, filepath.Join(project, "tight.md"), strings.NewReplacer("max_steps: 1", "max_steps: 5",
		"budgets:", "triggers: {schedule: 0 9 * * *, timezone: Asia/Kolkata}\nbudgets:").Replace(tightFlow))
	args := []string{
		"--ro-bind", root, "/", "--bind", project, "/project", "--bind", state, "/state", "--tmpfs", "/tmp",
		"--proc", "/proc", "--dev", "/dev", "--unshare-user", "--uid", "65532", "--gid", "65532", "--chdir", "/project",
		"--die-with-parent", "--clearenv",
	}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "/espalier", "serve", "--addr", "127.0.0.1:0", "--json")
	cmd := exec.Command("bwrap", args...)
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
	s.waitForState(run, "finished")
	// The root has no files of time zones: they are part of the program.
	next := s.call(http.MethodGet, "/api/v1/triggers/tight/next?count=1", "", 200)
	if times := fmt.Sprint(next["times"]); !strings.Contains(times, "T09:00:00+05:30") {
		t.Errorf("the next time is %s", times)
	}
}
