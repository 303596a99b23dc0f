package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// Names and texts come from files of other people: whatever they hold, no
// command sends control characters to the terminal.
func TestNothingReachesTheTerminalRaw(t *testing.T) {
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
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) || r == '\u202e' }); i >= 0 {
				t.Errorf("%s prints %q", strings.Join(args, " "), text[max(0, i-30):min(len(text), i+30)])
			}
		}
	}
}

// A command that is suggested can be copied into a shell.
func TestShellWord(t *testing.T) {
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
