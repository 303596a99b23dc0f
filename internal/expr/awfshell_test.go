package expr

import (
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

// A command for a shell begins with the values that it uses; people read it with
// the values in their places.
func TestFillShell(t *testing.T) {
	world := Values{"input": map[string]any{"x": "it"}, "states.a": map[string]any{"Output": "a'b", "Response": map[string]any{"n": 5.0, "f$": []any{"c d"}}}}
	for text, want := range map[string]ShellText{
		`echo {{.inputs.x}}`:                                          {Run: `echo it`, Read: `echo it`},
		`echo {{.states.a.Output}}`:                                   {Run: `__espalier_1='a'\''b'; echo ${__espalier_1}`, Read: `echo a'b`, Values: 1},
		`echo '{{.states.a.Output}}'`:                                 {Run: `__espalier_1='a'\''b'; echo "${__espalier_1}"`, Read: `echo 'a'b'`, Values: 1},
		`echo {{raw .states.a.Output}}`:                               {Run: `echo a'b`, Read: `echo a'b`},
		`echo {{.states.a.Response.n}}`:                               {Run: `echo 5`, Read: `echo 5`},
		`{{range index .states.a.Response "f$"}}{{.}} {{.}}{{end}}`:   {Run: `__espalier_1='c d'; ${__espalier_1} ${__espalier_1}`, Read: `c d c d`, Values: 1},
		`{{.states.a.Response}}`:                                      {Run: `__espalier_1='{"f$":["c d"],"n":5}'; "${__espalier_1}"`, Read: `{"f$":["c d"],"n":5}`, Values: 1},
		`{{range $k, $v := .inputs}}{{$k}}{{end}}`:                    {Run: "x", Read: "x"},
		`echo {{trimSpace .states.a.Output}}`:                         {Run: `__espalier_1='a'\''b'; echo ${__espalier_1}`, Read: `echo a'b`, Values: 1},
		`{{json .states.a.Output}}`:                                   {Run: `__espalier_1='"a'\''b"'; "${__espalier_1}"`, Read: `"a'b"`, Values: 1},
		`{{join .states.a.Response.n ","}}{{print .states.a.Output}}`: {Run: `__espalier_1='a'\''b'; 5"${__espalier_1}"`, Read: `5a'b`, Values: 1},
	} {
		e, _ := ParseValue(AWFTemplate, text, source.Span{})
		if got, err := e.FillShell(world, ShellOptions{Doubts: []string{"states"}}); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	var e *Expr
	for _, text := range []string{`{{range $k, $v := .states.a.Response}}{{$k}}{{end}}`, `{{range $k, $v := .states.a}}{{range $k, $v := .}}{{$k}}{{end}}{{end}}`, `{{range $k, $v := index .states.b.Response 0}}{{$k}}{{end}}`} {
		world["states.b.Response"] = []any{map[string]any{"$(x)": 1.0}}
		e, _ = ParseValue(AWFTemplate, text, source.Span{})
		if got, err := e.FillShell(world, ShellOptions{Doubts: []string{"states"}}); err == nil {
			t.Errorf("a key was taken as code: %+v", got)
		}
	}
	// What nobody doubts cannot look like a value that is doubted, or hide one.
	world["input"] = map[string]any{"x": "it\x00w$(x)\x00", "l": []any{"\x00q", map[string]any{"k": "\x00o"}}}
	e, _ = ParseValue(AWFTemplate, `echo {{.inputs.x}} {{.states.a.Output}} {{index .inputs.l 0}} {{(index .inputs.l 1).k}}`, source.Span{})
	if got, err := e.FillShell(world, ShellOptions{Doubts: []string{"states"}}); err != nil || got.Run != `__espalier_1='a'\''b'; echo itw$(x) ${__espalier_1} q o` {
		t.Errorf("%q, %v", got.Run, err)
	}
	// What is one word is that everywhere.
	e, _ = ParseValue(AWFTemplate, `echo {{.inputs.y}} {{.states.a.Output}} {{.inputs.m.z}}`, source.Span{})
	world["input"] = map[string]any{"y": "y y", "m": map[string]any{"z": "z"}}
	if got, err := e.FillShell(world, ShellOptions{Doubts: []string{"states", "inputs"}, OneWord: []string{"inputs"}}); err != nil ||
		!strings.HasSuffix(got.Run, `; echo "${__espalier_1}" ${__espalier_2} "${__espalier_3}"`) {
		t.Errorf("%q, %v", got.Run, err)
	}
	for _, text := range []string{"{{", "{{nope}}"} {
		e, _ = ParseValue(AWFTemplate, text, source.Span{})
		if got, err := e.FillShell(world, ShellOptions{}); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
		if got, err := e.Fill(world, TemplateOptions{}); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
	e, _ = ParseValue(AWF, "inputs.x", source.Span{})
	if got, err := e.FillShell(world, ShellOptions{}); err == nil {
		t.Errorf("a condition was taken for a template: %+v", got)
	}
}

// How a value is written depends on what stands around it.
func TestPlacesInCommands(t *testing.T) {
	const data, number = "a $b", "7\n"
	for text, want := range map[string]string{
		`echo @ "@" '@'`:                                       `echo ${V} "${V}" "${V}"`,
		`echo x@y "x@y" 'x@y'`:                                 `echo x${V}y "x${V}y" 'x'"${V}"'y'`,
		`echo \@ "\@" '\@'`:                                    `echo ${V} "\\${V}" '\'"${V}"`,
		`echo $'a\'@' $'\@'`:                                   `echo $'a\''"${V}" $'\\'"${V}"`,
		`echo "$@" $@`:                                         `echo "\$${V}" \$${V}`,
		`echo "$$@ $#@ $x@"`:                                   `echo "${$}${V} ${#}${V} ${x}${V}"`,
		`echo "$(echo '@' "@")" '@'`:                           `echo "$(echo "${V}" "${V}")" "${V}"`,
		"echo \"`echo '@' \\\"@\\\"`\"":                        "echo \"`echo \\\"${V}\\\" \\\"${V}\\\"`\"",
		"echo `echo \\`echo '@'\\` '\\\\'`":                    "echo `echo \\`echo \"${V}\"\\` '\\\\'`",
		`"$(case x in x) echo '@';; esac)@"`:                   `"$(case x in x) echo "${V}";; esac)${V}"`,
		`$(case x in (x|@) '@' ;; esac) '@'`:                   `$(case x in (x|${V}) "${V}" ;; esac) "${V}"`,
		`echo case in '@') '@'`:                                `echo case in "${V}") "${V}"`,
		`a=(case in '@') '@'`:                                  `a=(case in "${V}") "${V}"`,
		`"${x:-'@'}" "${x#'@'}" ${x:-'@'}`:                     `"${x:-'${V}'}" "${x#"${V}"}" ${x:-"${V}"}`,
		`"${x:-"it's } @"}" '@'`:                               `"${x:-"it's } ${V}"}" "${V}"`,
		`"$(for x do case x in x) y '@';; esac; done)" '@'`:    `"$(for x do case x in x) y "${V}";; esac; done)" "${V}"`,
		`"${x:-"@"}" "${x/@/"@"}"`:                             `"${x:-"${V}"}" "${x/${V}/"${V}"}"`,
		`x # it's @` + "\n'@'":                                 `x # it's …` + "\n\"${V}\"",
		`x#'@' ${#x}'@' $#'@'`:                                 `x#"${V}" ${#x}"${V}" $#"${V}"`,
		"cat <<E '@'\nit's @ \"@\" \\@\nE\n'@'":                "cat <<E \"${V}\"\nit's ${V} \"${V}\" \\\\${V}\nE\n\"${V}\"",
		"cat <<'E'\nit's @ $x `y` \\z\nE\n'@'":                 "cat <<__espalier_end_1\nit's ${V} \\$x \\`y\\` \\\\z\n__espalier_end_1\n\"${V}\"",
		"cat <<-\"E\"\n\t@\n\tE\n'@'":                          "cat <<-__espalier_end_1\n\t${V}\n__espalier_end_1\n\"${V}\"",
		"cat <<''\nit's @\n\n'@'":                              "cat <<__espalier_end_1\nit's ${V}\n__espalier_end_1\n\"${V}\"",
		"cat <<E\n@ \\\nE\n'@'\nE\n'@'":                        "cat <<E\n${V} \\\nE\n'${V}'\nE\n\"${V}\"",
		`"$(case x in x) '@' ;| y) '@';; esac)@"`:              `"$(case x in x) "${V}" ;| y) "${V}";; esac)${V}"`,
		"cat <<E\n$(echo '@' \"@\")\nE":                        "cat <<E\n$(echo \"${V}\" \"${V}\")\nE",
		"$(cat <<E\n) @\nE\n) '@'":                             "$(cat <<E\n) ${V}\nE\n) \"${V}\"",
		"cat <<<'@' <(x '@') >(y '@')":                         "cat <<<\"${V}\" <(x \"${V}\") >(y \"${V}\")",
		`[[ '@' == @ && x =~ ^[[:alpha:]]+$ && 3 -gt 2 ]] '@'`: `[[ "${V}" == ${V} && x =~ ^[[:alpha:]]+$ && 3 -gt 2 ]] "${V}"`,
		`( (echo '@') ) '@'; ((echo '@') ) '@'`:                `( (echo "${V}") ) "${V}"; ((echo "${V}") ) "${V}"`,
		`$((echo '@'; echo "@") | x) '@'`:                      `$((echo "${V}"; echo "${V}") | x) "${V}"`,
		`$(( $(echo '@') + 1 )) '@'`:                           `$(( $(echo "${V}") + 1 )) "${V}"`,
		`declare -A m; m[@]='@'; "${m[@]}" "${m["@"]}"`:        `declare -A m; m[${V}]="${V}"; "${m[${V}]}" "${m["${V}"]}"`,
		`a[1]='@' a=([2]='@' '@')`:                             `a[1]="${V}" a=([2]="${V}" "${V}")`,
		`a[b'@' file[0-9]'@'`:                                  `a[b"${V}" file[0-9]"${V}"`,
		`export X=@; f() { local y='@'; }`:                     `export X=${V}; f() { local y="${V}"; }`,
		`"${ echo '@'; }" '@'`:                                 `"${ echo "${V}"; }" "${V}"`,
		"#!/bin/x\necho '@'":                                   "#!/bin/x\nV='a $b'; echo \"${V}\"",
		`'@`:                                                   `"${V}"'`, `"@`: `"${V}`, "`@": "`${V}", `$(@`: `$(${V}`, `${x:-@`: `${x:-${V}`, "<<E\n@": "<<E\n${V}", "case @": "case ${V}", "[[ @": "[[ ${V}",
	} {
		want = strings.ReplaceAll(want, "V=", "__espalier_1=")
		want = strings.ReplaceAll(want, "${V}", "${__espalier_1}")
		if !strings.HasPrefix(want, "#!") {
			want = "__espalier_1='a $b'; " + want
		}
		if got, err := fillShell(t, text, data, "sh"); err != nil || got.Run != want {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", text, got.Run, want, err)
		}
	}
	// Numbers are written as they are where a shell computes, and nothing else is.
	for text, want := range map[string]string{
		`$((@ + 1)) "$((@))" $(("@")) $((${x:-@}))`: `$((7 + 1)) "$((7))" $(("7")) $((${x:-7}))`,
		`((x = @)); for ((i=@;;)); do :; done`:      `((x = 7)); for ((i=7;;)); do :; done`,
		`$[@]; let x=@ "y = @"`:                     `$[7]; let x=7 "y = 7"`,
		`a[@]=1; a=([@]=x); ${a[@]} ${x:@:1}`:       `a[7]=1; a=([7]=x); ${a[7]} ${x:7:1}`,
	} {
		if got, err := fillShell(t, text, number, "bash"); err != nil || got.Run != want {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", text, got.Run, want, err)
		}
		if _, err := fillShell(t, text, "x", "bash"); err == nil {
			t.Errorf("%s took a word", text)
		}
	}
	for _, text := range []string{`[[ @ -gt 3 ]]`, `[[ 3 -eq "@" ]]`, `[[ x == y && ( '@' -lt 3 ) ]]`, `[[ x =~ [[:alpha:]] && "]]" == x && @ -ge 1 ]]`, "[[ @ \\\n -ne\\\n 3 ]]"} {
		if _, err := fillShell(t, text, number, "bash"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := fillShell(t, text, "x", "bash"); err == nil {
			t.Errorf("%s took a word", text)
		}
	}
	// Quotes that the author asks for are for whoever reads them.
	for text, value := range map[string]string{
		`x {{escape .states.a.Output}}`: "a $b", `x '{{escape .states.a.Output}}'`: "a $b", `x "{{escape .states.a.Output}}"`: "'a $b'",
		`sh -c {{escape .states.a.Output}}`: "'a $b'", `sh -c 'x {{escape .states.a.Output}}'`: "'a $b'", "sh <<E\n{{escape .states.a.Output}}\nE": "'a $b'",
	} {
		if got, err := fillShell(t, text, data, "sh"); err != nil || !strings.HasPrefix(got.Run, "__espalier_1="+shellQuote(value)+"; ") {
			t.Errorf("%s: %s, %v", text, got.Run, err)
		}
	}
	if got, err := fillShell(t, `{1..@}`, "7", "bash"); err != nil || got.Run != `{1..7}` {
		t.Error(got, err)
	}
	if got, err := fillShell(t, `echo @ "@"`, "x", "zsh"); err != nil || got.Run != `__espalier_1='x'; echo ${=__espalier_1} "${__espalier_1}"` {
		t.Error(got, err)
	}
}

// Where a shell evaluates what stands in a variable, nothing that could run may
// stand; all else may.
func TestEvaluatedValues(t *testing.T) {
	for _, text := range []string{
		`read @`, `unset "m[@]"`, `printf -v @ x`, `[ -v @ ]`, `[ @ = x ]`, `[[ -v @ ]]`, `declare "@"`, `declare -a x="@"`, `x=(); declare x=@`, `export @`, `shift @`, `echo >&@`,
		`n=@; $((n + 1))`, `n="x@"; [[ $n -gt 3 ]]`, `export n=@; ${x:n}`, `for n in @; do ((n)); done`, `n=@; let y=n`, `n=@; m=n; $((m))`, `declare -i y; y=n; n=@`, `n=@; a[n]=1`,
	} {
		if got, err := fillShell(t, text, "a[$(x)]", "bash"); err == nil {
			t.Errorf("%s: %s", text, got.Run)
		}
		if _, err := fillShell(t, text, "some words", "bash"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`exit @`, `printf %d @`, `print -f %d @`, `printf "$f" @`} {
		if got, err := fillShell(t, text, "$(x)", "zsh"); err == nil {
			t.Errorf("%s: %s", text, got.Run)
		}
	}
	for _, text := range []string{`[ "@" = x ]`, `n=@; $((m))`, `n=@; m=$(echo "$n" | wc -l); $((m + ${#n})); (( $(echo $n) ))`, `n=@; [[ $(wc <<< "$n") -gt 3 ]]`, `curl -d a[@]=1`, `export X=@`, `local x="@"`, `printf %d @`, `printf '%s' @`, `set -- @`} {
		if _, err := fillShell(t, text, "a[$(x)]", "bash"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"<<@\nx\n@", "<<'@E'\n", strings.Repeat("$(", 1000) + "@"} {
		if got, err := fillShell(t, text, "x", "bash"); err == nil {
			t.Errorf("%s: %s", text, got.Run)
		}
	}
}

// Brackets that look like arithmetic and are not do not take for ever.
func TestManyBrackets(t *testing.T) {
	for _, one := range []string{"$((", "((", "$(( (", "${x[", "a[", "$[", "[[ x[", "`", "$(case x in x) "} {
		for _, end := range []string{"", " ) ", "]", ") ) )"} {
			fillShell(t, strings.Repeat(one, 100)+"@"+strings.Repeat(end, 100), "1", "bash")
		}
	}
}

// Programs that read their arguments or their input as code are known.
func TestCodeReaders(t *testing.T) {
	for command, want := range map[string]string{
		`eval @`: "eval", `eval "x @"`: "eval", `trap 'rm @' EXIT`: "trap", `trap x @`: "", `sh -c '@'`: "sh", `bash -ec "x @"`: "bash", `bash -e -c @`: "bash", `sh -c x sh "@"`: "", `bash run.sh -c @`: "",
		`/bin/sh -c @`: "sh", `sudo bash -c "@"`: "bash", `timeout 5 sh -c @`: "sh", `docker exec box sh -c "@"`: "sh", `find . -exec sh -c '@' \;`: "sh", `X=1 sh -c @`: "sh", `x | xargs sh -c '@'`: "sh",
		`ssh host @`: "ssh", `ssh -p 22 host "ls @"`: "ssh", `ssh -i @ host`: "", `ssh @`: "", `ssh "@" ls`: "", `python3 -c "@"`: "python", `python3 x.py @`: "", `python3 -c x @`: "", `perl -ne '@'`: "perl", `node -e @`: "node",
		`awk '{ print "@" }'`: "awk", `awk -v x="@" '{ print x }'`: "", `awk -F , '@' f`: "awk", `awk '{ print }' @`: "", `gawk -f x @`: "", `sed "s/x/@/"`: "sed", `sed -i -e s/x/@/ f`: "sed", `sed -n p @`: "", `sed -e p -e @`: "sed",
		`jq ".x == \"@\""`: "jq", `jq --arg x "@" .y`: "", `jq -r --arg x 1 @`: "jq", `jq . @`: "", `sqlite3 db "insert @"`: "sqlite3", `psql -c "@"`: "psql", `su me -c @`: "su", `echo eval @`: "", `evaluate @`: "",
		`echo "@" | sh`: "sh", `echo @ | grep x | bash -s`: "bash", `echo "@" | bash x.sh`: "", `x | sh -s "@"`: "", `echo @; x | sh`: "", `echo "$(echo @ | sh)"`: "sh", `echo "$(echo @)" | sh`: "",
		"cat <<E | ssh host bash\n@\nE": "bash", "cat <<E | sort\n@\nE": "", "sh <<E\n@\nE": "sh", "bash -s <<'E'\n@\nE": "bash", "sh run.sh <<E\n@\nE": "", "ssh host <<E\n@\nE": "ssh", "ssh host cat <<E\n@\nE": "", "ssh host bash -s <<E\n@\nE": "bash", "python3 - <<E\n@\nE": "python", "python3 <<'E'\n@\nE": "python",
		"python3 -c x <<E\n@\nE": "", "cat <<E\n@\nE": "", "bash <<< '@'": "bash", "sqlite3 db <<E\n@\nE": "sqlite3", `eval x; echo @`: "", `if x; then eval @; fi`: "eval", `eval "$(echo @)"`: "eval", `sh -c "ls $(dirname '@')"`: "sh",
		`echo "$(eval '@')"`: "eval", `case x in x) eval @;; esac`: "eval", `f() { eval "@"; }`: "eval", `command eval @`: "eval", `eval {{escape .states.a.Output}}`: "", `python3 -c '{{.states.a.Output | escape}}'`: "python",
	} {
		command = strings.ReplaceAll(command, "@", "{{.states.a.Output}}")
		from := strings.Index(command, "{{")
		if got := CodeReaders(command, [][]int{{from, strings.Index(command, "}}") + 2}}); got[0] != want {
			t.Errorf("%s: %q", command, got[0])
		}
	}
}

// A file may hold anything, and marks as well: it is data in a command.
func TestFilesAreData(t *testing.T) {
	o := ShellOptions{Doubts: []string{"states"}, TemplateOptions: TemplateOptions{ReadFile: func(string) (string, error) { return "x\x00w", nil }}}
	e, _ := ParseValue(AWFTemplate, `echo {{readFile "f"}} {{.states.a.Output}}`, source.Span{})
	got, err := e.FillShell(Values{"states.a.Output": "$(y)"}, o)
	if want := "__espalier_1='xw'; __espalier_2='$(y)'; echo ${__espalier_1} ${__espalier_2}"; err != nil || got.Run != want {
		t.Errorf("%q, %v", got.Run, err)
	}
}

func fillShell(t *testing.T, text, value, shell string) (ShellText, error) {
	t.Helper()
	e, list := ParseValue(AWFTemplate, strings.ReplaceAll(text, "@", "{{.states.a.Output}}"), source.Span{})
	if list.Errors() {
		t.Fatalf("%s: %v", text, list)
	}
	return e.FillShell(Values{"states.a.Output": value}, ShellOptions{Doubts: []string{"states"}, Shell: shell})
}

// Whatever a command looks like, a value stands in it only within the quotes at
// its beginning.
func FuzzFillShell(f *testing.F) {
	for _, one := range []string{
		`"@"`, `'@'`, "<<E\n@\nE", "<<'E'\n@", "$((@))", "`@`", "# @", `\@`, `$'@'`, "${x:-@}", "<<-'E' <<F\n@\n\tE\n@", "[[ @ -gt 1 ]]", "$(case @ in a) '@';; esac)",
		"case @ in (a|@) '@';; *) \"@\" ;;& esac '@'", "\"`echo \\\"@\\\" \\`echo '@'\\``\"", "[[ x =~ [[:alpha:]]@ && '@' -eq 1 ]]", "a[@]=1; a=([@]=@ '@')", "declare -A m; m[@]='@'", "${x:@} ${x#'@'} \"${x/'@'/@}\" ${x[@]}",
		"$((@ + (@))) $((echo '@'; x) ) $[@]", "((@)) ((echo '@'); x)", "<<\\E >&@\n\\@ $@ `@`\\\nE", "<<E\n\\@ \\\nE\n@\nE\n'@'", "cat <<@\n@", "$'\\@ @\\'' $\"@\" $@", "${ echo '@'; }", "f() { '@'; }; function g { \"@\"; }",
		"eval '@'; sh -c \"@\" @; sh <<E\n@\nE", "let x=@; declare -i n=@; export X=@", "# @\n#!@\n'@", "\"@", "`@", "$(@", "${@", "$((@", "[[ @", "case @", "case x in @", "<<E\n@", "((((((((((((@", "$(($(($((@)",
	} {
		f.Add(one, "v'\"$(x)")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if strings.ContainsAny(text, "\x00{}") || strings.Contains(text, "SECRET") {
			return
		}
		value = "SECRET" + strings.ReplaceAll(value, "\x00", "")
		e, list := ParseValue(AWFTemplate, strings.ReplaceAll(text, "@", "{{.states.a.Output}}"), source.Span{})
		if list.Errors() {
			return
		}
		got, err := e.FillShell(Values{"states.a.Output": value}, ShellOptions{Doubts: []string{"states"}})
		if err != nil {
			return
		}
		code := got.Run
		if line, rest, ok := strings.Cut(code, "\n"); ok && strings.HasPrefix(line, "#!") {
			code = rest
		}
		code = strings.TrimPrefix(code, "__espalier_1="+shellQuote(value)+"; ")
		for line := range strings.Lines(code) {
			if before, _, found := strings.Cut(line, "SECRET"); found && !strings.Contains(before, "#") {
				t.Errorf("%q: %q", text, got.Run)
			}
		}
	})
}

// Whatever a template does with a value, it stays data, and people read what the
// template writes elsewhere.
func TestDoubtStays(t *testing.T) {
	world := Values{
		"input":    map[string]any{"list": []any{"x", "y"}, "s": "x,y", "n": 7.0},
		"states.a": map[string]any{"Output": "SECRET a,SECRET b", "Response": map[string]any{"l": []any{"SECRET", 1.0, []any{"SECRET"}}, "m": map[string]any{"k": "SECRET"}, "y": "SECRET", "SECRET": map[string]any{"l": []any{"SECRET"}}}},
		"loop":     map[string]any{"index": 0.0, "item": "SECRET"},
	}
	world["states"] = map[string]any{"a": world["states.a"]}
	for _, text := range []string{
		`{{.states.a.Output}}`, `{{.states.a.Response}}`, `{{.states.a.Response.l}}`, `{{.states}}`, `{{json .states}}`, `{{json .}}`, `{{printf "%q" .states.a.Output}}`,
		`{{split .states.a.Output ","}}`, `{{json (split .states.a.Output ",")}}`, `{{printf "%q" (split .states.a.Output ",")}}`, `{{js (split .states.a.Output ",")}}`, `{{html (split .states.a.Output ",")}}`,
		`{{print (split .states.a.Output ",")}}`, `{{println .states.a.Response}}`, `{{split .states.a.Output "," | trimSpace}}`, `{{index (split .states.a.Output ",") 1}}`, `{{slice (split .states.a.Output ",") 1}}`,
		`{{join (split .states.a.Output ",") "-"}}`, `{{join .inputs.list .states.a.Output}}`, `{{join .states.a.Response.l ","}}`, `{{join .states.a.Output ","}}`, `{{split .inputs.s .states.a.Output}}`, `{{slice .states.a.Output 0 8}}`,
		`{{escape (split .states.a.Output ",")}}`, `{{escape .states.a.Response.l}}`, `{{escape (escape .states.a.Output)}}`, `{{json (escape .states.a.Output)}}`, `{{.states.a.Output | html | js | printf "%s%d" "x" 5}}`,
		`{{with .states.a.Response}}{{range .l}}{{.}} {{end}}{{.m}}{{end}}`, `{{$x := index .states.a.Response.l 0}}{{$x}}`, `{{or .inputs.none .states.a.Output}}`, `{{index .states.a.Response (index .inputs.list 1)}}`, `{{index .states.a.Response .loop.Item "l" 0}} {{index .inputs .loop.Item}} {{index .states.a.Output 0}}`, `{{printf .states.a.Output}}`, `{{printf "%s" .}}`, `{{range split .states.a.Output ","}}[{{.}}]{{end}}`, `{{define "x"}}<{{.}}>{{end}}{{template "x" .states.a.Output}}`,
		`{{json .inputs.list}} {{split .inputs.s ","}} {{.inputs.n}} {{printf "%03d" .inputs.n}} {{js .inputs.s}}`,
	} {
		e, list := ParseValue(AWFTemplate, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		world["input"].(map[string]any)["none"] = ""
		got, err := e.FillShell(world, ShellOptions{Doubts: []string{"states", "loop"}, Shell: "sh"})
		read, readErr := e.Eval(world)
		code := regexp.MustCompile(`^(__espalier_\d+=('[^']*'|\\')+; )*`).ReplaceAllString(got.Run, "")
		if err != nil || readErr != nil || strings.Contains(code, "SECRET") || strings.Contains(got.Run+got.Read, "\x00") {
			t.Errorf("%s: %q, %v, %v", text, got.Run, err, readErr)
		}
		if got.Read != read {
			t.Errorf("%s: people read %q, and it is %q", text, got.Read, read)
		}
	}
}
