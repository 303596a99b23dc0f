//go:build unix

package shell_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/shell"
)

// end ends every result of the command below.
const end = "\x02-espalier-\x02"

// context is a command that uses a value, and prints what it received.
type context struct {
	command string
	want    func(v string) string
}

func same(v string) string { return v }

// quoted are commands for the shell itself.
var quoted = []context{
	{`p "@"`, same},
	{`p '@'`, same},
	{`p "a@b"`, func(v string) string { return "a" + v + "b" }},
	{`p 'a@b'`, func(v string) string { return "a" + v + "b" }},
	{`p x"@"'y'`, func(v string) string { return "x" + v + "y" }},
	{`x=@; p "$x"`, same},
	{`x="@" y='@'; p "$x$y"`, func(v string) string { return v + v }},
	{`p "$(printf '%s.' "@")"`, func(v string) string { return v + "." }},
	{`p "$(printf '%s.' '@')"`, func(v string) string { return v + "." }},
	{`p "$(printf '%s.' "$(printf '%s.' "@")")"`, func(v string) string { return v + ".." }},
	{"p \"`printf '%s.' \\\"@\\\"`\"", func(v string) string { return v + "." }},
	{"p \"`printf '%s.' '@'`\"", func(v string) string { return v + "." }},
	{`p "${none:-@}"`, same},
	{`p ${none:-"@"}`, same},
	{`p "it costs $@"`, func(v string) string { return "it costs $" + v }},
	{`p "a\@"`, func(v string) string { return `a\` + v }},
	{`for x in "@" '@'; do :; done; p "$x"`, same},
	{`set -- '@' "@"; p "$1$2"`, func(v string) string { return v + v }},
	{`f() { p "$1"; }; f "@"`, same},
	{`eval "p ^"`, same},
	{`eval p ^`, same},
	{`p ^`, same},
	{`if [ "@" = '@' ]; then case "@" in '@') p same ;; *) p other ;; esac; fi`, func(string) string { return "same" }},
	{`{ p '@'; }`, same},
	{`set -f; printf '<%s>' @; p ''`, func(v string) string {
		words := strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" \t\n", r) })
		return "<" + strings.Join(words, "><") + ">"
	}},
}

// passed are commands that pass a value to another process.
var passed = []context{
	{`export X=@; sh -c 'printf %s "$X"'; p ''`, same},
	{`env X="@" sh -c 'printf %s "$X"'; p ''`, same},
	{`Y='@' sh -c 'printf %s "$Y"'; p ''`, same},
	{`sh -c 'printf %s "$1"' sh "@"; p ''`, same},
	{`sh -c "printf %s ^"; p ''`, same},
	{`sh -c 'printf %s ^'; p ''`, same},
	{"sh <<EOF\nprintf %s ^\nEOF\np ''", same},
	{"cat <<EOF\n@ \"@\" $(printf %s. '@') '@'\nEOF\np ''", func(v string) string {
		return v + ` "` + v + `" ` + v + `. '` + v + "'\n"
	}},
	{"cat <<'EOF'\nit's @ $x \"@\"\nEOF\np ''", func(v string) string {
		return "it's " + v + ` $x "` + v + "\"\n"
	}},
	{`(p "@") | cat`, same},
}

// pieces are what values are made of.
var pieces = []string{
	"'", `"`, "`", "$", `\`, "\n", " ", "\t", "*", "?", "[", "]", "{a,b}", "~", "!", "#", ";", "|", "&", "<", ">", "(",
	")",
	"é", "漢", "😀", "\u202e", "\x01", "\x7f", "\r", "$(>pwned)", "`>pwned`", "${x}", "$x", "EOF\n", "\nEOF\n>pwned\n",
	"__espalier_1", "-n", "-e", "%s", `\n`, `'"'`, `$'\x41'`, "<<EOF", "esac", "a", "word", "0", "=", ":", "/", "..",
	"';>pwned;'", `";>pwned;"`, "$((1))", "a[$(>pwned)]", "&&>pwned", "|>pwned", "\n>pwned\n", "é'", "()",
}

func value(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(9) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// together returns one command that does what all of them do, and what it prints for a value.
func together(list []context) (command string, wants func(v string) []string) {
	b := strings.Builder{}
	b.WriteString("p() { printf '%s" + end + "' \"$1\"; }\n")
	for _, c := range list {
		b.WriteString(c.command + "\n")
	}
	return b.String(), func(v string) []string {
		out := make([]string, len(list))
		for i, c := range list {
			out[i] = c.want(v)
		}
		return out
	}
}

// A command receives exactly the value, in every kind of quotes, and nothing of the value is executed. The oracle is
// the shell itself.
func TestShellsReceiveValues(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{"dash", "bash", "sh", "zsh", "ksh93", "mksh", "ash"} {
		program, err := exec.LookPath(name)
		if file, _ := filepath.EvalSymlinks(program); err != nil || known[file] {
			continue
		} else {
			known[file] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			for list, count := range map[*[]context]int{&quoted: 1000, &passed: 40} {
				values := []string{"", "'", "-n", "\n", "\\", "$(>pwned)"}
				for len(values) < count {
					values = append(values, value(r))
				}
				for batch := range slices.Chunk(values, 250) {
					checkValues(t, program, *list, batch, seed, name != "zsh" && name != "mksh")
				}
			}
		})
	}
}

// standalone says that every second command has its values in its text.
func checkValues(t *testing.T, program string, list []context, values []string, seed uint64, standalone bool) {
	t.Helper()
	command, wants := together(list)
	const driver = `while [ $# -gt 0 ]; do
n=$1 c=$2; shift 2
(i=1; while [ "$i" -le "$n" ]; do eval "export __espalier_$i=\"\$1\""; shift; i=$((i + 1)); done
unset i n; set --; eval "$c")
while [ "$n" -gt 0 ]; do shift; n=$((n - 1)); done
printf '%s' "$0"
done`
	const stop = "\x02-value-\x02"
	args := []string{"-c", driver, stop}
	for i, v := range values {
		c, err := shell.Insert(program, split(command, shell.Value{Text: v}))
		if err != nil {
			t.Fatalf("%q: %v", v, err)
		}
		if standalone && i%2 == 1 {
			args = append(args, "0", c.Standalone())
			continue
		}
		args = append(append(args, strconv.Itoa(len(c.Values)), c.Text), c.Values...)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = t.TempDir()
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.1000s", err, cmd.Stderr)
	}
	results := strings.Split(string(out), stop)
	if len(results) != len(values)+1 {
		t.Fatalf("%d results for %d values: %.1000s", len(results)-1, len(values), cmd.Stderr)
	}
	for i, v := range values {
		got := strings.Split(results[i], end)
		for k, want := range wants(v) {
			if k >= len(got) || got[k] != want {
				t.Errorf("seed %d, value %q: %s prints %q, want %q", seed, v, list[k].command, got[min(k, len(got)-1)],
					want)
				break
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(cmd.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("seed %d: a value was executed: %v, %v", seed, left, err)
		os.RemoveAll(cmd.Dir)
	}
}
