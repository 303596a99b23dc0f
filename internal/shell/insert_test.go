package shell_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/shell"
)

// split returns the parts of a command in which "@" is a value, "^" an escaped one, and "\a" a plain at sign.
func split(command string, v shell.Value) []shell.Part {
	var parts []shell.Part
	for {
		i := strings.IndexAny(command, "@^")
		if i < 0 {
			return append(parts, shell.Part{Text: strings.ReplaceAll(command, "\a", "@")})
		}
		one := v
		one.Escaped = command[i] == '^'
		parts = append(parts, shell.Part{Text: strings.ReplaceAll(command[:i], "\a", "@")}, shell.Part{Value: &one})
		command = command[i+1:]
	}
}

// A value becomes the expansion of a variable that fits the quotes around it.
func TestInsertExpandsVariables(t *testing.T) {
	for command, want := range map[string]string{
		`echo @ "@" '@'`:                    `echo ${V} "${V}" "${V}"`,
		`echo x@y "x@y" 'x@y'`:              `echo x${V}y "x${V}y" 'x'"${V}"'y'`,
		`echo \@ "\@" '\@'`:                 `echo ${V} "\\${V}" '\'"${V}"`,
		`echo $'a\'@' $'\@'`:                `echo $'a\''"${V}" $'\\'"${V}"`,
		`echo "$@" $@`:                      `echo "\$${V}" \$${V}`,
		`echo "$$@ $#@ $x@"`:                `echo "${$}${V} ${#}${V} ${x}${V}"`,
		`echo "$(echo '@' "@")" '@'`:        `echo "$(echo "${V}" "${V}")" "${V}"`,
		"echo \"`echo '@' \\\"@\\\"`\"":     `echo "$(echo "${V}" "${V}")"`,
		`echo "${x:-'@'}" "${x#'@'}"`:       `echo "${x:-'${V}'}" "${x#"${V}"}"`,
		"cat <<'E'\nit's @ $x `y` \\z\nE\n": "cat <<__espalier_end_1\nit's ${V} \\$x \\`y\\` \\\\z\n__espalier_end_1",
		"cat <<E\n@ \"@\" \\@\nE\n":         "cat <<E\n${V} \"${V}\" \\\\${V}\nE",
		`export X=@; env Y=@ cmd`:           "export X=\"${V}\"\nenv Y=\"${V}\" cmd",
		`echo x # it's @`:                   `echo x`,
		"#!/bin/sh -e\necho @":              "#!/bin/sh -e\necho ${V}",
	} {
		got, err := shell.Insert("bash", split(command, shell.Value{Text: "a $b"}))
		want = strings.ReplaceAll(want, "${V}", "${__espalier_1}")
		if err != nil || strings.TrimSuffix(got.Text, "\n") != want {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", command, got.Text, want, err)
		}
	}
	if got, err := shell.Insert("zsh", split(`echo @ "@"`, shell.Value{Text: "x"})); err != nil ||
		got.Text != "echo ${=__espalier_1} \"${__espalier_1}\"\n" {
		t.Errorf("%q, %v", got.Text, err)
	}
}

// A command without values is not changed.
func TestInsertKeepsOtherCommands(t *testing.T) {
	const command = "#!/bin/fish\n  if ( # not for a parser"
	if got, err := shell.Insert("fish", []shell.Part{{Text: command}}); err != nil || got.Text != command {
		t.Errorf("%q, %v", got.Text, err)
	}
}

// A command that is one text shows people the values where they are, and never executes them.
func TestStandaloneShowsValues(t *testing.T) {
	for _, c := range []struct{ command, value, want string }{
		{`git log @`, "main", `git log 'main'`},
		{`echo "tag @"`, "v1; touch PWNED", `echo "tag v1; touch PWNED"`},
		{`echo 'tag @'`, `$(id) "`, `echo 'tag '"\$(id) \""`},
		{`echo tag @`, "v1; touch PWNED", `__espalier_1='v1; touch PWNED'; echo tag ${__espalier_1}`},
		{`echo tag @`, "", `__espalier_1=''; echo tag ${__espalier_1}`},
		{`ls ~@`, "root", `ls ~'root'`},
		{"cat <<E\n@\nE", `a"b`, "__espalier_1='a\"b'; cat <<E\n${__espalier_1}\nE"},
	} {
		got, err := shell.Insert("bash", split(c.command, shell.Value{Text: c.value}))
		if text := got.Standalone(); err != nil || text != c.want {
			t.Errorf("%s with %q: %s, want %s, %v", c.command, c.value, text, c.want, err)
		}
	}
	const plain = "echo  'as it is' # with its spaces"
	if got := (shell.Command{Text: plain}).Standalone(); got != plain {
		t.Error(got)
	}
}

// Values in code are rejected before they are known, with the program that would execute them.
func TestInsertRejectsCode(t *testing.T) {
	for command, program := range map[string]string{
		`eval @`: "eval", `eval "x @"`: "eval", `trap 'rm @' EXIT`: "trap", `sh -c '@'`: "sh", `bash -ec "x @"`: "bash",
		`bash -e -c @`: "bash", `/bin/sh -c @`: "sh", `sudo -u me bash -c "@"`: "bash", `timeout 5 sh -c @`: "sh",
		`docker exec box sh -c "@"`: "sh", `find . -exec sh -c '@' \;`: "sh", `X=1 sh -c @`: "sh",
		`find . -exec awk 1 {} \; -exec sh -c "@" \;`: "sh", `ssh host @`: "ssh", `ssh -p 22 host "ls @"`: "ssh",
		`ssh -o "ProxyCommand=@" host`: "ssh", `python3 -c "@"`: "python", `python3 -c@`: "python",
		`perl -ne '@'`: "perl",
		`node -e @`:    "node", `awk '{ print "@" }'`: "awk", `awk -F , '@' f`: "awk", `sed "s/x/@/"`: "sed",
		`sed -i -e s/x/@/ f`: "sed", `sed --expression=@`: "sed", `jq ".x == \"@\""`: "jq", `jq -r --arg x 1 @`: "jq",
		`sqlite3 db "insert @"`: "sqlite3", `psql -c "@"`: "psql", `su me -c @`: "su", `echo "@" | sh`: "sh",
		`echo @ | grep x | bash -s`: "bash", `echo "$(echo @ | sh)"`: "sh", "cat <<E | ssh host bash\n@\nE\n": "bash",
		"sh <<E\n@\nE\n": "sh", "bash -s <<'E'\n@\nE\n": "bash", "ssh host <<E\n@\nE\n": "ssh",
		"python3 - <<E\n@\nE\n": "python", "bash <<< '@'": "bash", "sqlite3 db <<E\n@\nE\n": "sqlite3",
		`if x; then eval @; fi`: "eval", `eval "$(echo @)"`: "eval", `sh -c "ls $(dirname '@')"`: "sh",
		`case x in x) eval @;; esac`: "eval", `f() { eval "@"; }; f`: "eval", `command eval @`: "eval",
		`python3 -c '^'`: "python", `echo @ | at now`: "at", `echo @ | crontab -`: "crontab",
		// Values that reach code through variables, pipes, functions and files of processes.
		`x=@; eval "$x"`: "eval", `x="a @"; y=$x; trap "$y" EXIT`: "trap", `for x in @; do sh -c "ls $x"; done`: "sh",
		`source <(echo @)`: "source", `. "@"`: ".", `bash <(echo "@")`: "bash", `sh < <(echo "@")`: "sh",
		`echo "@" | while read -r l; do eval "$l"; done`: "eval", `read -r x <<< "@"; eval "$x"`: "eval",
		`f() { eval "$1"; }; f "@"`: "eval", `f() { sh; }; echo "@" | f`: "sh", `set -- "@"; eval "$*"`: "eval",
		`printf -v x %s "@"; eval "$x"`: "eval", `eval "${x:=@}"`: "eval",
		`echo "@" | { read -r x; eval "$x"; }`: "eval",
		`mapfile -t l <<< "@"; eval "${l[0]}"`: "eval", `echo "@" > >(sh)`: "sh", `echo "@" | tee >(bash)`: "bash",
		"f() { \"$\a\"; }; f \"@\"": "command", "f() { shift; \"$\a\"; }; f x \"@\"": "command",
		`f() { $1 x; }; f "@"`: "command", "f() { \"$\a\"; }; f sh -c \"@\"": "sh",
		`while read -r l; do sh -c "$l"; done <<< "@"`: "sh",
		// Second evaluations by the shell itself.
		`echo "@" | xargs sh -c`: "sh", `echo "@" | xargs -I{} sh -c 'echo {}'`: "sh", `env -S "@"`: "env",
		`env --split-string=@ x`: "env", `BASH_ENV=@ bash x.sh`: "BASH_ENV", `ENV="@" sh`: "ENV",
		`mapfile -C @ -c 1 x`: "mapfile", `compgen -W "@"`: "compgen", `PS4="@"; set -x; x`: "PS4",
		"x=@; echo \"${x\aP}\"": "${…@P}", `x=@; echo "${!x}"`: "${!…}", `declare -n r=@; echo $r`: "declare -n",
		`alias q="@"`: "alias", `export LD_PRELOAD="@"`: "LD_PRELOAD", `export "PATH=@"`: "PATH",
		`env LD_PRELOAD=@ x`: "LD_PRELOAD", `MAKEFILES=@ make`: "MAKEFILES",
		// Values that reach code through coprocesses and open files.
		`coproc sh; echo '@' >&"${COPROC[1]}"`: "sh", `coproc X { bash; }; echo "@" >&"${X[1]}"`: "bash",
		`coproc while read -r l; do eval "$l"; done; echo '@' >&"${COPROC[1]}"`: "eval",
		`exec 3> >(sh); echo '@' >&3`:                                           "sh", `exec > >(sh); echo '@'`: "sh",
		`exec <<<'@'; sh`:          "sh",
		`exec < <(echo '@'); bash`: "bash", `exec 3<<<'@'; sh <&3`: "sh", `exec {f}<<<'@'; sh <&$f`: "sh",
		`exec 3<<<'@'; source /dev/fd/3`: "source", `source /dev/stdin <<<'@'`: "source",
		`bash /dev/stdin <<<"@"`:        "bash",
		`echo "@" | python3 /dev/stdin`: "python", `x='@'; y=x; eval "${!y}"`: "eval",
		`echo "@" | { eval "$(cat)"; }`:          "eval",
		`echo "@" | { sh -c "$(</dev/stdin)"; }`: "sh",
		// Programs that execute an argument.
		`find . -execdir "@" +`: "command", `busybox sh -c "@"`: "sh", `fish -c "@"`: "fish", `pwsh -c "@"`: "pwsh",
		`git -c "core.pager=@" log`: "git", `rsync -e "@" a b`: "rsync", `scp -o "ProxyCommand=@" a b`: "scp",
		`tar --checkpoint-action=exec="@" f`: "tar", `flock f -c "@"`: "flock", `tmux new -d "@"`: "tmux",
		`npx "@"`:                "command",
		`sshpass -p x ssh h "@"`: "ssh", `runuser -c "@"`: "runuser", `make --eval="@"`: "make", `m4 <<<"@"`: "m4",
		`strace -o x "@"`: "command", `taskset 1 "@"`: "command", `flock f "@"`: "command", `nsenter -t 1 "@"`: "command",
		`systemd-run -p x=y "@"`: "command", `setpriv --reuid 1 "@"`: "command", `gosu me sh -c "@"`: "sh",
		`R -e "@"`: "R", `octave --eval "@"`: "octave", `emacs --eval "@"`: "emacs", `ex -c "@" f`: "ex",
		`gnuplot -e "@"`: "gnuplot", `duckdb db "@"`: "duckdb", `mongosh --eval "@"`: "mongosh",
		`git rebase -x "@" main`: "git rebase", `git -C d rebase --exec="@"`: "git rebase",
		`git bisect run "@"`:        "git bisect run",
		`git submodule foreach "@"`: "git submodule foreach", `git filter-branch --tree-filter "@"`: "git filter-branch",
		`git difftool -x "@"`: "git difftool", `git grep --open-files-in-pager="@" x`: "git grep",
		`git clone -c "@" u`: "git clone", `git fetch --upload-pack="@" u`: "git fetch", `git config "@" x`: "git config",
		// Values that code in a second shell executes.
		`bash -c 'eval "$1"' _ "@"`: "eval", `sh -c 'eval "$0"' "@"`: "eval", "sh -c '\"$\a\"' _ \"@\"": "command",
		`X="@" sh -c 'eval "$X"'`: "eval", `export X="@"; bash -c 'sh -c "$X"'`: "sh", `env X="@" sh -c 'eval "$X"'`: "eval",
		`echo "@" | bash -c 'read -r l; eval "$l"'`: "eval", `find . -exec sh -c '. "$1"' _ "@" \;`: ".",
		`echo "@" | xargs sh -c 'eval "$1"' _`: "eval", "bash -s \"@\" <<'E'\neval \"$1\"\nE\n": "eval",
		// Values that awk executes.
		`awk -v x="@" 'BEGIN { system(x) }'`: "awk", `X="@" awk 'BEGIN { system(ENVIRON["X"]) }'`: "awk",
		`awk 'BEGIN { x | getline y }' x="@"`: "awk", `echo "@" | awk '{ system($0) }'`: "awk",
		`awk -v x="@" '{ print | x }'`: "awk", `awk -v x="@" '{ print x | "sh" }'`: "awk",
		// Values that are commands.
		`@`: "command", `"@" x`: "command", `x && @`: "command", `x=@; $x now`: "command", `timeout 5 @`: "command",
		`sudo -u me "@"`: "command", `exec @`: "command", `echo x | xargs @`: "command",
		// Escaped values protect only outside of the quotes of the inner command, and only once.
		`sh -c "echo '^'"`: "sh", `sh -c "echo \"^\""`: "sh", `eval "eval ^"`: "eval", `sh -c 'sh -c "echo ^"'`: "sh",
		`sh -c "echo \$((^))"`: "sh", "sh <<E\ncat <<F\n^\nF\nE\n": "sh", `sh -c "^"`: "command", `echo ^ | sh`: "sh",
	} {
		_, err := shell.Insert("bash", split(command, shell.Value{Unknown: true}))
		failed, ok := errors.AsType[*shell.Error](err)
		if !ok || failed.Program != program || failed.Part < 0 || failed.Message == "" || failed.Help == "" {
			t.Errorf("%s: %+v, want %s", command, err, program)
		}
	}
	for _, command := range []string{`x=@; echo ${(e)x}`, `x=@; echo ${(P)x}`, `x=@; echo "${(%)x}"`} {
		if got, err := shell.Insert("zsh", split(command, shell.Value{Unknown: true})); err == nil {
			t.Errorf("%s: %s", command, got.Text)
		}
	}
}

// Values that no program executes are accepted, also as arguments of programs that execute others.
func TestInsertAcceptsData(t *testing.T) {
	for _, command := range []string{
		`trap x "@"`, `sh -c x sh "@"`, `sh -c 'echo "$1"' _ "@"`, `X="@" sh -c 'ls -- "$X"; eval "$Y"'`,
		`awk -v x="@" '/a|b/ || c { print x | "sort" }'`, `X="@" awk '{ print ENVIRON["X"] }'`, `git commit -m "@"`,
		`git log --format="@"`, `git config user.name "@"`, `git bisect good "@"`, `git rebase "@"`, `flock f cat "@"`,
		`echo "@" | bash -c 'read -r l; echo "$l"'`, `sh -c 'for f; do cat "$f"; done' _ "@"`,
		`bash run.sh -c @`, `ssh -i "@" host`, `ssh "@" ls`, `python3 x.py @`,
		`python3 -c x "@"`, `awk -v x="@" '{ print x }'`, `awk '{ print }' @`, `gawk -f x @`, `sed -n p @`,
		`jq --arg x "@" .y`, `jq . @`, `echo eval @`, `evaluate @`, `echo "@" | bash x.sh`, `echo @; x | sh`,
		"cat <<E | sort\n@\nE\n", "sh run.sh <<E\n@\nE\n", "ssh host cat <<E\nx\nE\necho @", "python3 -c x <<E\n@\nE\n",
		`eval x; echo @`, `eval "echo ^"`, `sh -c "echo ^"`, `sh -c 'ls ^'`,
		`ssh host "ls ^"`, "sh <<E\necho ^\nE\n", `x=@; y=1; eval "$y"`, `sudo -u "@" id`, `env X="@" run`,
		`out="@"; eval "$(ssh-agent)"; echo "$out"`, `x=$(echo "@" | wc -l); echo $((x + 1))`, `read -p "@" x`,
		`echo "@" | xargs -n 1 echo`, `echo "@" | xargs sh -c 'echo "$1"' sh`, `OUT_DIR=@; SRC="@"; export GOAL=@`,
		"retry() { for i in 1 2; do \"$\a\" && return; done; }; retry curl -d \"@\" x", `f() { echo "$1"; }; f "@"`,
		"sh <<E\nE\necho @", "cat <<''\n\necho @\n", `./run-@.sh`, `bin/@ x`, `case "@" in x) ;; esac`,
		`[[ "@" == x ]]`,
		`git switch -c "@"`, `git -C "@" commit -m "@"`, `make deploy TO="@"`, `tar -czf "@" x`, `rsync -a "@" b`,
		`coproc cat; echo '@' >&"${COPROC[1]}"; read -r y <&"${COPROC[0]}"; echo "$y"`,
		`exec 3>log; echo "@" >&3; date`,
		`exec 2>&1; echo "@"; python3 x.py`, `find . -name "@" -exec rm {} +`, `npx prettier "@"`,
		`x=1; y=x; echo "${!y} @"`,
		`echo "@" | while read -r l; do n=$(($(nproc) + 1)); done`, `curl -d "@" x | jq .y`,
		`TEXT="@" awk 'BEGIN { print 1 }'`,
	} {
		if _, err := shell.Insert("bash", split(command, shell.Value{Unknown: true})); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// Where the shell computes, or expects a name, only values that cannot be anything else are accepted.
func TestInsertChecksValues(t *testing.T) {
	const hostile = "a[$(x)]"
	for command, fits := range map[string]string{
		`echo $((@ + 1)) "$((@))" $(("@")) $((${x:-@}))`: "7\n", `((x = @)); for ((i=@;;)); do :; done`: "7",
		`let x=@ "y = @"`: "7", `a[@]=1; a=([@]=x); echo ${a[@]} ${x:@:1}`: "7", `[[ @ -gt 3 ]]`: "-3",
		`[[ x == y && ( '@' -lt 3 ) ]]`: "7", `n=@; echo $((n + 1))`: "7", `n="@"; [[ $n -gt 3 ]]`: "7",
		`export n=@; echo ${x:n}`: "7", `for n in @; do ((n)); done`: "7", `n=@; let y=n`: "7",
		`n=@; m=n; echo $((m))`:  "7",
		`declare -i y; n=@; y=n`: "7", `n=@; a[n]=1`: "7", `declare -i y=@`: "7", `echo x >&@`: "2",
		`read @`: "name", `unset "m[@]"`: "name", `printf -v @ x`: "name", `[ -v @ ]`: "name", `[[ -v @ ]]`: "name",
		`declare "@"`: "name", `getopts ab @`: "name", `[ @ = x ]`: "some words",
		`declare -a x="@"`: "some words", `x=(); declare x=@`: "some words", `./run-@.sh`: "a-1.b", `python3 @`: "x.py",
		`bash "@"`: "x.sh", `make TO="@"`: "north", `sh -c 'echo $(($1))' _ "@"`: "7", `N="@" sh -c '[[ $N -gt 3 ]]'`: "7",
	} {
		if _, err := shell.Insert("bash", split(command, shell.Value{Text: fits})); err != nil {
			t.Errorf("%s with %q: %v", command, fits, err)
		}
		value := hostile
		switch {
		case strings.HasPrefix(command, "./"):
			value = "../x"
		case strings.HasPrefix(command, "python3"), strings.HasPrefix(command, "bash"):
			value = "-cimport os"
		}
		if got, err := shell.Insert("bash", split(command, shell.Value{Text: value})); err == nil {
			t.Errorf("%s with %q: %s", command, value, got.Text)
		}
	}
	for _, command := range []string{`exit @`, `printf %d @`, `print -f %d @`, `printf "$f" @`, `[ "@" -eq 3 ]`} {
		if got, err := shell.Insert("zsh", split(command, shell.Value{Text: hostile})); err == nil {
			t.Errorf("%s: %s", command, got.Text)
		}
	}
}

// A trusted value is data wherever a value can be, and part of the command elsewhere: each value for itself.
func TestTrustedValuesAreDataWherePossible(t *testing.T) {
	for command, want := range map[string]string{
		`echo @ "@" '@'`: `echo ${V} "${V}" "${V}"`,
		`@ "@"`:          `a $b "${V}"`,
		`eval @`:         `eval a $b`, `sh -c "echo @"`: `sh -c "echo a $b"`,
		`sed 's/x/@/' "@"`:         `sed 's/x/a $b/' "${V}"`,
		`x=@; eval "$x"; echo '@'`: "x=a $b\neval \"$x\"\necho \"${V}\"",
		`echo $((@)) "@"`:          `echo $((a $b)) "a $b"`, // not valid, with the text
		`PATH=@ x`:                 `PATH=a $b x`,
		`echo "@`:                  `echo "a $b`, // not shell code
		`echo @ ${@}`:              `echo a $b ${a $b}`,
	} {
		got, err := shell.Insert("bash", split(command, shell.Value{Text: "a $b", Trusted: true}))
		text := strings.ReplaceAll(strings.TrimSpace(got.Text), shell.Variable(0), "V")
		if err != nil || text != want {
			t.Errorf("%s: %s, %v, want %s", command, text, err, want)
		}
	}
	many := strings.Repeat("eval @; ", 50)
	if got, err := shell.Insert("bash", split(many, shell.Value{Text: "x", Trusted: true})); err != nil ||
		got.Text != strings.Repeat("eval x; ", 50) {
		t.Errorf("%s, %v", got.Text, err)
	}
}

// A trusted value does not hide from the checks that a program executes an untrusted one.
func TestTrustedValuesMakeNoOtherValueCode(t *testing.T) {
	mixed := func(command, trusted, untrusted string) (shell.Command, error) {
		parts := split(command, shell.Value{Text: untrusted})
		parts[1].Value = &shell.Value{Text: trusted, Trusted: true}
		return shell.Insert("bash", parts)
	}
	for _, c := range []struct{ command, trusted string }{
		{`git @ -x "@"`, "rebase"},
		{`find . @ "@" +`, "-exec"},
		{`bash @ "@"`, "-c"},
		{`@ -c "@"`, "sh"},
		{`x @ "@"; eval x`, "; sh -c"},
		{`env @ "@"`, "-S"},
		{`tar '@' "@"`, "--to-command"},
		{`rsync @ "@" a b`, "-a -e"},
		{`docker run @ -c "@"`, "'it' sh"},
	} {
		if got, err := mixed(c.command, c.trusted, "$(x)"); err == nil {
			t.Errorf("%s with %q: %s %q", c.command, c.trusted, got.Text, got.Values)
		}
	}
	for command, trusted := range map[string]string{
		`echo '@' "@"`: "it's $(id)", `git @ -m "@"`: "commit", `@ "@"`: "echo -n", `grep -e "@" "@"`: "a|b(",
		`eval "@"; echo "@"`: "x | y",
	} {
		if got, err := mixed(command, trusted, "$(x)"); err != nil || !slices.Contains(got.Values, "$(x)") {
			t.Errorf("%s: %+v, %v", command, got, err)
		}
	}
}

// Places in which no value can be are errors, and so is a command that the parser does not understand.
func TestInsertRejectsPlaces(t *testing.T) {
	for _, command := range []string{
		"cat <<@\nx\n@\n", "cat <<'@E'\nx\n@E\n", "cat <<E\"O\"F\n$(echo @)\nEOF\n", "@=1", "@() { :; }",
		"function @ { :; }", "for @ in x; do :; done", "export @", `echo ${@}`, `"@`, "'@", "$(@", "echo ${x:-@",
		"case @ in",
		strings.Repeat("$(", 1000) + "@" + strings.Repeat(")", 1000), `echo "${x:-'$((@))'}"`,
		`declare -A m; m[k-@]=1`,
	} {
		got, err := shell.Insert("bash", split(command, shell.Value{Text: "w"}))
		if failed, ok := errors.AsType[*shell.Error](err); !ok || failed.Message == "" || failed.Help == "" {
			t.Errorf("%.60s: %.100s, %v", command, got.Text, err)
		}
	}
}

// Large values are assigned in the command: the system limits arguments and the environment.
func TestPassKeepsLargeValuesOutOfTheEnvironment(t *testing.T) {
	c := shell.Command{Text: "#!/bin/sh\necho", Values: []string{"a", "long 'one'", "b", "c"}}
	text, env := c.Pass(4, 2)
	if text != "#!/bin/sh\n__espalier_2='long '\\''one'\\'; __espalier_4='c'; echo" ||
		strings.Join(env, " ") != "__espalier_1=a __espalier_3=b" {
		t.Errorf("%q %q", text, env)
	}
}

// Guarded variables are those that let their value choose the code that a program executes.
func TestVariablesThatSelectCodeAreGuarded(t *testing.T) {
	for name := range strings.FieldsSeq(`PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PS4 IFS
		PROMPT_COMMAND MAKEFILES MAKEFLAGS GNUMAKEFLAGS TAR_OPTIONS RSYNC_RSH LUA_INIT LUA_INIT_5_4 LUA_PATH PERL5OPT
		PERL5LIB PERL5DB PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONWARNINGS PYTHONBREAKPOINT RUBYOPT RUBYLIB
		NODE_OPTIONS NODE_PATH NPM_CONFIG_SCRIPT_SHELL npm_config_node_options PHPRC PHP_INI_SCAN_DIR
		JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS CLASSPATH DOTNET_STARTUP_HOOKS
		CORECLR_PROFILER_PATH GIT_SSH_COMMAND GIT_EDITOR GIT_EXTERNAL_DIFF GIT_PAGER GIT_CONFIG_COUNT SSH_ASKPASS
		EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER FCEDIT VIMINIT EXINIT GCONV_PATH LOCPATH CDPATH
		ZDOTDIR SHELLOPTS BASHOPTS CARGO_BUILD_RUSTC_WRAPPER RUSTC_WRAPPER RUSTFLAGS GOFLAGS CC CXX CMAKE_TOOLCHAIN_FILE
		ANSIBLE_CONFIG KUBECONFIG CVS_RSH SVN_SSH HGRCPATH CURL_HOME WGETRC OPENSSL_CONF PSQLRC INPUTRC TERMINFO
		HTTPS_PROXY https_proxy SYSTEMD_PAGER AWKPATH GREP_OPTIONS BUNDLE_GEMFILE ERL_FLAGS R_PROFILE_USER`) {
		if !shell.Guarded(name) {
			t.Errorf("%s is not guarded", name)
		}
	}
	for name := range strings.FieldsSeq("file name target OUTPUT_DIR SRC VERSION GOAL API_URL message pathname LUNCH") {
		if shell.Guarded(name) {
			t.Errorf("%s is guarded", name)
		}
	}
}

// FuzzInsert checks that the text of a value never becomes part of a command.
func FuzzInsert(f *testing.F) {
	for _, one := range []string{
		"<<''\n\n@\nF\n", `"@"`, `'@'`, "<<E\n@\nE\n", "<<'E'\n@\nE\n", "$((@))", "`@`", "# @", `\@`, `$'@'`, "${x:-@}",
		"[[ @ -gt 1 ]]",
		"x <<-'E' <<F\n@\n\tE\n@\nF\n", "$(case @ in a) '@';; esac)", "echo \"`echo \\\"@\\\" \\`echo '@'\\``\"",
		"a[@]=1; a=([@]=@ '@')", "declare -A m; m[@]='@'", "echo ${x:@} ${x#'@'} \"${x/'@'/@}\" ${x[@]}", "((@))",
		"echo $'\\@ @\\'' $\"@\" $@", "f() { x '@'; }; function g { x \"@\"; }", "sh -c \"echo ^\" @", "echo {1..@}",
	} {
		f.Add(one, "v'\"$(x)", "bash")
		f.Add(one, "7", "zsh")
	}
	f.Fuzz(func(t *testing.T, text, value, name string) {
		const marker = "SECRET"
		if strings.ContainsAny(text, "\x00") || strings.Contains(text, marker) || len(text) > 1<<12 {
			return
		}
		got, err := shell.Insert(name, split(text, shell.Value{Text: marker + value}))
		if err == nil && strings.Contains(got.Text, marker) {
			t.Errorf("%q: %q", text, got.Text)
		}
	})
}

// Commands that cost too much work to check are errors, however they are built.
func TestCostlyCommandsAreErrors(t *testing.T) {
	chain := &strings.Builder{}
	for i := range 3000 {
		fmt.Fprintf(chain, "x%d=$x%d; ", 3000-i, 2999-i)
	}
	for name, command := range map[string]string{
		"nested":          strings.Repeat("$(", 400) + "@" + strings.Repeat(")", 400),
		"many variables":  chain.String() + "x0=@; echo $x3000",
		"many statements": strings.Repeat(`x=@; y=$x; echo "$y"; `, 10_000),
		"many shells": "x=@; " + strings.Repeat("find . -exec sh -c 'sh -c \"echo a\"' \\; ", 2000) +
			strings.Repeat("a ", 100_000),
	} {
		_, err := shell.Insert("bash", split(command, shell.Value{Unknown: true}))
		if failed, ok := errors.AsType[*shell.Error](err); !ok || failed.Part != -1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := "cat > f <<E\n" + strings.Repeat("a line with @ and $HOME\n", 2000) + "E\n"
	if _, err := shell.Insert("bash", split(long, shell.Value{Unknown: true})); err != nil {
		t.Error(err)
	}
}
