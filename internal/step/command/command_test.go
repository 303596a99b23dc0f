//go:build unix

package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/command"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

func TestSuite(t *testing.T) {
	steptest.Run(t, command.Kind{},
		steptest.Case{Name: "command", Settings: steptest.Settings{"command": "make {{.inputs.x}}", "dir": "sub", "export": []string{"x"}}},
		steptest.Case{Name: "script", Settings: steptest.Settings{"script": "#!/bin/sh\necho", "shell": "/bin/sh", "timeout": "3s"}},
		steptest.Case{Name: "file", Settings: steptest.Settings{"script_file": "x.sh", "folder": "/p"}},
		steptest.Case{Name: "nothing", Misfit: true},
	)
	steptest.Run(t, command.Hook{},
		steptest.Case{Name: "hooks", Settings: steptest.Settings{"hooks": []map[string]any{{"log": "x"}, {"command": "true", "timeout": 5}}, "strict": true}},
		steptest.Case{Name: "again", Settings: steptest.Settings{"hooks": []any{}, "again": true, "files": []string{"x"}, "export": []string{"x"}}},
	)
}

// reads gives a job what a step would read.
func reads(dir string, more map[string]string) func(*step.Job) {
	return func(j *step.Job) {
		j.Reads = []step.Read{{Path: step.WorkingDir, Value: step.JSON(dir)}}
		for path, raw := range more {
			j.Reads = append(j.Reads, step.Read{Path: path, Value: json.RawMessage(raw)})
		}
	}
}

func cmd(text string) steptest.Settings {
	return steptest.Settings{"command": text, "shell": "/bin/sh"}
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	with := reads(dir, map[string]string{"states.a.Output": `"it's"`, "input": `{"who":"me"}`, "loop": `{"index":1,"item":"x"}`})
	notes := []string{journal.NoteCommand}
	plays := []steptest.Play{
		{Name: "output", Settings: cmd("echo out; echo err >&2"), Value: `{"Output":"out\n","Stderr":"err\n","ExitCode":0,"Status":"completed"}`, Notes: notes},
		{Name: "templates", Settings: cmd("echo {{escape .states.a.Output}} {{.loop.Index1}} {{.loop.Item}} {{inputs.who}}"), Value: `{"Output":"it's 2 x me\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "where it runs", Settings: cmd(`[ "$(pwd -P)" = "$(cd ` + dir + ` && pwd -P)" ] && echo yes`), Value: `{"Output":"yes\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "what is not text", Settings: cmd(`printf '\377x'`), Value: `{"Output":"�x","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "a failure", Settings: cmd("echo why >&2; exit 3"), Class: step.ClassCommand, Notes: notes},
		{Name: "a name that nothing has", Settings: cmd("echo {{.states.nowhere.Output}}"), Class: step.ClassInput, Notes: []string{}},
		{Name: "no such folder", Settings: steptest.Settings{"command": "true", "dir": "nowhere"}, Class: step.ClassMissing, Notes: []string{}},
		{Name: "shebang", Settings: steptest.Settings{"script": "#!/bin/cat\nof {{.states.a.Output}}"}, Value: `{"Output":"#!/bin/cat\nof it's","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "a script without", Settings: steptest.Settings{"script": "x=1\necho $x", "shell": "/bin/sh"}, Value: `{"Output":"1\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "a timeout of its own", Settings: steptest.Settings{"command": "sleep 1000", "shell": "/bin/sh", "timeout": "{{.loop.Index1}}ms"}, Class: step.ClassTimeout},
		{Name: "no timeout at all", Settings: steptest.Settings{"command": "true", "timeout": "soon"}, Class: step.ClassInput, Notes: []string{}},
	}
	for i := range plays {
		plays[i].Repeats, plays[i].With = true, with // only a person has a command run again
	}
	steptest.Runs(t, command.Kind{}, plays...)
}

func run(t *testing.T, dir string, set steptest.Settings, with func(*step.Job)) (command.State, error) {
	t.Helper()
	job := steptest.Play{Settings: set, With: with}.Job("command", dir, &steptest.Log{}, &steptest.World{})
	if with != nil {
		with(job)
	}
	result, err := (command.Kind{}).Run(t.Context(), job)
	var left command.State
	raw := result.Value
	var failed *step.Error
	if errors.As(err, &failed) {
		raw = failed.Value
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &left); err != nil {
			t.Fatal(err)
		}
	}
	return left, err
}

// The shell is the user's, if its path is one and leads somewhere.
func TestShells(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mysh")
	if err := os.Symlink("/bin/sh", mine); err != nil {
		t.Fatal(err)
	}
	for shell, want := range map[string]string{mine: mine, "sh": "/bin/sh", "": "/bin/sh", "/no/such": "/bin/sh", dir: "/bin/sh"} {
		t.Setenv("SHELL", shell)
		if left, err := run(t, dir, steptest.Settings{"command": "echo $0"}, reads(dir, nil)); err != nil || left.Output != want+"\n" {
			t.Errorf("SHELL=%s: %+v, %v", shell, left, err)
		}
	}
}

// What a command left is there although it failed.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	left, err := run(t, dir, cmd("echo half; exit 3"), reads(dir, nil))
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Exit != 3 || failed.Message != "exit code 3" || left.Output != "half\n" || left.ExitCode != 3 || left.Status != "failed" {
		t.Errorf("%+v, %v", left, err)
	}
	if left, err = run(t, dir, cmd("echo not found >&2; exit 127"), reads(dir, nil)); err == nil || left.Error != "not found" {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err = run(t, dir, cmd("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), reads(dir, nil)); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Error(err)
	}
}

// The system's limit for arguments is 128 KiB; nobody has to know.
func TestLargeInterpolations(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	with := reads(dir, map[string]string{"states.a.Output": `"` + big + `"`, "input": `{"doc":"` + big + `"}`})
	set := cmd(`printf %s '{{.states.a.Output}}' | wc -c; wc -c < "$AWF_INPUT_DOC_FILE"`)
	set["export"] = []string{"doc"}
	left, err := run(t, dir, set, with)
	if got := strings.Fields(left.Output); err != nil || len(got) != 2 || got[0] != "1048576" || got[1] != "1048576" {
		t.Errorf("%+v, %v", left, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

// Values that are large only together are no trouble either: in one command, in
// every kind of quotes, more than any system takes as arguments at once.
func TestManyLargeInterpolations(t *testing.T) {
	dir := t.TempDir()
	more := map[string]string{}
	one := strings.Repeat("it's $(not) \"run\"\\\n", 40_000) // 800 kB each
	for _, name := range []string{"a", "b", "c", "d"} {
		more["states."+name+".Output"] = string(step.JSON(one + name))
	}
	set := cmd(`printf %s "{{.states.a.Output}}" > a
printf %s {{escape .states.b.Output}} > b
cat > c <<END
{{.states.c.Output}}
END
printf %s '{{.states.d.Output}}' "{{.states.a.Output}}" | cat > d
echo done`)
	set["dir"] = "out"
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if left, err := run(t, dir, set, reads(dir, more)); err != nil || left.Output != "done\n" {
		t.Fatalf("%+v, %v", left, err)
	}
	for name, want := range map[string]string{"a": one + "a", "b": one + "b", "c": one + "c\n", "d": one + "d" + one + "a"} {
		if raw, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(raw) != want {
			t.Errorf("%s has %d bytes, not %d as it should; %v", name, len(raw), len(want), err)
		}
	}
}

// Inputs that are small enough one by one fill the environment only so far; the
// rest is in files, and nothing of it is lost.
func TestManyInputs(t *testing.T) {
	dir := t.TempDir()
	const count = 40
	inputs := map[string]string{"tail": "short"}
	set := cmd(`for i in $(seq 10 49); do
  eval "value=\"\$AWF_INPUT_DOC$i\" own=\"\$doc$i\" file=\"\$AWF_INPUT_DOC${i}_FILE\""
  if [ -n "$file" ]; then echo "file ${value}${own}$(cat "$file")"; else [ "$value" = "$own" ] && echo "env $value"; fi
done | cut -c 1-20; echo "$tail"`)
	var export []string
	for i := range count {
		name := fmt.Sprintf("doc%d", 10+i)
		inputs[name] = fmt.Sprintf("<%d>", i) + strings.Repeat("x", 60<<10)
		export = append(export, name)
	}
	set["export"] = append(export, "tail")
	left, err := run(t, dir, set, reads(dir, map[string]string{"input": string(step.JSON(inputs))}))
	if err != nil {
		t.Fatalf("%v: %s", err, left.Stderr)
	}
	lines := strings.Split(strings.TrimSpace(left.Output), "\n")
	if len(lines) != count+1 || lines[count] != "short" { // what is small has room behind what has not
		t.Fatalf("%q", lines)
	}
	where := map[string]int{}
	for i, line := range lines[:count] {
		kind, value, _ := strings.Cut(line, " ")
		where[kind]++
		if !strings.HasPrefix(value, fmt.Sprintf("<%d>xx", i)) {
			t.Errorf("input %d: %q", i, line)
		}
	}
	if where["env"] != 4 || where["file"] != count-4 { // each counts twice, by its two names
		t.Errorf("%v", where)
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWF_INPUT_OLD", "of somebody else")
	with := reads(dir, map[string]string{"input": `{"who":"me","PATH":"/evil","ld_preload":"x","n":5,"ok":true,"odd name":"y"}`})
	set := cmd(`echo "$who $n $ok|$AWF_INPUT_WHO $AWF_INPUT_PATH $AWF_INPUT_N|$ld_preload|$AWF_INPUT_OLD|$ESPALIER_STEP"; case "$PATH" in /evil*) echo evil;; esac`)
	set["export"] = []string{"PATH", "ld_preload", "n", "odd name", "ok", "who"}
	left, err := run(t, dir, set, with)
	if err != nil || left.Output != "me 5 true|me /evil 5|||work\n" {
		t.Errorf("%+v, %v", left, err)
	}
}

// What nobody vouches for is one word, unless the author says raw.
func TestUntrustedInputs(t *testing.T) {
	dir := t.TempDir()
	with := func(j *step.Job) {
		reads(dir, map[string]string{"input": `{"x":"$(echo pwned)  'y'","word":"w0rd","list":["$(id)"]}`, "loop": `{"item":"a $(id)"}`})(j)
		j.Untrusted = true
	}
	for template, want := range map[string]string{
		`printf '[%s]' {{.inputs.x}}`:                                                   "[$(echo pwned)  'y']",
		`printf '[%s]' "{{.inputs.x}}"`:                                                 "[$(echo pwned)  'y']",
		`printf '[%s]' {{escape .inputs.x}}`:                                            "[$(echo pwned)  'y']",
		`printf '[%s]' {{trimSpace .inputs.x}}`:                                         "[$(echo pwned)  'y']",
		`printf '[%s]' {{index .inputs "x"}}`:                                           "[$(echo pwned)  'y']",
		`printf '[%s]' {{json .inputs.x}}`:                                              `["$(echo pwned)  'y'"]`,
		`printf '[%s]' {{.inputs.list}}`:                                                `[["$(id)"]]`,
		`printf '[%s]' {{range .inputs.list}}{{.}}{{end}}`:                              "[$(id)]",
		`printf '[%s]' {{.loop.Item}}`:                                                  "[a][$(id)]",
		`sh -c 'printf "[%s]" {{escape .inputs.x}}'`:                                    "[$(echo pwned)  'y']",
		`sh -c 'printf "[%s]" {{.inputs.word}}'`:                                        "[w0rd]",
		`printf '[%s]' {{raw .inputs.x}}`:                                               "[pwned][y]",
		`printf '[%s]' {{printf "%.6s" .inputs.x}}`:                                     "[$(echo]",
		`printf '[%s]' {{urlquery .inputs.x}}`:                                          "[%24%28echo+pwned%29++%27y%27]",
		`{{if eq .inputs.x "$(echo pwned)  'y'"}}printf same{{end}}`:                    "same",
		`{{range $k, $v := .inputs}}{{if eq $k "x"}}printf '[%s]' {{$v}}{{end}}{{end}}`: "[$(echo pwned)  'y']",
	} {
		if left, err := run(t, dir, cmd(template), with); err != nil || left.Output != want {
			t.Errorf("%s: %+v, %v", template, left, err)
		}
	}
	for _, set := range []steptest.Settings{
		{"script": "#!/usr/bin/env python3\nprint('{{.inputs.x}}')"}, // nobody knows how to quote for it
		{"command": "echo {{.inputs.x}}", "shell": "/usr/bin/fish"},
		{"command": "sh -c 'echo {{.inputs.x}}'", "shell": "/bin/sh"}, // a second shell reads it
		{"command": "sed 's/x/{{.inputs.x}}/'", "shell": "/bin/sh"},
	} {
		if left, err := run(t, dir, set, with); err == nil {
			t.Errorf("%v: %+v", set, left)
		}
	}
}

// What a step gave is data wherever a command has it: in all kinds of quotes, in
// texts that follow a command, in comments. None of it is ever run.
func TestValuesAreNoCode(t *testing.T) {
	nasty := []string{
		"plain", "two  words", "$(>pwned)", "`>pwned`", "'; >pwned; '", `"; >pwned; "`, `\`, `\\"`, `a\`, "x\nEOF\n>pwned\n", "\n>pwned\n",
		"*", "~", "#", "${HOME}", "a&b|c;d>e<f(g)h", "-n", "é'\"`$\\", "EOF", "!!", "{a,b}", "a=b", "\t",
	}
	words := func(v string) string { return strings.Join(strings.Fields(v), "][") }
	same := func(v string) string { return v }
	type valueCase struct {
		template string
		want     func(v string) string
	}
	cases := []valueCase{
		{`printf '[%s]' "{{.states.a.Output}}"`, same},
		{`printf '[%s]' '{{.states.a.Output}}'`, same},
		{`printf '[%s]' pre"a{{.states.a.Output}}b"post`, func(v string) string { return "prea" + v + "bpost" }},
		{`set -f; printf '[%s]' {{.states.a.Output}}`, words},
		{`printf '[%s]' {{escape .states.a.Output}}`, same},
		{`printf '[%s]' "$(printf %s "{{.states.a.Output}}x")"`, func(v string) string { return v + "x" }},
		{`printf '[%s]' "$(printf %s '{{.states.a.Output}}x')"`, func(v string) string { return v + "x" }},
		{"printf '[%s]' \"`printf %s '{{.states.a.Output}}x'`\"", func(v string) string { return v + "x" }},
		{"cat <<EOF\n[{{.states.a.Output}}]\nEOF", func(v string) string { return "[" + v + "]\n" }},
		{"cat <<'EOF'\n[{{.states.a.Output}}] $HOME `x` \\n\nEOF\necho after", func(v string) string { return "[" + v + "] $HOME `x` \\n\nafter\n" }},
		{"cat <<-\\EOF | cat\n\t[{{.states.a.Output}}]\n\tEOF\necho 'it'", func(v string) string { return "[" + v + "]\nit\n" }},
		{"cat <<A >/dev/null; cat <<'B'\nx {{.states.a.Output}}\nA\n[{{.states.a.Output}}]\nB\n", func(v string) string { return "[" + v + "]\n" }},
		{"# about {{.states.a.Output}}\nprintf '[ok]'", func(string) string { return "ok" }},
		{`x={{.states.a.Output}}; printf '[%s]' "$x"`, same},
		{`printf '[%s]' "${none:-{{.states.a.Output}}}"`, same},
		{`if [ "{{.states.a.Output}}" = "" ]; then :; fi; printf '[ok]'`, func(string) string { return "ok" }},
		{`case "{{.states.a.Output}}" in x) ;; *) printf '[%s]' "$(case y in y) printf %s "{{.states.a.Output}}x";; esac)";; esac`, func(v string) string { return v + "x" }},
		{`printf '[%s]' "$(case y in x|y) printf %s '{{.states.a.Output}}x';; esac)"`, func(v string) string { return v + "x" }},
		{"printf '[%s]' \"`printf %s \\\"{{.states.a.Output}}\\\"x`\"", func(v string) string { return v + "x" }},
		{"printf '[%s]' \"`printf %s \\`printf %s y\\`'{{.states.a.Output}}'`\"", func(v string) string { return "y" + strings.TrimRight(v, "\n") }},
		{`printf '[%s]' "a\{{.states.a.Output}}"`, func(v string) string { return `a\` + v }},
		{`printf '[%s]' "it costs ${{.states.a.Output}}"`, func(v string) string { return "it costs $" + v }},
		{`x="b{{.states.a.Output}}c"; printf '[%s]' "${x#'b{{.states.a.Output}}'}"`, func(string) string { return "c" }},
		{`set -- '{{.states.a.Output}}'; for x in "$@"; do printf '[%s]' "$x"; done`, same},
		{`f() { printf '[%s]' "$1"; }; f '{{.states.a.Output}}'`, same},
		{`export X='{{.states.a.Output}}'; sh -c 'printf "[%s]" "$X"'`, same},
		{`X="{{.states.a.Output}}" sh -c 'printf "[%s]" "$X"'`, same},
		{`sh -c 'printf "[%s]" "$1"' sh "{{.states.a.Output}}"`, same},
		{`sh -c "printf '[%s]' {{escape .states.a.Output}}"`, same},
		{`sh -c 'printf "[%s]" {{escape .states.a.Output}}'`, same},
		{"sh <<EOF\nprintf '[%s]' {{escape .states.a.Output}}\nEOF", same},
		{`eval printf "'[%s]'" {{escape .states.a.Output}}`, same},
		{`eval "printf '[%s]' {{escape .states.a.Output}}"`, same},
		{`trap "printf '[%s]' {{escape .states.a.Output}}" EXIT`, same},
		{"cat <<EOF | cat\n[$(printf %s '{{.states.a.Output}}x') `printf %s \"{{.states.a.Output}}\"x`]\nEOF", func(v string) string { return "[" + v + "x " + v + "x]\n" }},
		{"cat <<'A'; cat <<B\n[{{.states.a.Output}}\\\nA\n{{.states.a.Output}}]\nB", func(v string) string { return "[" + v + "\\\n" + v + "]\n" }},
		{"cat <<EOF\n[\\{{.states.a.Output}} \\\\{{.states.a.Output}} ${{.states.a.Output}}]\nEOF", func(v string) string { return "[\\" + v + " \\" + v + " $" + v + "]\n" }},
	}
	inBash := []valueCase{
		{`printf '[%s]' $'a\tb{{.states.a.Output}}\x41'`, func(v string) string { return "a\tb" + v + "A" }},
		{`printf '[%s]' $'\{{.states.a.Output}}'`, func(v string) string { return `\` + v }},
		{`a=("{{.states.a.Output}}" '{{.states.a.Output}}'); printf '[%s]' "${a[1]}"`, same},
		{`declare -A m; m["{{.states.a.Output}}x"]=1; m[{{.states.a.Output}}x]+=2; printf '[%s]' "${!m[@]}${m['{{.states.a.Output}}x']}"`, func(v string) string { return v + "x12" }},
		{`[[ "{{.states.a.Output}}" == '{{.states.a.Output}}' && 3 -gt 2 ]] && printf '[%s]' '{{.states.a.Output}}'`, same},
		{`[[ x =~ [[:alpha:]] && -n "x{{.states.a.Output}}" ]] && printf '[%s]' "{{.states.a.Output}}"`, same},
		{`IFS= read -r -d '' x <<< "{{.states.a.Output}}"; printf '[%s]' "${x%$'\n'}"`, same},
		{`x=a; printf '[%s]' "${x/a/'{{.states.a.Output}}'}"`, same},
		{`printf -v x '%s' '{{.states.a.Output}}'; printf '[%s]' "$x"`, same},
		{`f() { local x='{{.states.a.Output}}' y="{{.states.a.Output}}"; printf '[%s]' "$y"; }; f`, same},
		{`IFS= read -rd '' x < <(printf %s '{{.states.a.Output}}'); printf '[%s]' "$x"`, same},
	}
	for _, shell := range shells() {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			t.Parallel()
			all := cases
			if filepath.Base(shell) == "bash" {
				all = slices.Concat(cases, inBash)
			}
			var commands, wants []string
			for _, c := range all {
				for _, v := range nasty {
					text, err := filled(shell, c.template, v)
					if err != nil {
						t.Errorf("%s with %q: %v", c.template, v, err)
						continue
					}
					want := "[" + c.want(v) + "]"
					if strings.HasPrefix(c.template, "cat") {
						want = c.want(v)
					}
					commands, wants = append(commands, text.Run), append(wants, want)
				}
			}
			for i, o := range together(t, shell, commands) {
				if o.said != wants[i] || o.exit != "0" || o.ran {
					t.Errorf("%s\ndoes %+v, want %q", commands[i], o, wants[i])
				}
			}
		})
	}
}

// A script for a shell keeps its first line, and its values are data as well.
func TestValuesInScripts(t *testing.T) {
	dir := t.TempDir()
	value := "';touch pwned;\"$(touch pwned)"
	left, err := run(t, dir, steptest.Settings{"script": "#!/bin/sh\nprintf '[%s]' \"{{.states.a.Output}}\""}, reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
	if err != nil || left.Output != "["+value+"]" {
		t.Errorf("%+v, %v", left, err)
	}
}

// In arithmetic a shell runs what it reads: there only numbers may stand.
func TestArithmetic(t *testing.T) {
	dir := t.TempDir()
	for _, template := range []string{`echo $(({{.states.a.Output}} + 1))`, `[[ {{.states.a.Output}} -gt 3 ]]; echo $?`, `((x = {{.states.a.Output}})); echo $x`} {
		set := steptest.Settings{"command": template, "shell": "/bin/bash"}
		for value, fits := range map[string]bool{"4\n": true, "x[$(touch pwned)]": false, "a": false} {
			left, err := run(t, dir, set, reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
			if (err == nil) != fits {
				t.Errorf("%s with %q: %+v, %v", template, value, left, err)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Error(entries, err)
	}
}

func TestReadFileIsConfined(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if left, err := run(t, dir, cmd(`echo {{readFile "in.txt"}}`), reads(dir, nil)); err != nil || left.Output != "inside\n" {
		t.Errorf("%+v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "long.txt"), make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/etc/passwd": `"/etc/passwd" lies outside`, "../x": "outside", "a/../../x": "outside", "link.txt": `"link.txt" cannot be read`,
		"none.txt": `there is no file "none.txt"`, "long.txt": "up to 1 MiB", ".": "not a regular file",
	} {
		if _, err := run(t, dir, cmd(`echo {{readFile "`+path+`"}}`), reads(dir, nil)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestScriptFiles(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x.sh"), []byte("#!/bin/sh\necho {{.inputs.who}} from $0"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := reads(dir, map[string]string{"input": `{"who":"me"}`})
	left, err := run(t, dir, steptest.Settings{"script_file": "x.sh", "folder": folder}, with)
	if err != nil || !strings.HasPrefix(left.Output, "me from ") {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := run(t, dir, steptest.Settings{"script_file": "y.sh", "folder": folder}, with); err == nil {
		t.Error("a script that is not there ran")
	}
}

func TestRecovery(t *testing.T) {
	k := command.Kind{}
	if k.Recovery(nil, nil) != step.Rerun || k.Recovery(nil, []journal.TaskNoted{{Kind: journal.NoteCommand}}) != step.Ask {
		t.Error("wrong")
	}
}

func TestHooks(t *testing.T) {
	dir := t.TempDir()
	do := func(set steptest.Settings, last string) (step.Result, error) {
		job := steptest.Play{Settings: set}.Job("hook", dir, &steptest.Log{}, &steptest.World{})
		reads(dir, map[string]string{"last": last, "input": `{"f":"there"}`})(job)
		return (command.Hook{}).Run(t.Context(), job)
	}
	result, err := do(steptest.Settings{"hooks": []map[string]any{{"log": "after {{.error.State}}"}, {"command": "echo x > there"}, {"command": "false"}}}, `{"step":"a"}`)
	if err != nil || len(result.Notes) != 2 || !strings.Contains(string(step.JSON(result.Notes[0].Data)), "after a") || !strings.Contains(string(step.JSON(result.Notes[1].Data)), "exit code 1") {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := do(steptest.Settings{"hooks": []map[string]any{{"command": "false"}}, "strict": true}, `{}`); err == nil {
		t.Error("a strict hook failed and nobody cared")
	}
	if _, err := do(steptest.Settings{"hooks": []any{}, "files": []string{"{{.inputs.f}}"}, "strict": true}, `{}`); err != nil {
		t.Error(err)
	}
	if _, err := do(steptest.Settings{"hooks": []any{}, "files": []string{"nowhere"}}, `{}`); err == nil {
		t.Error("a file that is not there was found")
	}
	_, err = do(steptest.Settings{"hooks": []any{}, "again": true}, `{"step":"a","outcome":"failed","error":"why","class":"X","value":{"ExitCode":2}}`)
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Message != "why" || failed.Class != "X" || string(failed.Value) != `{"EndedState":"a","ExitCode":2}` {
		t.Error(err)
	}
	if result, err := do(steptest.Settings{"hooks": []any{}, "again": true}, `{"outcome":"ok","value":{"Output":"x"}}`); err != nil || string(result.Value) != `{"Output":"x"}` {
		t.Error(result, err)
	}
}

// The project's folder is not looked at before every command; that it is gone
// is told all the same.
func TestTheProjectIsGone(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, err := run(t, t.TempDir(), cmd("true"), reads(gone, nil))
	if failed, ok := errors.AsType[*step.Error](err); !ok || failed.Class != step.ClassMissing || !strings.Contains(failed.Message, "no such folder") {
		t.Errorf("%v", err)
	}
}
