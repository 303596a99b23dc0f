//go:build unix

package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/usertest"
)

const readOnlyRun = "00000000-0000-4000-8000-000000000001"

// readOnlyFlow asks a person between two steps of a model.
const readOnlyFlow = "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Ask.\n---\n" +
	"```step\nid: draft\ntype: transform\ndescription: Write\nwrites: [state.draft]\n```\n" +
	"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: Good\nreads: [state.draft]\n" +
	"writes: [state.ok]\n```\n" +
	"```step\nid: publish\ntype: transform\ndescription: Publish\nreads: [state.draft, state.ok]\n" +
	"writes: [output.r]\n```\n```runtime\nhuman_in_the_loop: true\n```\n"

// inspecting are the commands that only show something. FILE is a new file.
var inspecting = map[string][]string{
	"audit": {"audit", readOnlyRun}, "audit verify": {"audit", "verify", readOnlyRun}, "graph": {"graph", readOnlyRun},
	"memory": {"memory"}, "output": {"output", readOnlyRun}, "runs": {"runs"},
	"runs export": {"runs", "export", readOnlyRun, "FILE"}, "status": {"status", readOnlyRun},
	"store check":  {"store", "check"},
	"store backup": {"store", "backup", "FILE"}, "transcript": {"transcript", readOnlyRun, "--pretty"},
	"triggers list": {"triggers", "list"}, "user list": {"user", "list"}, "tools": {"tools"},
	"show": {"show", "gated.md"}, "cost": {"cost", "gated.md"},
	"validate": {"validate", "gated.md"}, "list": {"list"}, "workers": {"workers"},
}

// modifying are the commands that change a run or the store.
var modifying = map[string][]string{
	"approve": {"approve", readOnlyRun}, "cancel": {"cancel", readOnlyRun},
	"edit":  {"edit", readOnlyRun, "state.draft=2"},
	"pause": {"pause", readOnlyRun}, "reject": {"reject", readOnlyRun}, "resume": {"resume", readOnlyRun},
	"run": {"run", "gated.md", "--simulate"}, "work": {"work"},
}

// unrelated are the commands that do not use the store of a project, or are tested with it unrelated.
var unrelated = []string{
	"", "audit anchor", "audit keygen", "completion", "create", "doctor", "drift", "explain", "expr", "help", "init",
	"login", "logout", "mcp", "memory rm", "new", "promote", "runs import", "runs rm", "schema", "serve", "setup-ide",
	"signal",
	"store", "store migrate", "triggers", "triggers next", "triggers pause", "triggers resume", "triggers run", "trust",
	"user", "user add", "user logout",
	"user remove", "user revoke", "user roles", "user token", "version", "workers drain",
}

// A store that cannot be written can be read by every command that only shows something, and the others say why they
// do nothing.
func TestReadOnlyStoreCanBeRead(t *testing.T) {
	usertest.Run(t, "^TestReadOnlyStoreCanBeRead$")
	if os.Geteuid() == 0 {
		return // the permissions of files mean nothing to root
	}
	dir := t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, ".espalier"), 0o700),
		os.WriteFile(filepath.Join(dir, "gated.md"), []byte(readOnlyFlow), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) (code int, stdout, stderr string) {
		var out, problems bytes.Buffer
		code = cli.Main(cli.Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Dir: dir,
			Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
		}, args)
		return code, out.String(), problems.String()
	}
	if code, _, stderr := try("run", "gated.md", "--simulate", "--run-id", readOnlyRun); code != 4 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	file := filepath.Join(dir, "new")
	fill := func(args []string) []string {
		os.Remove(file)
		args = slices.Clone(args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "FILE", file)
		}
		return args
	}
	type result struct {
		code int
		out  string
	}
	before := map[string]result{}
	for name, args := range inspecting {
		code, out, _ := try(fill(args)...)
		before[name] = result{code, out}
	}
	store := filepath.Join(dir, ".espalier")
	unchanged := freeze(t, store)
	for name, args := range inspecting {
		code, out, stderr := try(fill(args)...)
		if want := before[name]; code != want.code || out != want.out {
			t.Errorf("%s: exit code %d instead of %d\n%s%s\ninstead of\n%s", name, code, want.code, out, stderr,
				want.out)
		}
	}
	for name, args := range modifying {
		if code, _, stderr := try(args...); code != 6 || !strings.Contains(stderr, "the journal cannot be written") {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
		}
	}
	if code, _, stderr := try("run", "gated.md", "--simulate"); code != 6 ||
		!strings.Contains(stderr, "Nothing was started") || strings.Contains(stderr, "espalier resume") {
		t.Errorf("run: exit code %d\n%s", code, stderr)
	}
	unchanged()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "espalier"))
		if inspecting[name] == nil && modifying[name] == nil && c.Runnable() && !slices.Contains(unrelated, name) {
			t.Errorf("the test does not know whether %q changes anything", name)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Commands())
}

// freeze removes all permissions to write from a folder until the test ends. It returns a function that checks that
// nothing has changed.
func freeze(t *testing.T, dir string) (unchanged func()) {
	t.Helper()
	list := func() (paths []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil {
				paths = append(paths, path+" "+info.ModTime().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	chmod := func(folder, file fs.FileMode) error {
		return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir():
				return os.Chmod(path, folder)
			}
			return os.Chmod(path, file)
		})
	}
	if err := chmod(0o500, 0o400); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chmod(0o700, 0o600); err != nil {
			t.Error(err)
		}
	})
	was := list()
	return func() {
		if is := list(); !slices.Equal(is, was) {
			t.Errorf("the folder has changed: %q instead of %q", is, was)
		}
	}
}
