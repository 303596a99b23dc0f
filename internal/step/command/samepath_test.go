//go:build unix

package command_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// ordinary are commands as people write them, with @ where a value stands.
var ordinary = []string{
	`echo @ "@" '@' pre@post "pre@post" 'pre@post'`,
	`X=@; Y="@" Z='@'; echo "$X-$Y-$Z"`,
	`export X=@; sh -c 'echo "[$X]"'`,
	"case @ in w*|7) echo yes;; *) echo no;; esac",
	`echo "$(case x in x) echo '@' "@" @;; esac)"`,
	`echo "$(case x in (x) echo '@';; y) echo "'@'";; esac) '@'"`,
	"echo \"`case x in x) echo '@';; esac`\"",
	"y=$(case @ in w*) echo 'it is @' ;; esac); echo \"$y '@'\"",
	`echo "$(case $(echo x) in x) case y in y) echo '@';; esac;; esac)" '@'`,
	`echo "$(echo case in esac '@')" "'@'"`,
	`for f in a @ b; do echo "- $f @"; done`,
	`f() { echo "$1: '@'"; }; f @; f '@'`,
	`echo "$(f() { echo '@'; }; f)"`,
	"cat <<EOF\nit's @ \"@\" '@' $((1+1)) $(echo \"@\" '@') \\@ \\$@ ${none:-@}\nEOF\necho '@'",
	"cat <<'EOF'\nit's @ \"@\" '@' $((1+1)) $(echo @) \\@ \\\\ ${none:-@}\nEOF\necho '@'",
	"cat <<\"EOF\" | tr a b\n@ $x\nEOF\necho '@'",
	"cat <<-EOF\n\t@\n\tEOF\necho '@'",
	"x=$(cat <<EOF\nit's @ (\nEOF\n); echo \"$x '@'\"",
	"x=\"$(cat <<'EOF'\nit's @ ) \\n\nEOF\n)\"; echo \"$x '@'\"",
	"cat <<A - <<B\n@\nA\n'@'\nB\necho '@'",
	"if true; then\n  cat <<EOF > f; cat f\n@\nEOF\nfi; rm -f f; echo '@'",
	"# don't say \"@\necho '@' # it's @\necho \"@\" # `",
	"echo a#'@' b '#' \"# '@'\" ${#HOME} '@' >/dev/null; echo '@' # \"",
	"echo one \\\n  '@' \\\n  \"@\"",
	`echo \'@\' \"@\" "\"@\"" "\\@" "a\@" "\$@" '\@'`,
	`printf "%s\n" "C:\@\x"; printf '%s\n' 'C:\@'`,
	`echo "a b" | grep -c "\(@\|b\)"`,
	`test "@" = '@' && [ @ = "@" ] && echo same || echo other`,
	"echo \"`echo '@' \\\"@\\\"`\" `echo @`",
	"echo `echo \\`echo '@'\\`` '@'",
	`echo "a $(echo "b $(echo '@' "c @")") d '@'" '@'`,
	`(cd . && echo "@"); { echo '@'; }; ( (echo '@') )`,
	`echo "${none:-@}" "${none:-'@'}" ${none:-'@'} "${none:-"@"}" ${none:+@}`,
	`x=w0rd7; echo "${x#@}" "${x%%@}" "${x#'@'}"`,
	`while read -r line; do echo "$line '@'"; done <<EOF` + "\n@\nEOF",
	`echo "@" > out-@; cat out-@ "out-@" 'out-@'; rm -f out-@`,
	`echo '{"a": "@", "b": ["@"]}'; echo "{\"a\": \"@\"}"`,
	`set -- @ "@"; echo $# "$*"`,
	`echo @ | while read a; do echo "[$a]" '@'; done; echo "@" && echo '@' || echo "@"; ! echo '@'`,
	`echo "it's" '@' "it's @" '"' '@' "'"`,
	`echo "$@" '@' $# '@' $? "$$" >/dev/null; echo "'@'"`,
	`echo $((1 + 2)) '@' "$((3 * (4 + 5))) '@'"`,
	`x=3; if [ $x -gt 2 ] && [ "@" != "" ]; then echo "big '@'"; fi`,
	"echo '\n  multi @\n  line' \"\n'@'\n\"",
	"find . -maxdepth 0 -exec echo {} '@' \\;",
	`echo "a" "$(echo ")" '@')" '@'`,
	`echo "$( # it's a comment )` + "\n" + `echo '@')" "'@'"`,
	`echo "$(echo \) '@')" "'@'"`,
	"echo \"$(if true; then echo '@'; fi; for i in 1; do echo \"@\"; done)\"",
	`echo "{{if .states.a.Output}}yes '@'{{else}}no{{end}}" {{range split .states.a.Output "0"}}'{{.}}' {{end}}`,
	`echo "cost: \$@ 100%" "$HOME@" >/dev/null; printf '%s\n' "a$ @"`,
	"cat << EOF; echo '@'\n$(cat <<'IN'\nit's @ $HOME\nIN\n) '@'\nEOF\necho \"@\"",
	"cat <<\\EOF\n\\@ \\\\ \"@\nEOF\necho '@'",
	"cat <<-'EOF'\n\t\tit's @\n\tEOF\necho '@'",
	"cat <<EOF\nit's @ \\\nEOF\n'@'\nEOF\necho '@'",
	"cat <<EOF | sed 's/it/It/' && echo '@'\nit's @\nEOF\nf() { cat <<EOF\nit's '@' $1\nEOF\n}; f '@'",
	"for i in 1 2; do cat <<EOF\n$i it's @\nEOF\ndone; echo '@'",
	"x=`cat <<EOF\nit's @\nEOF\n`; echo \"$x '@'\"",
	"echo '<<EOF' \"<<EOF\" '@'; echo $((1<<2)) '@'; echo \"'@'\"",
	`if [ -n "@" ]; then case '@' in (w*) echo 'one @';; 7 | 8 ) echo "two '@'" ;; esac; fi; echo '@'`,
	"case x in\n  # it's a comment\n  a|b) echo no ;;\n  *)\n    echo 'it is @'\n    ;;\nesac\necho '@'",
	`case ${none:-'@'} in w*) echo "word '@'";; *) echo '@';; esac; echo "${?}'@'" "${#}@"`,
	"echo \"`echo x\\\\\\\"'@' \\\"@\\\"`\" \"${none:-`echo \"@\" '@'`}\"",
	`x=$(case w in w) case @ in w*) echo '@';; *) echo "'@'"; esac;; esac); echo "$x" '@'`,
	`case '@' in *'@'*) echo "in '@'";; esac; case "(@)" in "("*) echo '@';; esac`,
	`echo "$(echo "$(echo "$(echo '@' "@" @)" '@')" "'@'")" "'@'"`,
	"echo \"$(echo \"`echo '@' \\\"@\\\"`\")\" '@'",
	"echo `echo \"@\" '@' \\\\@ \\$HOME >/dev/null; echo \\`echo '@'\\` '@'`",
	`echo '{"k":"@"}' | sed -n 's/.*"k":"\(.*\)".*/\1/p'; echo "x@y" | awk -v v="@" '{ sub(v, "<" v ">"); print $0 }'`,
	`echo "{{if eq .states.a.Output "7"}}it's '@'{{else}}it is "@"{{end}}" '@'`,
	`{{with .states.a.Output}}echo '{{.}}' "{{.}}" {{.}}{{end}}; echo '@'`,
	`{{range $i, $v := split .states.a.Output "r"}}echo '{{$i}} {{$v}}' "{{$v}}"; {{end}}echo '@'`,
	`echo '{{trimSpace .states.a.Output}}' "{{printf "<%s>" .states.a.Output}}" '{{json .states.a.Output}}'`,
	`echo {{escape .states.a.Output}} "{{escape .states.a.Output}}" pre{{escape .states.a.Output}}post`,
	`sh -c "echo {{escape .states.a.Output}}"; sh -c 'echo {{escape .states.a.Output}}'; echo '{{escape .states.a.Output}}'`,
	`echo '@'"@"@"@"'@' "'@'"'"@"' \@\@ x\'@\' ~/@ >/dev/null; echo ./@ ../@ /@ -@ --@=@ @:@ @,@`,
	`X='@' Y=@ sh -c 'echo "$X $Y"'; env A='@' B="@" sh -c 'echo "$A $B"'`,
	`echo one >"/dev/null" 2>&1; echo '@' 2>&1 >/dev/stdout | cat; { echo '@' >&2; } 2>&1; echo '@' 1>&2 2>/dev/null`,
	`true && { echo '@' || echo "@"; } && ( echo '@'; echo "@" ) | cat & wait; echo '@'`,
	`until true; do echo '@'; done; while false; do :; done; if false; then :; elif true; then echo '@'; else echo "@"; fi`,
	`! false && echo '@'; { echo '@'; }; time_it() { echo "$1"; }; time_it '@'`,
	`echo "${none:-$(echo '@' "@")}" ${none:-"$(echo '@')"} "${none:-` + "`echo '@'`" + `}"`,
	`x=w0rd7; echo "${x#'@'}" "${x%"@"}" ${x##@} "${x%'7'}@" "${#x} '@'" "$#'@'" "$?'@'" "$$" >/dev/null; echo '@'`,
	`echo "a\
@" '@' "\$x @" "\"'@'\"" "\\'@'" '\'@'\'`,
	`printf '%s %d %5s|%-5s|\n' "@" 3 '@' "@"`,
	`[ "@" = "w0rd" ] && [ "x@" != x ] && test -n '@' && echo '@'; [ "$(echo '@')" = '@' ] && echo same`,
	`echo "$((1 + $(echo 1))) '@'" $(( (2+3) * 4 )) '@' "$((1>2 ? 3 : 4))'@'"`,
	`( (echo '@'; echo "@") | cat); (  (echo '@')); echo "$( (echo '@') )" "$( (echo '@'; echo x) | cat)"`,
	`echo a;echo '@'&&echo "@"||echo '@';(echo '@');{ echo '@';};echo '@'|cat;echo '@'#no`,
	`set -e; x='@'; y="${x}-@"; echo "$y" # it's done`,
	`IFS=,; set -- a,@,b; echo "$#" "$2" '@'`,
	`exec 3>&1; echo '@' >&3; exec 3>&-; echo "@"`,
}

var ordinaryInBash = []string{
	`a=(x @ "@" '@'); echo "${#a[@AT]}" "${a[1]}" "${a[*]}"`,
	`declare -A m; m[@]=1; m["k-@"]=2; m['q']='@'; echo "${m[@]}" "${m["k-@"]}" "${!m[*]}"`,
	`if [[ "@" == "w0rd" && 3 -gt 2 ]]; then echo yes; else echo no; fi`,
	`if [[ 3 -gt 2 && @ == w* ]] || [[ @ =~ ^[0-9]+$ ]]; then echo yes; else echo no; fi`,
	`[[ @ =~ ^[[:alnum:]]+$ && 1 -eq 1 ]] && echo "yes '@'"`,
	`read -r a b <<< "@ x"; echo "$a/$b"; cat <<< @; cat <<< '@'`,
	`echo $'it\'s\t@' $'@\n' $"@"`,
	`diff <(echo '@') <(echo "@") && echo "same '@'"`,
	`for ((i = 0; i < 2; i++)); do echo "$i '@'"; done; (( 1 << 2 )); echo "'@'" $((1 << 2)) '@'`,
	`x=w0rd; echo "${x/@/y}" "${x//0/@}" "${x:1:2}" "${x^^} '@'"`,
	`mapfile -t l <<'EOF'` + "\n@\nb\nEOF\n" + `echo "${#l[*]} ${l[0]}"`,
	`function f { local x="@"; echo "$x '@'"; }; f`,
	`echo {a,b}@ "{a,@}"`,
	`case "@" in [[:alpha:]]*) echo "letters '@'";; [0-9]) echo 'digit';;& *) echo "more @";; esac`,
	`echo "$(case "@" in [[:alpha:]]*) echo "letters '@'";& [0-9]) echo 'digit @';;& *) echo "more '@'";; esac)"`,
	`for i in {1..3}; do echo "$i '@'"; done; echo {1..@} {a..@} x{9..@..2}y`,
	`declare -a b=("@" '@' x@); b+=('@'); b[7]="@"; b[1+1]='@'; echo "${b[@AT]}" "${b[7]}" "${#b[*]}" '@'`,
	`declare -A m=([@]='a @' ["b @"]="@"); echo "${m[@]}" "${m['b @']}" "${m["b @"]}" '@'`,
	`local_it() { local a="@" b='@' c=@; local -a d=('@'); declare -r e='@'; echo "$a $b $c ${d[0]} $e"; }; local_it`,
	`[[ "@" =~ ^(w|[0-9])(.*)$ ]] && echo "${BASH_REMATCH[1]} '@'"; [[ '@' == w* || "@" == [0-9] ]] && echo '@'`,
	`[[ @ =~ ^w0 && "x y" =~ (x|it) && 2 -gt 1 && -n '@' ]] && echo "yes '@'"; [[ ! -e '@' && ( "@" = '@' ) ]] && echo '@'`,
	`x='a]]b'; if [[ $x == *"]]"* && "@" == '@' ]]; then echo "yes '@'"; fi; [[ [[ == "[[" ]] || echo '@'`,
	`(( 3 > 2 )) && echo '@'; for ((i=0;i<1;i++)) { echo "$i '@'"; }; x=$((1+(2*3))) && echo "$x" '@'; let y=1+1; echo $y '@'`,
	`if ((1)); then echo '@'; fi; while ((0)); do :; done; echo $[1+1] '@'`,
	`x=abcdef; echo "${x:1}" "${x:(-2)}" "${x:1:$((1+1))}" "${x/b/'@'}" "${x/'b'/"@"}" "${x//[bc]/@}" "${x/#a/@}" "${x^}" '@'`,
	`echo '@' |& cat; echo '@' &>/dev/null; echo "@" &>>/dev/null; cat < <(echo '@') <<< "no"; cat <<< "it's '@'"`,
	`shopt -s extglob
case '@' in +([0-9])) echo "number '@'";; !(x|y)) echo "word '@'";; esac; [[ '@' == @AT(w0rd|7) ]] && echo '@'`,
	`select_it() { echo "'@'"; }; function other() { echo '@'; }; function third { echo "@"; }; select_it; other; third`,
	`printf -v out '%s-%s' '@' "@"; echo "$out"; read -r a <<< '@'; echo "$a"; mapfile -t l < <(printf '%s\n' '@' "@"); echo "${l[1]}"`,
	`export X='@' Y="@" Z=@; bash -c 'echo "$X $Y $Z"'; readonly R='@'; echo "$R"; typeset t="@"; echo "$t"`,
	`echo $'a\\'"'@'" $'\t@' $'it\'s @\n' "$'@'" '@'`,
	`f() { echo "'@'" '@' @; }; export -f f; bash -c 'f; echo "$0"' '@'; declare -fx f`,
	`coproc cat; echo '@' >&"${COPROC[1]}"; read -r y <&"${COPROC[0]}"; echo "$y"`,
}

// evaluated are commands in which shells run what they find in the value of a
// variable: in arithmetic, in subscripts, and where names are expected.
var evaluated = []string{
	`echo $((@)) $(( 1 + @ ))`, `echo $(("@"))`, `echo $((${none:-@}))`, `echo $(( $(echo 1) + @ ))`, `((x = @)); (("@" > 3))`, `echo $[@] $["@"]`,
	`for ((i = @; i < 1; i++)); do :; done`, `cat <<EOF` + "\n$((@)) $[@] ${x:@}\nEOF", "echo `echo $((@))` \"`echo \\$((@))`\"", `echo "$(echo $((@)))"`,
	`let y=@`, `let "y = @ + 1"`, `let 'y = @'`, `declare -i n=@`, `declare -i n; n=@`, `typeset -i n="@"`, `f() { local -i n='@'; }; f`, `integer n=@`, `float n=@`,
	`a[@]=1`, `a["@"]=1`, `a[0+@]+=1`, `a=(1); echo ${a[@]} "${a['@']}" ${#a[@]}`, `a=([@]=1)`, `a=(["@"]=1 [1]=@)`, `a=(1); echo $a[@] "$a[@]"`,
	`x=abc; echo ${x:@} "${x:1:@}" ${x: "@" }`, `set -- a b; echo ${@AT:@} "${*:1:@}"`, `x=abc; echo ${x[1,@]} $x[1,@]`, `x=abc; echo ${(l:@:)x}`,
	`[[ @ -gt 3 ]]`, `[[ 3 -eq "@" ]]`, `[[ "]]" != x && @ -gt 3 ]]`, `[[ x =~ [[:alpha:]] && '@' -le 3 ]]`, "[[ @ \\\n-eq\\\n 3 ]]", `[[ a == b || ( "x" != "-eq" && @ -ne 3 ) ]]`,
	`[[ -v @ ]]`, `[[ -v "@" ]]`, `[ -v "@" ]`, `test -v '@'`, `[ -t "@" ]`, `[[ -t @ ]]`, `[ "@" -eq 3 ]`, `test 3 -gt "@"`, `[[ -R @ ]]`,
	`read "@" </dev/null`, `echo 1 | read -r @`, `printf -v "@" x`, `unset "@"`, `unset -v '@'`, `declare "@=1"`, `declare @`, `export "@=1"`, `export @`, `typeset "@"`, `readonly "@"`,
	`declare -a x="@"`, `declare -A x='@'`, `declare -a x; declare x="@"`, `x=(); declare x=@`, `declare -n q=@; echo $q`, `set -A @ 1`, `mapfile -t "@" </dev/null`, `getopts x "@"`,
	`printf %d "@"`, `printf '%s %f' x "@"`, `printf "%*s" "@" x`, `f=%d; printf "$f" "@"`, `print -f %d @`, `exit "@"`, `f() { return @; }; f`, `shift "@"`, `while :; do break @; exit; done`, `repeat @ echo`,
	`n=@; echo $((n))`, `n="@"; echo $((1 + n))`, `n='@'; [[ n -gt 3 ]]`, `n=@; [[ $n -gt 3 ]]`, `n=@; let y=n`, `n=@; declare -i y; y=n`, `export n=@; echo $((n))`, `f() { local n=@; echo ${x:n}; }; f`,
	`for n in "@"; do echo $((n)); done`, `for n in @; do ((n > 3)); done`, `n=@; a=(1 2); echo ${a[n]}`, `n=@; a[n]=1`, `n=(@); echo $((n))`, `n=x@; m=n; echo $((m))`, `n=@; a=(1); echo ${a[$n]} "${a[n]}"`, `eval "echo $(echo '@')"`,
	`declare -A m; m[@]=1; m["@"]=2; echo "${m[@]}" "${m['@']}" "${m[x@]}"`, `declare -A m=([@]=1); m+=(["@"]=2)`, `declare -A m; unset "m[@]"`, `declare -A m; [[ -v m[@] ]]`, `declare -A m; ((m[@]++))`,
	`typeset -A m; m[@]=1; echo ${m[@]}`, `echo {1..@} {a..@..2}`, `cat <<@` + "\nx\n@", `cat <<'@E'` + "\nx\n@E", `sh -c "echo {{escape .states.a.Output}}"`, `sh -c 'echo {{escape .states.a.Output}}'`,
	`bash -ec "echo \"$(echo {{escape .states.a.Output}})\"" || :`, `echo $'a\@' $'\@'`, `echo "$@" $@ ${x$@}`, `echo $@[0] ~@ !@ =@`, `@`, `@=1`, `@() { :; }`, `function @ { :; }`, `@ | cat & wait`,
	`echo hi >&@`, `echo hi &>@`, `echo hi >| "@"`, `cat <&@`, `echo hi > "@"; rm -f -- "@"`, `exec {fd}<&@`, `cd "@"`, `time @`, `exec @`, `. ./@`, `alias q="@"`, `hash @`, `select y in @; do break; done`,
}

// hostile are values that run something wherever they are taken for code; wild are
// those for places where a shell computes or expects names.
var (
	hostile = []string{
		"a[$(>pwned)`>pwned`]", "'\n>pwned\n'", "\"\n>pwned\n\"", "x\nEOF\n>pwned\n", ")\n>pwned\n(",
		"esac\n>pwned\n", "*(e:'>pwned':)",
	}
	wild = []string{
		"$(>pwned)`>pwned`", "a[$(>pwned)`>pwned`]", "a[$(>pwned)0]=1", "($(>pwned))", "-v a[$(>pwned)]",
		"*(e:'>pwned':)", "1))\n>pwned\n((", "__espalier_1",
	}
)

// outcome is what one of many commands did.
type outcome struct {
	said string
	exit string
	ran  bool // there is a file called pwned
}

// together runs commands one after the other in subshells of one shell, with their values in the environment.
func together(t *testing.T, program string, commands []shell.Command) []outcome {
	t.Helper()
	const (
		// The output is complete when the processes that the command left running have ended, too.
		driver = `while [ $# -gt 0 ]; do
n=$1 c=$2; shift 2
o=$( i=1; while [ "$i" -le "$n" ]; do eval "export __espalier_$i=\"\$1\""; shift; i=$((i + 1)); done
unset i; set --; (eval "$c") </dev/null 2>&1; echo "$?" >st; printf .)
while [ "$n" -gt 0 ]; do shift; n=$((n - 1)); done
read -r r <st; p=; if [ -e pwned ]; then rm -f pwned; p=ran; fi
printf '%s\n=-=%s%s=-=\n' "${o%.}" "$r" "$p"
done`
		ends = "\n=-=([0-9]+)(ran)?=-=\n"
	)
	var out []outcome
	for batch := range slices.Chunk(commands, 400) {
		args := []string{"-c", driver, program}
		for _, c := range batch {
			args = append(append(args, strconv.Itoa(len(c.Values)), c.Text), c.Values...)
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = t.TempDir()
		raw, err := cmd.Output()
		before := len(out)
		for rest := string(raw); ; {
			at := regexp.MustCompile(ends).FindStringSubmatchIndex(rest)
			if at == nil {
				break
			}
			out = append(out, outcome{said: rest[:at[0]], exit: rest[at[2]:at[3]], ran: at[4] >= 0})
			rest = rest[at[1]:]
		}
		if len(out)-before != len(batch) {
			t.Fatalf("%s: %d of %d commands ran: %v, %+v",
				program, len(out)-before, len(batch), err, out[max(0, len(out)-2):])
		}
	}
	return out
}

// filled is a command with a value in it, for a shell.
func filled(program, template, value string) (expr.ShellText, error) {
	dir := "/"
	job := steptest.Play{}.Job("command", dir, &steptest.Log{}, &steptest.World{})
	reads(dir, map[string]string{"states.a.Output": string(step.JSON(value))})(job)
	return job.FillShell(template, program, job.Values(), nil)
}

// with puts something into the places of a command where a value stands.
func with(one, what string) string {
	one = strings.ReplaceAll(strings.ReplaceAll(one, "@AT", "\x00"), `"$@"`, "\"$\x00\"")
	return strings.ReplaceAll(strings.ReplaceAll(one, "@", what), "\x00", "@")
}

// shells are those that are here.
func shells() []string {
	var out []string
	known := map[string]bool{}
	for _, name := range []string{"dash", "bash", "zsh", "ksh93", "mksh", "ash", "sh"} {
		path, err := exec.LookPath(name)
		if real, _ := filepath.EvalSymlinks(path); err == nil && !known[real] {
			out, known[real] = append(out, path), true
		}
	}
	return out
}

// A value that is a plain word, as most are, makes no difference between data
// and code: a command does with it what it did when values were pasted.
func TestPlainValuesTakeTheSamePath(t *testing.T) {
	for _, program := range shells() {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			all := ordinary
			if filepath.Base(program) == "bash" {
				all = slices.Concat(ordinary, ordinaryInBash)
			}
			var commands []shell.Command
			var about []string
			for _, one := range all {
				for _, value := range []string{"w0rd", "7"} {
					data, err := filled(program, with(one, "{{.states.a.Output}}"), value)
					pasted, err2 := filled(program, with(one, "{{raw .states.a.Output}}"), value)
					if err := errors.Join(err, err2); err != nil {
						t.Errorf("%s\nwith %q: %v", one, value, err)
						continue
					}
					commands, about = append(commands, pasted.Command, data.Command),
						append(about, fmt.Sprintf("%s\nwith %q is %s", one, value, data.Text))
				}
			}
			done := together(t, program, commands)
			for i := range about {
				pasted, data := done[2*i], done[2*i+1]
				if pasted.exit != "0" { // older shells know less, and show the line that they do not understand
					pasted.said, data.said = "", ""
				}
				if data != pasted {
					t.Errorf("%s\nand does %+v, not %+v", about[i], data, pasted)
				}
			}
		})
	}
}

// None of a value is ever run, wherever it stands, unless the command hands it to
// a program that reads it as code: of that validate warns.
func TestHostileValuesAreNotRun(t *testing.T) {
	for _, program := range shells() {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			var commands []shell.Command
			var about []string
			for i, one := range slices.Concat(ordinary, ordinaryInBash, evaluated) {
				values := hostile
				if i >= len(ordinary)+len(ordinaryInBash) {
					values = wild
				}
				for _, value := range values {
					text, err := filled(program, with(one, "{{.states.a.Output}}"), value)
					if err == nil {
						commands = append(commands, text.Command)
						about = append(about, fmt.Sprintf("%s\nwith %q is %s", one, value, text.Text))
					}
				}
			}
			for i, o := range together(t, program, commands) {
				if o.ran {
					t.Errorf("%s\nwhich ran it", about[i])
				}
			}
		})
	}
}
