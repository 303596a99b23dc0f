package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/espalier-run/espalier/internal/usertest"
)

// Names and texts come from files of other people: whatever they hold, no
// command sends control characters to the terminal.
func TestNothingReachesTheTerminalRaw(t *testing.T) {
	usertest.Run(t, "^TestNothingReachesTheTerminalRaw$")
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Skip("this file system does not take such names:", err)
		}
	}
	skill := func(name, description string) string {
		return "---\nname: " + name + "\ndescription: " + description + "\nlicense: \"\\e[5m\"\n---\n\x1b[2Jtext\n"
	}
	write("evil/SKILL.md", skill(`"\e[31mred"`, `"\e]0;title\a\e[2J and \u202e back \x9b1m"`))
	write("raw/SKILL.md", skill("raw", "\x1b[31mred\x1b[0m"))
	write("one\x1b[1m/SKILL.md", skill("same", "one"))
	write("two\x1b[1m/SKILL.md", skill("same", "two"))
	write("big\x07/SKILL.md", "\xff\xfe")
	for _, args := range [][]string{
		{"list"},
		{"validate", "."},
		{"show", "evil"},
		{"cost", "evil"},
		{"graph", "evil"},
		{"show", "evil/SKILL.md"},
		{"show", "same"},
		{"show", "nothing-like-it"},
		{"show", "raw"},
		{"show", "."},
		{"__complete", "show", ""},
	} {
		_, stdout, stderr := run(t, dir, args...)
		for _, text := range []string{stdout, stderr} {
			if i := strings.IndexFunc(text, func(r rune) bool {
				return r != '\n' && r != '\t' &&
					unicode.IsControl(r) || r == '\u202e'
			}); i >= 0 {
				t.Errorf("%s prints %q", strings.Join(args, " "), text[max(0, i-30):min(len(text), i+30)])
			}
		}
	}
}

// A command that is suggested can be copied into a shell.
func TestShellWordCanBeCopiedIntoAShell(t *testing.T) {
	for in, want := range map[string]string{
		"flows/a-b_1.md": "flows/a-b_1.md",
		"größe.md":       "größe.md",
		"a b.md":         "'a b.md'",
		"it's.md":        `'it'\''s.md'`,
		"$(rm x).md":     "'$(rm x).md'",
		"":               "''",
		"-rf.md":         "./-rf.md",
		"-a b":           "'./-a b'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

// Control sequences in the output of models, files and tools have no effect on a terminal, in every command that shows
// them; JSON escapes them. Approvers see commands unchanged.
func TestTerminalIgnoresControlSequencesInContent(t *testing.T) {
	usertest.Run(t, "^TestTerminalIgnoresControlSequencesInContent$")
	dir := t.TempDir()
	const evil = `evil \u001b[2J\u001b]0;t\u0007 \u009b31m \u202e back \u2066 x \u007f y \r z`
	for name, text := range map[string]string{
		"say.md": "---\nname: say\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n---\n" +
			"```step\nid: say\ntype: skill\ndescription: Say.\nagent: x\nwrites: [output]\n```\n```agent\nid: " +
			"x\nrole: X\ngoal: g\n```\n",
		"gate.md": "---\nname: gate\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n---\n" +
			"```step\nid: say\ntype: skill\ndescription: Say.\nagent: x\nwrites: [state.s]\n```\n" +
			"```step\nid: ok\ntype: gate\ndescription: Look.\nreads: [state.s]\nwrites: " +
			"[output.ok]\n```\n```agent\nid: x\nrole: X\ngoal: g\nexpected_output: '{ command, n, t }'\n```\n",
		"fail.md": "---\nname: fail\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n---\n" +
			"```step\nid: run\ntype: transform\ndescription: d\nwrites: [output.x]\ncode:\n  language: sh\n  script: " +
			"|\n    printf 'bad \\033[2J \\302\\233 \\342\\200\\256' >&2; exit 1\n```\n",
		"script.yaml": "replies:\n  - reply: \"" + evil + "\"\n",
		"command.yaml": "replies:\n  - reply: {s: {command: \"echo 9007199254740993 >> x && y\", n: " +
			"9007199254740993, t: \"" + evil + "\"}}\n",
		".git/HEAD": "",
	} {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	on := func(args ...string) (code int, out string) {
		var stdout, stderr strings.Builder
		code = Main(Environment{
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Dir: dir, IsTerminal: func(io.Writer) bool { return true },
			Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
		}, args)
		return code, stdout.String() + "\n" + stderr.String()
	}
	ours := regexp.MustCompile(`\x1b\[(\?25[lh]|\?2026[lh]|[KJ]|\d+A|(1;)?3[1-6]m|[012]m)|\r`)
	const hostile, waits, failed = "00000000-0000-4000-8000-00000000000a", "10000000-0000-4000-8000-00000000000b",
		"20000000-0000-4000-8000-00000000000c"
	for _, c := range []struct {
		code  int
		args  []string
		shows string
	}{
		{0, []string{"run", "say.md", "--script", "script.yaml", "--run-id", hostile}, "evil"},
		{0, []string{"run", "say.md", "--script", "script.yaml", "--json"}, `\u009b`},
		{0, []string{"output", hostile}, "evil"},
		{0, []string{"status", hostile}, hostile},
		{0, []string{"status", hostile, "--json"}, hostile},
		{0, []string{"status", hostile, "--step", "say"}, "evil"},
		{0, []string{"transcript", hostile}, `\u202e`},
		{0, []string{"transcript", hostile, "--pretty"}, "evil"},
		{0, []string{"audit", hostile}, hostile},
		{0, []string{"audit", hostile, "--json"}, hostile},
		{4, []string{"run", "gate.md", "--script", "command.yaml", "--run-id", waits}, "gate"},
		{0, []string{"status", waits}, "echo 9007199254740993 >> x && y"},
		{0, []string{"status", waits}, `"n": 9007199254740993`},
		{0, []string{"status", waits, "--json"}, "echo 9007199254740993 >> x && y"},
		{1, []string{"run", "fail.md", "--allow-shell", "--run-id", failed}, "bad"},
		{0, []string{"status", failed}, "bad"},
		{0, []string{"runs"}, "fail"},
	} {
		code, out := on(c.args...)
		if code != c.code || !strings.Contains(out, c.shows) {
			t.Errorf("%q: exit %d, without %q\n%s", c.args, code, c.shows, out)
		}
		rest := ours.ReplaceAllString(out, "")
		if i := strings.IndexFunc(rest, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) || r == '\u202e' || r == '\u2066'
		}); i >= 0 {
			t.Errorf("%q sends %q", c.args, rest[max(0, i-30):min(len(rest), i+30)])
		}
		if strings.Contains(out, "\x1b[2J") || strings.Contains(out, "\x1b[5m") {
			t.Errorf("%q lets a text control the terminal", c.args)
		}
	}
}
