//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A repository can contain a link at the name where a person writes a result. Nothing is written through it if it leads
// out of the project or to configuration.
func TestResultsAreNotWrittenThroughPlantedLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	flow := "---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n---\n" +
		"```step\nid: ask\ntype: transform\ndescription: Say hello\nwrites: [output]\n```\n"
	for name, text := range map[string]string{
		"flow.md": flow, ".git/hooks/post-checkout": "old", "real/kept": "old",
		filepath.Join(outside, "profile"): "old",
	} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"profile": filepath.Join(outside, "profile"), "new": filepath.Join(outside, "new"), "folder": outside,
		"hook": ".git/hooks/post-checkout", "newhook": ".git/hooks/pre-commit", "fine": "real/kept",
		"up": filepath.Join("..", filepath.Base(outside), "up"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := run(t, dir, "audit", "keygen", filepath.Join(dir, "key")); code != 0 {
		t.Fatal(stderr)
	}
	home := t.TempDir()
	espalier := func(args ...string) (int, string) {
		var out, err strings.Builder
		code := Main(Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Dir: dir,
			Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
		}, args)
		return code, err.String()
	}
	for _, command := range [][]string{
		{"run", "flow.md", "--simulate", "--output"},
		{"graph", "flow.md", "--format", "mmd", "-o"},
		{"audit", "anchor", "--key", filepath.Join(dir, "key"), "--out"},
	} {
		for _, name := range []string{
			"profile", "new", "folder/new", "hook", "newhook", "up", filepath.Join(dir, "profile"),
		} {
			if code, stderr := espalier(append(command, name)...); code == 0 ||
				!strings.Contains(stderr, "over a link") {
				t.Errorf("%v %s: exit code %d\n%s", command, name, code, stderr)
			}
		}
		for _, name := range []string{"fine", "plain", filepath.Join(outside, "chosen"), ".chosen"} {
			if code, stderr := espalier(append(command, name)...); code != 0 {
				t.Errorf("%v %s: exit code %d\n%s", command, name, code, stderr)
			}
		}
	}
	const id = "00000000-0000-4000-8000-0000000000e1"
	if code, stderr := espalier("run", "flow.md", "--simulate", "--run-id", id); code != 0 {
		t.Fatal(stderr)
	}
	for _, command := range [][]string{{"runs", "export", id}, {"store", "backup"}} {
		for _, name := range []string{"profile", "new", "folder/new", "hook", "newhook", "up"} {
			code, stderr := espalier(append(command, name)...)
			if code == 0 || !strings.Contains(stderr, "over a link") {
				t.Errorf("%v %s: exit code %d\n%s", command, name, code, stderr)
			}
		}
		name := command[0]
		for _, name := range []string{name, filepath.Join(outside, name)} {
			if code, stderr := espalier(append(command, name)...); code != 0 {
				t.Errorf("%v %s: exit code %d\n%s", command, name, code, stderr)
			}
		}
	}
	for name, want := range map[string]bool{
		filepath.Join(outside, "new"): false, filepath.Join(dir, ".git/hooks/pre-commit"): false,
		filepath.Join(outside, "chosen"): true, filepath.Join(outside, "up"): false,
	} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s exists: %v", name, err == nil)
		}
	}
	for _, name := range []string{filepath.Join(outside, "profile"), filepath.Join(dir, ".git/hooks/post-checkout")} {
		if raw, err := os.ReadFile(name); err != nil || string(raw) != "old" {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}
