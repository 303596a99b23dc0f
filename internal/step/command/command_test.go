//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/command"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/usertest"
)

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

func TestCommandStepsKeepResultsWhenInterrupted(t *testing.T) {
	dir := t.TempDir()
	with := reads(dir, map[string]string{"states.a.Output": `"it's"`, "input": `{"who":"me"}`, "loop": `{"index":1,"item":"x"}`})
	notes := []string{journal.NoteCommand}
	plays := []steptest.Play{
		{Name: "output", Settings: cmd("echo out; echo err >&2"), Value: `{"Output":"out\n","Stderr":"err\n","ExitCode":0,"Status":"completed"}`, Notes: notes},
		{Name: "templates", Settings: cmd("echo {{escape .states.a.Output}} {{.loop.Index1}} {{.loop.Item}} {{inputs.who}}"), Value: `{"Output":"it's 2 x me\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "where it runs", Settings: cmd(`[ "$(pwd -P)" = "$(cd ` + dir + ` && pwd -P)" ] && echo yes`), Value: `{"Output":"yes\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "what is not text", Settings: cmd(`printf '\377x'`), Value: `{"Output":"�x","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "a failure", Settings: cmd("echo why >&2; exit 3"), Class: ir.ClassCommand, Notes: notes},
		{
			Name: "a name that nothing has", Settings: cmd("echo {{.states.nowhere.Output}}"),
			Class: ir.ClassInput, Notes: []string{},
		},
		{
			Name: "no such folder", Settings: steptest.Settings{"command": "true", "dir": "nowhere"},
			Class: ir.ClassMissing, Notes: []string{},
		},
		{Name: "shebang", Settings: steptest.Settings{"script": "#!/bin/cat\nof {{.states.a.Output}}"}, Value: `{"Output":"#!/bin/cat\nof it's","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{Name: "a script without", Settings: steptest.Settings{"script": "x=1\necho $x", "shell": "/bin/sh"}, Value: `{"Output":"1\n","Stderr":"","ExitCode":0,"Status":"completed"}`},
		{
			Name: "no timeout at all", Settings: steptest.Settings{"command": "true", "timeout": "soon"},
			Class: ir.ClassInput, Notes: []string{},
		},
	}
	for i := range plays {
		plays[i].Repeats, plays[i].With = true, with // only a person has a command run again
	}
	steptest.Runs(t, command.Runner{}, plays...)
}

// The timeout of a command may be computed. It may also be over before the
// command is noted, which is why no play has it.
func TestTimeoutsAreTemplates(t *testing.T) {
	set := steptest.Settings{"command": "sleep 1000", "shell": "/bin/sh", "timeout": "{{.loop.Index1}}ms"}
	_, err := run(t, t.TempDir(), set, reads(t.TempDir(), map[string]string{"loop": `{"index":1}`}))
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Class != ir.ClassTimeout {
		t.Errorf("got %v, want a failure of class %s", err, ir.ClassTimeout)
	}
}

// A command gets the traceparent of its run, so that its own spans belong to the trace.
func TestCommandsGetTheTraceOfTheirRun(t *testing.T) {
	state, err := run(t, t.TempDir(), cmd(`echo "$TRACEPARENT"`), func(j *step.Job) { j.Root, j.Run = "root", "child" })
	if want := journal.TraceParent("root", "child") + "\n"; err != nil || state.Output != want {
		t.Errorf("%v: got %q, want %q", err, state.Output, want)
	}
}

func run(t *testing.T, dir string, set steptest.Settings, with func(*step.Job)) (kinds.State, error) {
	t.Helper()
	job := steptest.Play{Settings: set, With: with}.Job("command", dir, &steptest.Log{}, &steptest.World{})
	if with != nil {
		with(job)
	}
	result, err := (command.Runner{}).Run(t.Context(), job)
	var left kinds.State
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
func TestCommandsUseTheShellOfTheUser(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mysh")
	if err := os.Symlink("/bin/sh", mine); err != nil {
		t.Fatal(err)
	}
	for shell, want := range map[string]string{
		mine: mine, "sh": "/bin/sh", "": "/bin/sh", "/no/such": "/bin/sh", dir: "/bin/sh",
	} {
		t.Setenv("SHELL", shell)
		if left, err := run(t, dir, steptest.Settings{"command": "echo $0"}, reads(dir, nil)); err != nil ||
			left.Output != want+"\n" {
			t.Errorf("SHELL=%s: %+v, %v", shell, left, err)
		}
	}
}

// A command that failed keeps its output.
func TestFailedCommandsKeepTheirOutput(t *testing.T) {
	dir := t.TempDir()
	left, err := run(t, dir, cmd("echo half; exit 3"), reads(dir, nil))
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Exit != 3 || failed.Message != "exit code 3" || left.Output != "half\n" ||
		left.ExitCode != 3 || left.Status != "failed" {
		t.Errorf("%+v, %v", left, err)
	}
	if left, err = run(t, dir, cmd("echo not found >&2; exit 127"), reads(dir, nil)); err == nil ||
		left.Error != "not found" {
		t.Errorf("%+v, %v", left, err)
	}
	if left, err = run(t, dir, cmd("kill -KILL $$"), reads(dir, nil)); err == nil || left.Error != "signal: killed" ||
		left.Error != err.Error() {
		t.Errorf("%+v, %v", left, err)
	}
	if left, err = run(t, dir, cmd("echo '  ' >&2; exit 4"), reads(dir, nil)); err == nil ||
		left.Error != "exit code 4" {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err = run(t, dir, cmd("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), reads(dir, nil)); err == nil ||
		!strings.Contains(err.Error(), "16 MiB") {
		t.Error(err)
	}
}

// Values above the system's limit of 128 KiB per argument work like small ones.
func TestValuesAboveTheArgumentLimitAreInserted(t *testing.T) {
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

// One command may insert values, in every kind of quotes, that together exceed the system's limit for arguments.
func TestManyLargeValuesAreInserted(t *testing.T) {
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
	for name, want := range map[string]string{
		"a": one + "a", "b": one + "b", "c": one + "c\n", "d": one + "d" + one + "a",
	} {
		if raw, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(raw) != want {
			t.Errorf("%s has %d bytes, not %d as it should; %v", name, len(raw), len(want), err)
		}
	}
}

// Many small inputs fill the environment up to a limit; the others are in files, in full.
func TestInputsAboveTheEnvironmentLimitAreInFiles(t *testing.T) {
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

// A command sees our environment and the inputs that it may: under their own
// names if no program is found or changed by those. Small letters make another
// name, so inputs like "env" and "python_version" are fine.
func TestInputsNeverReplaceGuardedVariables(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWF_INPUT_OLD", "of somebody else")
	t.Setenv("OF_OURS", "ours")
	inputs := map[string]any{
		"who": "me", "n": 5, "ok": true, "list": []any{"a", 1}, "nothing": nil, "nul": "a\x00b", "my-name": "dashed",
		"größe 1": "L", "_x9": "u", "9x": "digit", "env": "prod", "python_version": "3", "git_ref": "main",
		"ld_debug": "small", "PATH": "/evil", "LD_PRELOAD": "x", "ENV": "x", "PYTHONPATH": "x", "GIT_DIR": "x",
		"http_proxy": "x", "ESPALIER_STEP": "x", "AWF_INPUT_WHO": "x", "secret": "not exported",
	}
	set := cmd(`for name in "$who" "$n" "$ok" "$list" "${nothing-unset}" "${AWF_INPUT_NOTHING-unset}" "${nul-unset}" "$_x9" "$env" "$python_version" "$git_ref" "$ld_debug"; do printf '%s ' "$name"; done
echo; echo "$AWF_INPUT_WHO $AWF_INPUT_N $AWF_INPUT_LIST $AWF_INPUT_MY_NAME $AWF_INPUT_GR__E_1 $AWF_INPUT_9X $AWF_INPUT_PATH $AWF_INPUT_LD_PRELOAD"
case "$PATH" in /evil*) echo evil;; esac
echo "${LD_PRELOAD-unset} ${ENV-unset} ${PYTHONPATH-unset} ${GIT_DIR-unset} ${http_proxy-unset} ${AWF_INPUT_OLD-unset} ${secret-unset} ${AWF_INPUT_SECRET-unset} $ESPALIER_STEP $ESPALIER_RUN_ID $ESPALIER_KEY $OF_OURS"`)
	var export []string
	for name := range inputs {
		if name != "secret" {
			export = append(export, name)
		}
		if ours, there := os.LookupEnv(name); there && name != "PATH" { // it is not to disturb
			t.Setenv(name, ours)
			os.Unsetenv(name)
		}
	}
	set["export"] = append(export, "undeclared")
	left, err := run(t, dir, set, reads(dir, map[string]string{"input": string(step.JSON(inputs))}))
	want := `me 5 true ["a",1] unset unset unset u prod 3 main small ` + `
me 5 ["a",1] dashed L digit /evil x
unset unset unset unset unset unset unset unset work r1 /work#0 ours
`
	if err != nil || left.Output != want {
		t.Errorf("%v\n%s\n%s", err, left.Output, left.Stderr)
	}
}

// An untrusted value becomes a single shell word, unless the template says raw.
func TestUntrustedInputsBecomeOneShellWord(t *testing.T) {
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
		{"script": "#!/usr/bin/env python3\nprint('{{.inputs.x}}')"}, // there are no quoting rules for it
		{"command": "echo {{.inputs.x}}", "shell": "/usr/bin/fish"},
		{"command": "sh -c 'echo {{.inputs.x}}'", "shell": "/bin/sh"}, // a second shell reads it
		{"command": "sed 's/x/{{.inputs.x}}/'", "shell": "/bin/sh"},
	} {
		if left, err := run(t, dir, set, with); err == nil {
			t.Errorf("%v: %+v", set, left)
		}
	}
}

// The inputs of a person, and loop items made of them, are data wherever a value can be. Elsewhere they are code, as in
// AWF: the person may run commands anyway.
func TestInputsAreData(t *testing.T) {
	usertest.Run(t, "^TestInputsAreData$")
	dir := t.TempDir()
	inputs := func(j *step.Job) {
		reads(dir, map[string]string{
			"input": `{"title":"$(echo pwned)","quote":"it's","cmd":"printf a | tr a b","flags":"-e  x\t*",` +
				`"list":["$(id)","b c"],"map":{"k":"v w"},"n":5,"ok":true,"home":"~","sub":"it's; echo pwned"}`,
			"loop":            `{"item":"a $(id)"}`,
			"states.a.Output": `"$(echo pwned)"`,
		})(j)
	}
	for template, want := range map[string]string{
		`echo "{{.inputs.title}}"`:                                     "$(echo pwned)\n",
		`echo '{{.inputs.title}}' {{.inputs.title}}`:                   "$(echo pwned) $(echo pwned)\n",
		`echo '{{.inputs.quote}}' "{{.states.a.Output}}"`:              "it's $(echo pwned)\n",
		`set -f; printf '[%s]' {{.inputs.flags}}`:                      "[-e][x][*]",
		`printf '[%s]' {{.loop.Item}}`:                                 "[a][$(id)]",
		`printf '[%s]' {{range .inputs.list}}"{{.}}" {{end}}`:          "[$(id)][b c]",
		`printf '[%s]' {{.inputs.map}} {{.inputs.map.k}}`:              `[{"k":"v w"}][v][w]`,
		`printf '[%s]' {{json .inputs.list}}`:                          `[["$(id)","b c"]]`,
		`printf '[%s]' {{.inputs.n}} $(({{.inputs.n}} + 1))`:           "[5][6]",
		`{{if and .inputs.ok (eq .inputs.quote "it's")}}echo y{{end}}`: "y\n",
		`echo {{printf "-- %s" .inputs.title}}`:                        "-- $(echo pwned)\n",
		`echo "{{trimSpace .inputs.title}}{{join .inputs.list ","}}"`:  "$(echo pwned)$(id),b c\n",
		"cat <<E\n{{.inputs.title}}\nE":                                "$(echo pwned)\n",
		`{{.inputs.cmd}}`:                                              "b",
		`eval "{{.inputs.cmd}}"; echo "{{.inputs.title}}"`:             "b$(echo pwned)\n",
		`sh -c '{{.inputs.cmd}}'`:                                      "b",
		`echo {{raw .inputs.title}}`:                                   "pwned\n",
		`echo {{escape .inputs.title}} {{escape .inputs.quote}}`:       "$(echo pwned) it's\n",
		`sh -c 'echo {{escape .inputs.title}}'`:                        "$(echo pwned)\n",
	} {
		if left, err := run(t, dir, cmd(template), inputs); err != nil || left.Output != want {
			t.Errorf("%s: %+v, %v, want %q", template, left, err, want)
		}
	}
	// Programs that are no shells receive the text.
	cat := steptest.Settings{"script": "#!/bin/cat\nit: {{.inputs.cmd}}"}
	if left, err := run(t, dir, cat, inputs); err != nil || !strings.Contains(left.Output, "it: printf a | tr a b") {
		t.Errorf("%+v, %v", left, err)
	}
	// Values of steps are refused where they are code, whatever inputs are around them.
	if left, err := run(t, dir, cmd(`eval "{{.states.a.Output}}" "{{.inputs.quote}}"`), inputs); err == nil {
		t.Errorf("%+v", left)
	}
}

// What a step gave is data wherever a command has it: in all kinds of quotes, in
// texts that follow a command, in comments. None of it is ever run.
func TestValuesAreNoCode(t *testing.T) {
	usertest.Run(t, "^TestValuesAreNoCode$")
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
		{"cat <<'EOF'\n[{{.states.a.Output}}] $HOME `x` \\n\nEOF\necho after", func(v string) string {
			return "[" + v + "] $HOME `x` \\n\nafter\n"
		}},
		{"cat <<-\\EOF | cat\n\t[{{.states.a.Output}}]\n\tEOF\necho 'it'", func(v string) string {
			return "[" + v + "]\nit\n"
		}},
		{
			"cat <<A >/dev/null; cat <<'B'\nx {{.states.a.Output}}\nA\n[{{.states.a.Output}}]\nB\n",
			func(v string) string { return "[" + v + "]\n" },
		},
		{"# about {{.states.a.Output}}\nprintf '[ok]'", func(string) string { return "ok" }},
		{`x={{.states.a.Output}}; printf '[%s]' "$x"`, same},
		{`printf '[%s]' "${none:-{{.states.a.Output}}}"`, same},
		{`if [ "{{.states.a.Output}}" = "" ]; then :; fi; printf '[ok]'`, func(string) string { return "ok" }},
		{`case "{{.states.a.Output}}" in x) ;; *) printf '[%s]' "$(case y in y) printf %s "{{.states.a.Output}}x";; esac)";; esac`, func(v string) string { return v + "x" }},
		{`printf '[%s]' "$(case y in x|y) printf %s '{{.states.a.Output}}x';; esac)"`, func(v string) string { return v + "x" }},
		{"printf '[%s]' \"`printf %s \\\"{{.states.a.Output}}\\\"x`\"", func(v string) string { return v + "x" }},
		{"printf '[%s]' \"`printf %s \\`printf %s y\\`'{{.states.a.Output}}'`\"", func(v string) string {
			return "y" + strings.TrimRight(v, "\n")
		}},
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
		{
			"cat <<EOF | cat\n[$(printf %s '{{.states.a.Output}}x') `printf %s \"{{.states.a.Output}}\"x`]\nEOF",
			func(v string) string { return "[" + v + "x " + v + "x]\n" },
		},
		{"cat <<'A'; cat <<B\n[{{.states.a.Output}}\\\nA\n{{.states.a.Output}}]\nB", func(v string) string {
			return "[" + v + "\\\n" + v + "]\n"
		}},
		{
			"cat <<EOF\n[\\{{.states.a.Output}} \\\\{{.states.a.Output}} ${{.states.a.Output}}]\nEOF",
			func(v string) string { return "[\\" + v + " \\" + v + " $" + v + "]\n" },
		},
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
	for _, program := range shells() {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			all := cases
			if filepath.Base(program) == "bash" {
				all = slices.Concat(cases, inBash)
			}
			var commands []shell.Command
			var wants []string
			for _, c := range all {
				for _, v := range nasty {
					text, err := filled(program, c.template, v)
					if err != nil {
						t.Errorf("%s with %q: %v", c.template, v, err)
						continue
					}
					want := "[" + c.want(v) + "]"
					if strings.HasPrefix(c.template, "cat") {
						want = c.want(v)
					}
					commands, wants = append(commands, text.Command), append(wants, want)
				}
			}
			for i, o := range together(t, program, commands) {
				if o.said != wants[i] || o.exit != "0" || o.ran {
					t.Errorf("%s\ndoes %+v, want %q", commands[i].Text, o, wants[i])
				}
			}
		})
	}
}

// A script for a shell keeps its first line, and its values are data as well.
func TestValuesInScriptsAreData(t *testing.T) {
	dir := t.TempDir()
	value := "';touch pwned;\"$(touch pwned)"
	left, err := run(t, dir, steptest.Settings{"script": "#!/bin/sh\nprintf '[%s]' \"{{.states.a.Output}}\""},
		reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
	if err != nil || left.Output != "["+value+"]" {
		t.Errorf("%+v, %v", left, err)
	}
	left, err = run(t, dir, steptest.Settings{"script": "printf '[%s]' \"{{.states.a.Output}}\"", "shell": "/bin/sh"},
		reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
	if err != nil || left.Output != "["+value+"]" {
		t.Errorf("%+v, %v", left, err)
	}
}

// A shell evaluates variables in arithmetic, so only numbers may be inserted there.
func TestOnlyNumbersAreInsertedIntoArithmetic(t *testing.T) {
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

func TestScriptFilesAreResolvedAndLimited(t *testing.T) {
	dir, folder, home := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(folder, "x.sh"), "#!/bin/sh\necho {{.inputs.who}} from $0")
	write(filepath.Join(home, "h.sh"), "echo of the home")
	write(filepath.Join(folder, "full.sh"), "#!/bin/sh\necho full; exit\n"+
		strings.Repeat("#", 1<<20-len("#!/bin/sh\necho full; exit\n")))
	write(filepath.Join(folder, "long.sh"), strings.Repeat("#", 1<<20+1))
	write(filepath.Join(folder, "~odd.sh"), "echo odd")
	with := reads(dir, map[string]string{"input": `{"who":"me","of":"x"}`})
	for file, want := range map[string]string{
		"x.sh": "me from ", "{{.inputs.of}}.sh": "me from ", "~/h.sh": "of the home",
		filepath.Join(home, "h.sh"): "of the home", "full.sh": "full", "~odd.sh": "odd",
	} {
		if left, err := run(t, dir, steptest.Settings{"script_file": file, "folder": folder}, with); err != nil ||
			!strings.HasPrefix(left.Output, want) {
			t.Errorf("%s: %+v, %v", file, left, err)
		}
	}
	for file, class := range map[string]ir.Class{
		"y.sh": ir.ClassMissing, "long.sh": ir.ClassMissing,
		".": ir.ClassMissing, "{{.inputs.none}}.sh": ir.ClassInput,
	} {
		_, err := run(t, dir, steptest.Settings{"script_file": file, "folder": folder}, with)
		if failed, ok := errors.AsType[*step.Error](err); !ok || failed.Class != class {
			t.Errorf("%s: %v", file, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

// A script is started by the program of its first line. Its file need not be one
// that the system runs: it would not while a process that is just being started
// has it open, as happens in parallel, nor in folders without programs.
func TestScriptsAreInterpreted(t *testing.T) {
	dir := t.TempDir()
	for script, want := range map[string]string{
		"#!/bin/sh\n[ -x \"$0\" ] || echo \"$# plain\"":        "0 plain\n",
		"#! /bin/sh -e\r\nfalse; echo no":                      "",
		"#!/usr/bin/env sh\necho env":                          "env\n",
		"#!/usr/bin/env -S sh -u\necho split":                  "split\n",
		"#!\necho nothing":                                     "nothing\n",
		"#!/bin/sh\n" + strings.Repeat("#\n", 96<<10) + "echo": "\n",
	} {
		left, err := run(t, dir, steptest.Settings{"script": script, "shell": "/bin/sh"}, reads(dir, nil))
		if (err == nil) != (want != "") || left.Output != want {
			t.Errorf("%.60q: %.200v, %v", script, left, err)
		}
	}
	// To a command such a line is a comment.
	if left, err := run(t, dir, cmd("#!/bin/cat\necho hi"), reads(dir, nil)); err != nil || left.Output != "hi\n" {
		t.Errorf("%+v, %v", left, err)
	}
}

// Where a command runs: in the project, or in a folder that its step names from
// there, from the home, or from the top.
func TestCommandsRunInTheFolderTheyName(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	for _, sub := range []string{
		filepath.Join(dir, "sub", "deep"), filepath.Join(home, "mine"), filepath.Join(dir, "~odd"),
	} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	with := reads(dir, map[string]string{"input": `{"where":"sub"}`})
	for folder, want := range map[string]string{
		"": dir, "sub": dir + "/sub", "{{.inputs.where}}/deep": dir + "/sub/deep", "~": home, "~/mine": home + "/mine",
		home: home, "~odd": dir + "/~odd",
	} {
		set := cmd("pwd -P")
		set["dir"] = folder
		real, err := filepath.EvalSymlinks(want)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := run(t, dir, set, with); err != nil || left.Output != real+"\n" {
			t.Errorf("%q: %+v, %v, want %s", folder, left, err, real)
		}
	}
	// It may be gone afterwards.
	set := cmd("rmdir ../deep && echo gone")
	set["dir"] = "sub/deep"
	if left, err := run(t, dir, set, with); err != nil || left.Output != "gone\n" {
		t.Errorf("%+v, %v", left, err)
	}
	// Without a project it is the run's own, which is made.
	own := filepath.Join(dir, "runs", "r1")
	if left, err := run(t, own, cmd("echo x > made; pwd -P"), func(j *step.Job) { j.Reads = nil }); err != nil ||
		!strings.HasSuffix(left.Output, "/runs/r1\n") {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestValuesChooseOwnFoldersOnly runs commands in folders that an earlier step names.
func TestValuesChooseOwnFoldersOnly(t *testing.T) {
	dir, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	mine, shared := filepath.Join(temporary, "mine"), filepath.Join(temporary, "shared")
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "sub"): 0o755, mine: 0o700, shared: 0o777} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	for name, target := range map[string]string{"out": outside, "in": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for value, works := range map[string]bool{
		"sub": true, "in": true, ".": true, dir + "/sub": true, mine: true,
		"out": false, "..": false, "/": false, "~": false, outside: false, shared: false, dir + "/../": false,
	} {
		with := reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))})
		for template, trusted := range map[string]bool{
			"{{.states.a.Output}}": false, "{{raw .states.a.Output}}": true,
		} {
			set := cmd("true")
			set["dir"] = template
			_, err := run(t, dir, set, with)
			failed, ok := errors.AsType[*step.Error](err)
			if (err == nil) != (works || trusted) || ok && failed.Class != ir.ClassInput {
				t.Errorf("%s with %q: %v", template, value, err)
			}
		}
	}
}

// The note has the command as its author wrote it, shortened to what records can hold. A rerun does not note it
// again.
func TestCommandIsNotedOnceAndShortened(t *testing.T) {
	dir := t.TempDir()
	with := reads(dir, map[string]string{"states.a.Output": `"it is"`, "input": string(step.JSON(map[string]string{"long": strings.Repeat("é", 40<<10)}))})
	noted := func(set steptest.Settings, log *steptest.Log) []journal.Command {
		t.Helper()
		if _, err := (command.Runner{}).Run(t.Context(),
			steptest.Play{Settings: set, With: with}.Job("command", dir, log, &steptest.World{})); err != nil {
			t.Fatal(err)
		}
		var out []journal.Command
		for _, n := range log.Notes {
			var c journal.Command
			if err := json.Unmarshal(n.Data, &c); err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
		return out
	}
	log := &steptest.Log{}
	const want = `echo "it is" 'it is'`
	for range 2 {
		if got := noted(cmd(`echo "{{.states.a.Output}}" {{escape .states.a.Output}}`), log); len(got) != 1 || got[0].Command != want {
			t.Errorf("%+v", got)
		}
	}
	got := noted(cmd(": x{{.inputs.long}}"), &steptest.Log{})
	if len(got) != 1 || !strings.HasPrefix(got[0].Command, ": xéé") || !strings.HasSuffix(got[0].Command, "éé…") ||
		len(got[0].Command) > 64<<10+len("…") || len(got[0].Command) < 64<<10 {
		t.Errorf("%d, %.40q", len(got[0].Command), got[0].Command)
	}
}

// A command that cannot run fails with a class that tells the cause.
func TestCommandsThatCannotRunHaveAClass(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	big := string(step.JSON(map[string]string{"doc": strings.Repeat("x", 100<<10)}))
	for name, c := range map[string]struct {
		set   steptest.Settings
		with  func(*step.Job)
		class ir.Class
	}{
		"called": {cmd("touch pwned"), func(j *step.Job) { j.MayRunCommands = false }, ir.ClassDenied},
		"long command": {cmd("touch pwned #" + strings.Repeat("x", 100<<10)), func(j *step.Job) {
			j.Dir = blocked
		}, ir.ClassMissing},
		"long input": {
			steptest.Settings{"command": "touch pwned", "export": []string{"doc"}},
			func(j *step.Job) { j.Dir = blocked }, ir.ClassMissing,
		},
		"script": {steptest.Settings{"script": "#!/bin/sh\ntouch pwned"}, func(j *step.Job) {
			j.Dir = blocked
		}, ir.ClassMissing},
		"no place": {cmd("touch pwned"), func(j *step.Job) { j.Dir, j.Reads = blocked, nil }, ir.ClassMissing},
		"of others": {steptest.Settings{"script": "#!/usr/bin/env touch\n{{.inputs.doc}}"}, func(j *step.Job) {
			j.Untrusted = true
		}, ir.ClassInput},
		"unknown timeout": {
			steptest.Settings{"command": "touch pwned", "timeout": "{{.inputs.none}}"}, nil, ir.ClassInput,
		},
		"unknown folder": {
			steptest.Settings{"command": "touch pwned", "dir": "{{.inputs.none}}"}, nil, ir.ClassInput,
		},
		"unknown shell": {
			steptest.Settings{"command": "touch pwned", "shell": "{{.inputs.none}}"}, nil, ir.ClassInput,
		},
	} {
		project := filepath.Join(dir, name)
		if err := os.Mkdir(project, 0o700); err != nil {
			t.Fatal(err)
		}
		var noted *steptest.Log
		_, err := run(t, project, c.set, func(j *step.Job) {
			reads(project, map[string]string{"input": big})(j)
			if c.with != nil {
				c.with(j)
			}
			noted = j.Log.(*steptest.Log)
		})
		failed, ok := errors.AsType[*step.Error](err)
		if !ok || failed.Class != c.class || len(noted.Notes) > 0 {
			t.Errorf("%s: %v, %v", name, err, noted.Notes)
		}
		if entries, err := os.ReadDir(project); err != nil || len(entries) > 0 {
			t.Errorf("%s left %v, %v", name, entries, err)
		}
	}
}

// A command that was noted may have run; one that was not noted has not.
func TestCommandsThatMayHaveRunAsk(t *testing.T) {
	k := command.Runner{}
	if got := k.Recovery(nil, nil); got != step.Rerun {
		t.Errorf("not noted: %v", got)
	}
	if got := k.Recovery(nil, []journal.TaskNoted{{Kind: journal.NoteCommand}}); got != step.Ask {
		t.Errorf("noted: %v", got)
	}
}

// hooked does hooks with what was known before them; notes are what they tell.
func hooked(
	t *testing.T, dir string, set steptest.Settings, last string, with func(*step.Job),
) (step.Result, []string, error) {
	t.Helper()
	job := steptest.Play{Settings: set}.Job("hook", dir, &steptest.Log{}, &steptest.World{})
	more := map[string]string{"input": `{"f":"there","none":""}`, "run": `{"id":"r1","step":"__hook"}`}
	if last != "" {
		more["last"] = last
	}
	reads(dir, more)(job)
	if with != nil {
		with(job)
	}
	result, err := (command.HookRunner{}).Run(t.Context(), job)
	var notes []string
	for _, n := range result.Notes {
		if said, ok := n.Data.(journal.LogLine); ok && n.Kind == journal.NoteLogLine {
			notes = append(notes, said.Text)
		}
	}
	return result, notes, err
}

type hooks = []map[string]any

func TestFailingHooksStopOnlyStrictSteps(t *testing.T) {
	dir := t.TempDir()
	result, notes, err := hooked(t, dir, steptest.Settings{"hooks": hooks{
		{"log": "after {{.error.State}}"},
		{"log": ""},
		{"command": "echo x > there"},
		{"command": "echo said; false"},
		{"command": "echo {{.inputs.nope}}"},
		{"log": "{{.inputs.nope}}"},
		{"command": "sleep 1000", "timeout": 1},
		{"log": "the end"},
	}}, `{"step":"a"}`, nil)
	want := []string{
		"after a", "a hook failed: exit code 1",
		"a hook failed: step \"work\": There is no inputs.nope. Pass the input, or declare a default.",
		"a hook failed: step \"work\": There is no inputs.nope. Pass the input, or declare a default.",
		"a hook failed: the hook timed out after 1ms", "the end",
	}
	if err != nil || !slices.Equal(notes, want) || string(result.Value) != "{}" {
		t.Errorf("%q, %s, %v", notes, result.Value, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "there")); err != nil {
		t.Error(err)
	}
	// A strict one ends it, and what was told before that stays told.
	_, notes, err = hooked(t, dir, steptest.Settings{"hooks": hooks{{"log": "begin"}, {"command": "exit 2"}, {"command": "touch never"}}, "strict": true}, `{}`, nil)
	if failed, ok := errors.AsType[*step.Error](err); !ok || failed.Class != ir.ClassCommand ||
		failed.Message != "a hook failed: exit code 2" || !slices.Equal(notes, []string{"begin"}) {
		t.Errorf("%q, %v", notes, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("it went on")
	}
	// Hooks of called files need to be allowed as well.
	_, _, err = hooked(t, dir, steptest.Settings{"hooks": hooks{{"command": "touch never"}}, "strict": true}, `{}`, func(j *step.Job) { j.MayRunCommands = false })
	if err == nil || !strings.Contains(err.Error(), "--allow-shell") {
		t.Error(err)
	}
}

// What is to be there before a run begins.
func TestMissingFilesFailBeforeTheRun(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	for _, path := range []string{filepath.Join(dir, "there"), filepath.Join(home, "mine")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, says := range map[string]string{
		"{{.inputs.f}}": "", "{{.inputs.none}}": "", "~/mine": "", filepath.Join(home, "mine"): "",
		"nowhere": `there is no file "nowhere"`, "mine": `there is no file "mine"`, "~/there": `there is no file "~/there"`, "{{.inputs.nope}}": "There is no inputs.nope.",
	} {
		_, _, err := hooked(t, dir, steptest.Settings{"hooks": hooks{}, "files": []string{"there", file}}, `{}`, nil)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Hooks see the error and the state of a failing run, also if their own state ends it.
func TestHooksSeeWhyAndWhereTheRunFails(t *testing.T) {
	const log = "{{.error.Message}} {{.error.Type}} {{.error.State}} at {{.workflow.CurrentState}}"
	failed := `{"outcome":"failed","step":"a","error":"why","class":"X"}`
	hookedOnce := `{"outcome":"failed","step":"__hooks of a","error":"why","class":"X","value":{"EndedState":"a"}}`
	ends := map[string]any{"state": "end", "message": "of {{.inputs.f}}"}
	for _, c := range []struct {
		name string
		set  steptest.Settings
		last string
		want string
	}{
		{"a step failed", steptest.Settings{}, failed, "why X a at a"},
		{"and another hook saw it", steptest.Settings{}, hookedOnce, "why X a at a"},
		{"a hook of a state", steptest.Settings{"state": "b"}, failed, "why X a at b"},
		{"a state ends it", steptest.Settings{"failure": ends}, `{"outcome":"ok","step":"a","error":"","class":""}`, "of there ENDED end at end"},
		{"a state ends it after a failure", steptest.Settings{"failure": ends}, failed, "why X a at a"},
		{"with words that cannot be read", steptest.Settings{"failure": map[string]any{"state": "end", "message": "{{.inputs.nope}}"}}, `{"outcome":"ok"}`, "{{.inputs.nope}} ENDED end at end"},
		{"nothing failed", steptest.Settings{}, `{"outcome":"ok","step":"a","error":"","class":""}`, "  a at __hook"},
	} {
		c.set["hooks"] = hooks{{"log": log}}
		if _, notes, err := hooked(t, t.TempDir(), c.set, c.last, nil); err != nil ||
			!slices.Equal(notes, []string{c.want}) {
			t.Errorf("%s: %q, %v", c.name, notes, err)
		}
	}
}

// A step of hooks can end as the previous step did.
func TestHooksCanEndLikeThePreviousStep(t *testing.T) {
	set := steptest.Settings{"hooks": hooks{{"log": "x"}}, "again": true}
	for last, want := range map[string]string{
		`{"outcome":"failed","step":"a","error":"why","class":"X","value":{"ExitCode":2}}`:     `{"EndedState":"a","ExitCode":2}`,
		`{"outcome":"failed","step":"a","error":"why","class":"X"}`:                            `{"EndedState":"a"}`,
		`{"outcome":"failed","step":"a","error":"why","class":"X","value":null}`:               `{"EndedState":"a"}`,
		`{"outcome":"failed","step":"a","error":"why","class":"X","value":["x"]}`:              `{"EndedState":"a"}`,
		`{"outcome":"failed","step":"h","error":"why","class":"X","value":{"EndedState":"a"}}`: `{"EndedState":"a"}`,
	} {
		_, notes, err := hooked(t, t.TempDir(), set, last, nil)
		failed, ok := errors.AsType[*step.Error](err)
		if !ok || failed.Message != "why" || failed.Class != "X" || string(failed.Value) != want || len(notes) != 1 {
			t.Errorf("%s: %q, %v", last, notes, err)
		}
	}
	for last, want := range map[string]string{`{"outcome":"ok","value":{"Output":"x"}}`: `{"Output":"x"}`, `{"outcome":"ok"}`: "null", "": "null"} {
		if result, notes, err := hooked(t, t.TempDir(), set, last, nil); err != nil ||
			string(result.Value) != want || len(notes) != 1 {
			t.Errorf("%s: %s, %q, %v", last, result.Value, notes, err)
		}
	}
	_, _, err := hooked(t, t.TempDir(), set, "", func(j *step.Job) {
		j.Reads = append(j.Reads, step.Read{Path: "last", Value: json.RawMessage(`null`), Missing: true})
	})
	if err != nil {
		t.Error(err)
	}
}

// After a crash, only the last hook that had started is repeated, and only after a person has decided so. A hook that
// could not start does not count.
func TestOnlyTheLastHookIsRepeatedAfterACrash(t *testing.T) {
	set := steptest.Settings{"hooks": hooks{
		{"command": "echo {{.inputs.nope}}"},
		{"command": "echo a >> log"},
		{"log": "x"},
		{"command": "echo b >> log"},
		{"command": "echo c >> log"},
	}}
	for begun, want := range []string{"a\nb\nc\n", "a\nb\nc\n", "b\nc\n", "c\n"} {
		dir := t.TempDir()
		var log *steptest.Log
		_, _, err := hooked(t, dir, set, `{}`, func(j *step.Job) {
			log = j.Log.(*steptest.Log)
			j.History = slices.Repeat([]journal.TaskNoted{{Kind: journal.NoteCommand}}, begun)
		})
		if raw, readErr := os.ReadFile(filepath.Join(dir, "log")); err != nil || readErr != nil || string(raw) != want {
			t.Errorf("after %d: %q, %v, %v", begun, raw, err, readErr)
		}
		if len(log.Notes) != 3-begun {
			t.Errorf("after %d: %v", begun, log.Notes)
		}
	}
	k := command.HookRunner{}
	if got := k.Recovery(nil, nil); got != step.Rerun {
		t.Errorf("not noted: %v", got)
	}
	if got := k.Recovery(nil, []journal.TaskNoted{{Kind: journal.NoteCommand}}); got != step.Ask {
		t.Errorf("noted: %v", got)
	}
}

// When a run is stopped, its hooks return the cause of the stop instead of a failure of their own.
func TestStoppedHooksReturnTheCause(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancelCause(t.Context())
	over := errors.New("over")
	job := steptest.Play{Settings: steptest.Settings{
		"hooks": hooks{{"log": "begin"}, {"command": "echo > begun; sleep 1000"}, {"command": "touch never"}},
	}}.Job("hook", dir, &steptest.Log{}, &steptest.World{})
	reads(dir, nil)(job)
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		os.ReadFile(begun) // until it has begun
		stop(over)
	}()
	result, err := (command.HookRunner{}).Run(ctx, job)
	if !errors.Is(err, over) || len(result.Notes) != 1 {
		t.Errorf("%v, %v", result.Notes, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("it went on")
	}
}

// A missing project folder is reported, although it is not checked before every command.
func TestMissingProjectFolderIsReported(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, err := run(t, t.TempDir(), cmd("true"), reads(gone, nil))
	if failed, ok := errors.AsType[*step.Error](err); !ok || failed.Class != ir.ClassMissing ||
		!strings.Contains(failed.Message, "which does not exist") {
		t.Errorf("%v", err)
	}
}

// The output of a step does not choose the program that runs a command, or a script in another folder.
func TestStepOutputChoosesNoProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evil.sh", "sub/good.sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("echo "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for value, set := range map[string]steptest.Settings{
		"/bin/cat":            {"command": "/etc/hostname", "shell": "{{.states.a.Output}}"},
		"../evil":             {"script_file": "sub/{{.states.a.Output}}.sh", "folder": dir},
		dir + "/evil":         {"script_file": "{{.states.a.Output}}.sh", "folder": dir},
		"..":                  {"script_file": "sub/{{.states.a.Output}}/evil.sh", "folder": dir},
		"good.sh/../../evil":  {"script_file": "sub/{{trimSpace .states.a.Output}}.sh", "folder": dir},
		"/bin/sh\x00/bin/cat": {"command": "true", "shell": "{{index .states.a \"Output\"}}"},
	} {
		left, err := run(t, dir, set, reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
		if failed, ok := errors.AsType[*step.Error](err); !ok || failed.Class != ir.ClassInput {
			t.Errorf("%q: %+v, %v", value, left, err)
		}
	}
	for value, set := range map[string]steptest.Settings{
		"good":    {"script_file": "sub/{{.states.a.Output}}.sh", "folder": dir, "shell": "/bin/sh"},
		"/bin/sh": {"command": "echo sub/good.sh", "shell": "{{raw .states.a.Output}}"},
	} {
		left, err := run(t, dir, set, reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))}))
		if err != nil || left.Output != "sub/good.sh\n" {
			t.Errorf("%q: %+v, %v", value, left, err)
		}
	}
}
