package shell

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/xslices"
)

// program describes which arguments of a program are code, or names of variables.
type program struct {
	words   bool     // the code is shell code
	options []string // the argument after one of these is code
	files   []string // an argument after one of these is a file with code: no operand is code
	operand int      // the first operand that is code, from 1; 0 if none is
	rest    bool     // so are all operands after it
	stdin   int      // with fewer than this number of operands, and without code, the input is code
	names   bool     // operands are names of variables
	takes   []string // options with an argument
	takes2  []string // options with two arguments
	global  bool     // options count only before the first operand
	macros  bool     // operands of the form NAME=VALUE are expanded again
	nested  bool     // found anywhere among the arguments of another command, as in "docker run IMAGE sh -c CODE"
}

// shellProgram describes sh, bash and other shells whose syntax is that of this package.
var shellProgram = program{
	words: true, operand: 1, stdin: 1, nested: true,
	takes: []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"},
}

var (
	otherShell = program{options: []string{"-c", "--command", "--commands"}, stdin: 1, nested: true}
	powerShell = program{
		options: []string{"-c", "-Command", "-command", "-e", "-EncodedCommand"}, stdin: 1, nested: true,
	}
)

// programs are the programs that execute an argument or their input, by the names that find returns. The arguments of
// every other program are data.
var programs = map[string]program{
	"python":    {options: []string{"-c"}, stdin: 1, nested: true, takes: []string{"-m", "-W", "-X"}},
	"perl":      {options: []string{"-e", "-E"}, stdin: 1, nested: true, takes: []string{"-I"}},
	"ruby":      {options: []string{"-e"}, stdin: 1, nested: true, takes: []string{"-I", "-r"}},
	"node":      {options: []string{"-e", "-p", "--eval", "--print"}, stdin: 1, nested: true, takes: []string{"-r"}},
	"bun":       {options: []string{"-e", "-p", "--eval", "--print"}, nested: true},
	"deno":      {options: []string{"eval"}, nested: true},
	"php":       {options: []string{"-r", "-B", "-R", "-E"}, stdin: 1, nested: true, takes: []string{"-d", "-c"}},
	"lua":       {options: []string{"-e"}, stdin: 1, nested: true, takes: []string{"-l"}},
	"osascript": {options: []string{"-e"}, stdin: 1, nested: true, takes: []string{"-l"}},
	"Rscript":   {options: []string{"-e"}, nested: true},
	"psql": {
		options: []string{"-c", "--command", "-v", "--set"}, stdin: 9, nested: true,
		takes: []string{"-d", "-h", "-p", "-U", "-F", "-o"},
	},
	"mysql": {options: []string{"-e", "--execute"}, stdin: 9, nested: true, takes: []string{"-h", "-P", "-u", "-D"}},
	"sqlite3": {
		options: []string{"-cmd"}, operand: 2, rest: true, stdin: 2,
		takes: []string{"-separator", "-nullvalue"},
	},
	"su":     {words: true, options: []string{"-c", "--command"}, stdin: 9, nested: true, takes: []string{"-s", "-g"}},
	"script": {words: true, options: []string{"-c", "--command"}, nested: true},
	"awk": {
		options: []string{"-e", "--source"}, files: []string{"-f", "--file"}, operand: 1, nested: true,
		takes: []string{"-v", "-F"},
	},
	"sed": {
		options: []string{"-e", "--expression"}, files: []string{"-f", "--file"}, operand: 1, nested: true,
		takes: []string{"-l"},
	},
	"jq": {
		files: []string{"-f", "--from-file"}, operand: 1, nested: true, takes: []string{"--indent", "-L"},
		takes2: []string{"--arg", "--argjson", "--slurpfile", "--rawfile"},
	},
	"ssh": {words: true, operand: 2, rest: true, stdin: 2, takes: []string{
		"-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-p", "-Q", "-R", "-S", "-W",
		"-w",
	}, options: []string{"-o"}},
	"watch":     {words: true, operand: 1, rest: true, takes: []string{"-n", "--interval"}},
	"parallel":  {operand: 1, rest: true, stdin: 1},
	"at":        {stdin: 9},
	"batch":     {stdin: 9},
	"crontab":   {stdin: 9},
	"ed":        {stdin: 9},
	"ex":        {options: []string{"-c", "--cmd"}, stdin: 9},
	"dc":        {options: []string{"-e"}, stdin: 9},
	"gdb":       {options: []string{"-ex", "--eval-command"}, stdin: 9},
	"eval":      {words: true, operand: 1, rest: true},
	"trap":      {words: true, operand: 1},
	"source":    {operand: 1},
	".":         {operand: 1},
	"alias":     {operand: 1, rest: true},
	"bind":      {operand: 1, rest: true, options: []string{"-x"}},
	"enable":    {options: []string{"-f"}},
	"hash":      {options: []string{"-p"}},
	"compgen":   {options: []string{"-W", "-C", "-F", "-G", "-X"}},
	"complete":  {options: []string{"-W", "-C", "-F", "-G", "-X"}},
	"env":       {options: []string{"-S", "--split-string"}, takes: []string{"-u", "-C"}},
	"mapfile":   {options: []string{"-C"}, names: true, takes: []string{"-d", "-n", "-O", "-s", "-u", "-c"}},
	"readarray": {options: []string{"-C"}, names: true, takes: []string{"-d", "-n", "-O", "-s", "-u", "-c"}},
	"read":      {names: true, takes: []string{"-d", "-i", "-n", "-N", "-p", "-t", "-u"}},
	"unset":     {names: true},
	"getopts":   {names: true},
	"zstyle":    {options: []string{"-e"}},
	// Other shells and interpreters.
	"fish": otherShell, "nu": otherShell, "elvish": otherShell, "xonsh": otherShell, "tcsh": otherShell,
	"csh":  otherShell,
	"pwsh": powerShell, "powershell": powerShell,
	"julia":  {options: []string{"-e", "-E", "--eval", "--print"}, stdin: 1, nested: true},
	"groovy": {options: []string{"-e"}, nested: true},
	"elixir": {options: []string{"-e", "--eval", "--rpc-eval"}, nested: true},
	"erl":    {options: []string{"-eval"}, nested: true},
	"ghc":    {options: []string{"-e"}, nested: true},
	"expect": {options: []string{"-c"}, stdin: 1, nested: true},
	"vim":    {options: []string{"-c", "--cmd"}}, "nvim": {options: []string{"-c", "--cmd"}},
	"vi": {options: []string{"-c", "--cmd"}}, "view": {options: []string{"-c", "--cmd"}},
	"emacs":  {options: []string{"-eval", "--eval", "--execute", "-f", "--funcall"}},
	"R":      {options: []string{"-e"}, nested: true, stdin: 9},
	"octave": {options: []string{"--eval"}, nested: true, stdin: 1},
	"sage":   {options: []string{"-c"}}, "scala": {options: []string{"-e"}}, "guile": {options: []string{"-c", "-e"}},
	"sbcl": {options: []string{"--eval"}}, "swipl": {options: []string{"-g", "-t"}},
	"gnuplot": {options: []string{"-e"}, stdin: 1}, "mongosh": {options: []string{"--eval"}, stdin: 9},
	"duckdb": {options: []string{"-c", "-s", "-cmd"}, operand: 2, rest: true, stdin: 2},
	"yq":     {operand: 1, nested: true, takes: []string{"-o", "-p", "-I"}},
	"bc":     {stdin: 9}, "m4": {stdin: 1, options: []string{"-D"}},
	// Programs with options that are commands.
	"runuser": {
		words: true, options: []string{"-c", "--command"}, nested: true,
		takes: []string{"-u", "-g", "-G", "-s"},
	},
	"sg":    {words: true, options: []string{"-c"}, operand: 2, nested: true},
	"flock": {words: true, options: []string{"-c", "--command"}, nested: true, takes: []string{"-w", "-E"}},
	"capsh": {words: true, options: []string{"-c"}},
	"nix-shell": {
		words: true, options: []string{"--run", "--command"}, takes: []string{"-p", "-A", "-I"},
	},
	"rsync": {options: []string{"-e", "--rsh", "--rsync-path"}},
	"scp":   {options: []string{"-o", "-S"}}, "sftp": {options: []string{"-o", "-S", "-D"}},
	"rsh":     {words: true, operand: 2, rest: true, takes: []string{"-l"}},
	"autossh": {words: true, operand: 2, rest: true, options: []string{"-o"}, takes: []string{"-M", "-i", "-l", "-p"}},
	"pdsh":    {operand: 1, rest: true, takes: []string{"-w", "-g", "-l"}},
	"pssh":    {operand: 1, rest: true, takes: []string{"-h", "-H", "-l"}},
	"git":     {options: []string{"-c", "--exec-path", "--config-env"}, global: true, takes: []string{"-C"}},
	// Subcommands of git that execute an argument.
	"git rebase": {options: []string{"-x", "--exec"}}, "git bisect run": {operand: 1, rest: true},
	"git submodule foreach": {operand: 1, rest: true}, "git difftool": {options: []string{"-x", "--extcmd"}},
	"git grep":   {options: []string{"-O", "--open-files-in-pager"}},
	"git config": {operand: 1, takes: []string{"-f", "--file"}},
	"git clone":  {options: []string{"-c", "--config", "-u", "--upload-pack", "--template"}},
	"git fetch":  {options: []string{"--upload-pack"}}, "git pull": {options: []string{"--upload-pack"}},
	"git ls-remote": {options: []string{"--upload-pack", "--exec"}}, "git archive": {options: []string{"--exec"}},
	"git push": {options: []string{"--receive-pack", "--exec"}},
	"git filter-branch": {options: []string{
		"--env-filter", "--tree-filter", "--index-filter", "--parent-filter", "--msg-filter", "--commit-filter",
		"--tag-name-filter", "--setup",
	}},
	"hg": {options: []string{"--config"}}, "cargo": {options: []string{"--config"}},
	"tar": {options: []string{
		"--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command", "--info-script",
		"--new-volume-script", "-I",
	}},
	"make":   {options: []string{"--eval", "-E"}, macros: true},
	"gmake":  {options: []string{"--eval", "-E"}, macros: true},
	"tmux":   {operand: 1, rest: true, takes: []string{"-L", "-S", "-f", "-c", "-n", "-s", "-t", "-x", "-y"}},
	"screen": {operand: 1, rest: true, takes: []string{"-S", "-c", "-h", "-p", "-t"}},
	"socat":  {operand: 1, rest: true},
	"nc":     {options: []string{"-e", "-c"}}, "ncat": {options: []string{"-e", "-c", "--exec", "--sh-exec"}},
	"rg": {options: []string{"--pre"}}, "fzf": {options: []string{"--preview", "--bind"}},
	"fd":      {options: []string{"-x", "-X", "--exec", "--exec-batch"}},
	"zip":     {options: []string{"-TT", "--unzip-command"}},
	"tcpdump": {options: []string{"-z"}},
	"man":     {options: []string{"-P", "--pager"}},
	"gcc":     {options: []string{"-wrapper"}},
	"helm":    {options: []string{"--post-renderer"}},
	"gcloud":  {words: true, options: []string{"--command"}},
	"ansible": {options: []string{"-a", "--args"}},
	"zle":     {operand: 1, rest: true},
	"sched":   {operand: 1, rest: true},
}

// wrappers are programs whose operand is a command, with their options that have an argument.
var wrappers = map[string][]string{
	"sudo": {"-u", "-g", "-C", "-D", "-h", "-p", "-r", "-t", "-T", "-U"}, "doas": {"-u", "-C"},
	"env": {"-u", "-C", "-S"}, "command": nil, "builtin": nil, "exec": {"-a"}, "nohup": nil, "time": {"-f", "-o"},
	"timeout": {"-s", "-k"}, "nice": {"-n"}, "ionice": {"-c", "-n", "-p"}, "stdbuf": {"-i", "-o", "-e"}, "setsid": nil,
	"xargs":  {"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"},
	"chroot": nil, "unshare": nil, "noglob": nil, "nocorrect": nil, "-": nil, "busybox": nil,
	"npx": {"-p", "--package", "-w", "--workspace"}, "bunx": nil, "uvx": {"--from", "--with", "-p", "--python"},
	"sshpass": {"-p", "-f", "-d", "-P"}, "entr": nil,
	"strace": {"-e", "-o", "-p", "-s", "-u", "-E", "-P", "-O", "-S", "-a", "-b", "-I", "-X"},
	"ltrace": {"-e", "-o", "-p", "-s", "-u", "-l", "-a", "-n", "-A"}, "taskset": nil, "chrt": {"-T", "-P", "-D"},
	"nsenter": {"-t", "-S", "-G"}, "setpriv": {"--reuid", "--regid", "--groups", "--ambient-caps", "--inh-caps"},
	"systemd-run": {"-p", "-u", "-E", "-M", "-H", "--property", "--unit", "--setenv"},
	"flock":       {"-w", "-E", "-c", "--command"},
	"prlimit":     nil, "numactl": {"-C", "-m", "-N"},
	"valgrind": nil, "gosu": nil, "su-exec": nil, "pkexec": {"--user"},
	"tini": nil, "dumb-init": nil, "xvfb-run": {"-n", "-s", "-a"}, "faketime": nil, "firejail": nil,
}

// operandsOfWrappers is how many operands of a wrapper come before the command.
var operandsOfWrappers = map[string]int{
	"timeout": 1, "chroot": 1, "taskset": 1, "chrt": 1, "flock": 1, "gosu": 1, "su-exec": 1, "faketime": 1,
}

// find returns the description of a program and its usual name.
func find(word string) (name string, p program, ok bool) {
	switch name = path.Base(word); {
	case IsShell(name):
		return name, shellProgram, true
	case strings.HasPrefix(name, "python"):
		name = "python"
	case strings.HasPrefix(name, "lua"):
		name = "lua"
	case strings.HasSuffix(name, "awk"):
		name = "awk"
	case name == "gsed":
		name = "sed"
	case name == "nodejs":
		name = "node"
	case name == "mariadb":
		name = "mysql"
	}
	p, ok = programs[name]
	return name, p, ok
}

// help returns how to pass a value to a program that executes code.
func help(name string) string {
	const raw = "use {{raw …}} if you trust the value"
	_, p, ok := find(name)
	switch {
	case ok && p.words:
		return "Use {{escape …}} in that code to pass one word, or " + raw
	case name == "jq":
		return `Pass it with --arg text "{{…}}" and use $text in the filter, or ` + raw
	case name == "sed":
		return `Use awk instead: TEXT="{{…}}" awk '{ sub(/old/, ENVIRON["TEXT"]); print }', or ` + raw
	case name == "psql" || name == "mysql" || name == "sqlite3":
		return "Pass it as a query parameter in a script, or " + raw
	case ok && p.nested:
		return fmt.Sprintf(`Pass it in the environment, as in TEXT="{{…}}" %s …, or %s`, name, raw)
	}
	return strings.ToUpper(raw[:1]) + raw[1:]
}

// role is what a program does with an argument.
type role int

const (
	data role = iota
	code
	variableName
	operandRole // the file that an interpreter executes, or what may be read as an option before it
)

// roles returns the roles of arguments, and whether the program executes its standard input.
func (p program) roles(name string, args []string) (out []role, input bool) {
	out = make([]role, len(args))
	operands, done, ends := 0, false, false
	hasC := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		option := !ends && len(arg) > 1 && (arg[0] == '-' || arg[0] == '+' && IsShell(name))
		letters := IsShell(name) && option && arg[0] == '-' && !strings.HasPrefix(arg, "--") // such as -xc
		switch {
		case arg == "--" && !ends:
			ends = true
		case letters && strings.Contains(arg, "c"):
			hasC = true
		case letters && strings.Contains(arg, "s"):
			input, done = true, true
		case option && slices.ContainsFunc(p.options, func(o string) bool { return endsWithOption(arg, o) }),
			slices.Contains(p.options, arg) && !(p.global && ends):
			done = true
			if i++; i < len(args) {
				out[i] = code
			}
		case option && slices.ContainsFunc(p.options, func(o string) bool { return attached(arg, o) }):
			done, out[i] = true, code
		case option && slices.ContainsFunc(p.files,
			func(o string) bool { return endsWithOption(arg, o) || attached(arg, o) }):
			done = true
			i++
		case option && slices.Contains(p.takes2, arg):
			i += 2
		case option && slices.Contains(p.takes, arg):
			i++
		case option:
			if p.nested {
				out[i] = operandRole
			}
		default:
			operands++
			ends = ends || p.global
			switch {
			case p.names:
				out[i] = variableName
			case IsShell(name) && !done:
				if out[i] = operandRole; hasC {
					out[i] = code
				}
				done, ends = true, true
			case p.operand > 0 && !done && operands == p.operand:
				out[i] = code
				done = !p.rest
			case p.operand > 0 && !done && p.rest && operands > p.operand:
				out[i] = code
			case p.nested && !done && p.operand == 0 && arg != "-":
				out[i], done, ends = operandRole, true, true
			case arg == "-" && p.nested:
				operands--
			}
			if operands >= max(1, p.operand) && p.operand > 0 {
				ends = ends || p.rest
			}
		}
	}
	input = input || p.stdin > operands && !done && !hasC
	return out, input
}

// endsWithOption reports whether an argument is an option or ends with it, as -xc ends with -c.
func endsWithOption(arg, option string) bool {
	return arg == option || len(option) == 2 && option[0] == '-' && !strings.HasPrefix(arg, "--") && len(arg) > 1 &&
		arg[0] == '-' && strings.HasSuffix(arg, option[1:])
}

// attached reports whether an argument is an option with its own argument in it.
func attached(arg, option string) bool {
	if strings.HasPrefix(option, "--") {
		return strings.HasPrefix(arg, option+"=")
	}
	return len(option) == 2 && option[0] == '-' && strings.HasPrefix(arg, option) && len(arg) > 2
}

// call checks a command. in are the values in its standard input, here is its here-document.
func (c *insertion) call(call *syntax.CallExpr, in set, here *syntax.Word) {
	if len(call.Args) == 0 {
		return
	}
	args := xslices.Map(call.Args, func(w *syntax.Word) string { return c.wordText(w.Parts, false) })
	first, piped := c.commandName(call.Args, args)
	if first < len(args) {
		if c.funcs[args[first]] {
			for i, w := range call.Args[first+1:] {
				c.assigned(positional, c.values(w))
				if i == 0 {
					c.assigned(firstPositional, c.values(w))
				}
			}
			c.assigned(stdin(args[first]), in)
		}
		c.builtin(args[first], args[first+1:], call.Args[first+1:], in)
		if path.Base(args[first]) == "find" {
			for i := first + 1; i+1 < len(args); i++ {
				if isFindExec(args[i]) {
					c.executed(call.Args[i+1], args[i+1])
				}
			}
		}
	}
	for i := 0; i < len(args) && *c.work < maxWork; i++ {
		name, p, ok := find(args[i])
		if !ok || i != first && !p.nested && (i > first || name != "env") {
			continue
		}
		*c.work += len(args) - i
		c.arguments(name, p, args[i+1:], call.Args[i+1:], in, here, piped)
		if name == "git" {
			c.git(args[i+1:], call.Args[i+1:], in, here, piped)
		}
		if i < first || p.rest { // another program follows
			continue
		}
		next := slices.IndexFunc(args[i+1:], isFindExec)
		if next < 0 {
			return
		}
		i += next
	}
}

// git checks the arguments of a subcommand of git.
func (c *insertion) git(args []string, words []*syntax.Word, in set, here *syntax.Word, piped bool) {
	name := "git"
	for i := 0; i < len(args); i++ {
		if slices.Contains(programs["git"].takes, args[i]) {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			name += " " + args[i]
			if p, ok := programs[name]; ok {
				c.arguments(name, p, args[i+1:], words[i+1:], in, here, piped)
				return
			}
			if strings.Count(name, " ") == 2 {
				return
			}
		}
	}
}

// isFindExec reports whether an argument of find is followed by a command.
func isFindExec(arg string) bool {
	return strings.HasPrefix(arg, "-exec") || strings.HasPrefix(arg, "-ok")
}

// commandName returns the index of the name of the command, after programs such as sudo, and whether those pass their
// standard input as arguments.
func (c *insertion) commandName(words []*syntax.Word, args []string) (first int, piped bool) {
	for first < len(args) {
		takes, ok := wrappers[path.Base(args[first])]
		if !ok {
			break
		}
		wrapper := path.Base(args[first])
		piped = piped || wrapper == "xargs"
		i := first + 1
		for left := operandsOfWrappers[wrapper]; i < len(args); i++ {
			for n := range c.values(words[i]) {
				c.oneWord[n] = true
			}
			if slices.Contains(takes, args[i]) {
				i++
				continue
			}
			if assign := strings.IndexByte(args[i], '='); assign > 0 && syntax.ValidName(args[i][:assign]) {
				name := args[i][:assign]
				c.assigned(name, c.values(words[i]))
				c.mustNotBeSet(name, c.values(words[i]))
				continue
			}
			if strings.HasPrefix(args[i], "-") && args[i] != "-" {
				continue
			}
			if left--; left < 0 {
				break
			}
		}
		if first = i; first < len(args) {
			for n := range c.values(words[first]) {
				delete(c.oneWord, n)
			}
		}
	}
	if first < len(args) {
		c.executed(words[first], args[first])
	}
	return first, piped
}

// executed checks the name of a command. Values may be a part of it if they cannot lead to another folder.
func (c *insertion) executed(w *syntax.Word, text string) {
	values := c.values(w)
	if len(values) == 0 {
		return
	}
	at := c.form.FindStringIndex(text)
	if isAllArguments(w) && !c.shifts {
		values = c.vars[firstPositional]
	} else if through := c.expanded(w.Parts); len(through) > 0 {
		values = through
	} else if at == nil || at[0] > 0 {
		c.must(values, fileForm().MatchString, "a value in the name of a command is not a file name",
			"Check the value in an earlier step")
		return
	}
	c.mustNotExecute(values, "command", "a value is used as a command")
}

// arguments checks the arguments and the input of a program that executes code.
func (c *insertion) arguments(name string, p program, args []string, words []*syntax.Word, in set, here *syntax.Word,
	piped bool,
) {
	roles, input := p.roles(name, args)
	var parts []string
	var after []*syntax.Word // what follows the code
	hasCode := false
	for i, r := range roles {
		switch r {
		case code:
			hasCode = true
			if isInput(args[i]) {
				input = true
			}
			if through := c.expanded(words[i].Parts); len(through) > 0 || !p.words {
				c.mustNotExecute(union(through, c.values(words[i])), name, name+" executes the value as code")
			}
			parts, after = append(parts, args[i]), words[i+1:]
		case variableName:
			c.mustBeName(c.values(words[i]))
		case operandRole:
			c.operand(name, words[i])
		}
		if r != code && isInput(args[i]) {
			input = true
		}
		if assigned, _, ok := strings.Cut(args[i], "="); ok && p.macros && r == data && !strings.HasPrefix(assigned,
			"-") {
			c.must(c.values(words[i]), func(text string) bool { return !strings.Contains(text, "$") },
				name+" would expand the value again",
				"Pass the value in the environment, or check it in an earlier step")
		}
	}
	if name == "awk" {
		c.awk(strings.Join(parts, " "), words, in)
	}
	if p.words && hasCode {
		read := in
		if piped {
			read = nil
		}
		c.shellCode(name, strings.Join(parts, " "), c.parameters(name, after, in, piped), read)
	}
	if piped && len(in) > 0 {
		replaces := slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "{}") })
		if replaces || !hasCode && !input || input {
			c.mustNotExecute(in, name, name+" executes the value as code")
		}
		return
	}
	if !input {
		return
	}
	if here != nil && p.words && len(c.expanded(here.Parts)) == 0 {
		parameters := c.parameters(name, append([]*syntax.Word{{}}, words...), nil, false)
		c.shellCode(name, c.wordText(here.Parts, true), parameters, nil)
		return
	}
	c.mustNotExecute(in, name, name+" executes the value as code")
}

// parameters returns the values in the parameters of a shell, from $0 on. If piped is set, more of them come from in.
func (c *insertion) parameters(name string, words []*syntax.Word, in set, piped bool) map[string]set {
	if !IsShell(name) {
		return nil // eval has those of its shell
	}
	out := map[string]set{"0": nil, positional: nil, firstPositional: nil}
	for i, w := range words {
		values := c.values(w)
		switch {
		case i == 0:
			out["0"] = values
			values = c.unquoted(w) // which may be several words
			fallthrough
		case i == 1:
			out[firstPositional] = union(out[firstPositional], values)
			fallthrough
		default:
			out[positional] = union(out[positional], values)
		}
	}
	if piped {
		for parameter := range out {
			out[parameter] = union(out[parameter], in)
		}
	}
	return out
}

// awkExecutes matches code of awk that executes a text.
var awkExecutes = lazyregexp.New(`\bsystem\s*\(|\|&?\s*getline\b|` +
	`\bprintf?\b[^;}\n]*[^|]\|&?\s*([\w$(]|"(\S*/)?(ba|da|z|k)?sh\b)`)

// awk checks a program of awk, which can execute values from its arguments, the environment and its input.
func (c *insertion) awk(code string, words []*syntax.Word, in set) {
	if !awkExecutes().MatchString(code) {
		return
	}
	reached := in
	for _, w := range words {
		reached = union(reached, c.values(w))
	}
	if strings.Contains(code, "ENVIRON") {
		reached = union(append(slices.Collect(maps.Values(c.vars)), reached)...)
	}
	c.mustNotExecute(reached, "awk", "awk executes commands, and the value can become one")
}

// operand checks a value that an interpreter could read as an option, and the output of commands that it executes.
func (c *insertion) operand(name string, w *syntax.Word) {
	c.mustNotExecute(c.substituted(w), name, name+" executes the value as code")
	split := c.unquoted(w)
	if values := c.values(w); len(values) > 0 && startsWithValue(c, w) {
		c.must(values, func(text string) bool { return !strings.HasPrefix(strings.TrimSpace(text), "-") },
			name+" would read the value as an option", "Write -- before the value")
	}
	c.must(split, func(text string) bool { return !strings.ContainsAny(strings.TrimSpace(text), " \t\n") },
		name+" would read the value as several arguments", "Put the value in double quotes")
}

// startsWithValue reports whether a word begins with a value or with what is not known, so that it could be an option.
func startsWithValue(c *insertion, w *syntax.Word) bool {
	text := c.wordText(w.Parts, false)
	at := c.form.FindStringIndex(text)
	return at != nil && at[0] == 0 || strings.HasPrefix(text, "\x00")
}

// builtin follows and checks the values in the arguments of builtin commands.
func (c *insertion) builtin(name string, args []string, words []*syntax.Word, in set) {
	switch name {
	case "read", "mapfile", "readarray":
		for _, a := range append(slices.Clone(args), "REPLY", "MAPFILE") {
			if syntax.ValidName(a) {
				c.assigned(a, in)
			}
		}
	case "set":
		c.assigned(positional, c.valuesOf(words))
		if len(args) > 1 && (args[0] == "-A" || args[0] == "+A") {
			c.assigned(args[1], c.valuesOf(words[2:]))
			c.mustBeName(c.values(words[1]))
		}
	case "printf", "print":
		c.printing(name, args, words)
	case "let", "integer", "float":
		c.mustBeNumber(c.valuesOf(words))
	case "wait":
		if i := slices.Index(args, "-p"); i >= 0 && i+1 < len(args) {
			c.mustBeName(c.values(words[i+1]))
		}
	case "exit", "return", "shift", "break", "continue", "repeat":
		if c.evaluates() {
			c.mustBeNumber(c.valuesOf(words))
		}
	case "test", "[":
		for i, a := range args {
			if (a == "-v" || a == "-t" || a == "-R") && i+1 < len(args) {
				c.mustBeName(c.values(words[i+1]))
			}
			if c.evaluates() && slices.Contains([]string{"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}, a) {
				c.mustBeNumber(c.valuesOf(words))
			}
			c.mustNotExpand(c.unquoted(words[i]))
		}
	}
}

// printing follows and checks the values in the arguments of printf and print.
func (c *insertion) printing(name string, args []string, words []*syntax.Word) {
	if i := slices.Index(args, "-v"); i >= 0 && i+1 < len(args) {
		c.mustBeName(c.values(words[i+1]))
		c.assigned(args[i+1], c.valuesOf(words[i+2:]))
	}
	if !c.evaluates() || len(args) == 0 {
		return
	}
	if name == "print" {
		if strings.HasPrefix(args[0], "-") {
			c.mustBeNumber(c.valuesOf(words[1:]))
		}
		return
	}
	numbers := conversions(args[0])
	for i, w := range words[1:] {
		if len(numbers) == 0 || numbers[i%len(numbers)] || len(c.unquoted(w)) > 0 && slices.Contains(numbers, true) {
			c.mustBeNumber(c.values(w))
		}
	}
}

// evaluates reports whether the shell evaluates arguments that must be numbers as arithmetic, in which commands can be
// hidden.
func (c *insertion) evaluates() bool {
	return !slices.Contains([]string{"sh", "bash", "dash", "ash", "busybox", "yash"}, c.shell)
}

// valuesOf returns the values in words.
func (c *insertion) valuesOf(words []*syntax.Word) set {
	out := set{}
	for _, w := range words {
		out = union(out, c.values(w))
	}
	return out
}

// conversions returns which conversions of a printf format are to numbers. It returns nil if they are unknown.
func conversions(format string) []bool {
	var out []bool
	if strings.Contains(format, "\x00") {
		return nil
	}
	for _, piece := range strings.Split(strings.ReplaceAll(format, "%%", ""), "%")[1:] {
		piece = strings.TrimLeft(piece, "-+ #0123456789.")
		if piece == "" || piece[0] == '*' {
			return nil
		}
		out = append(out, !strings.ContainsRune("sbqc", rune(piece[0])))
	}
	if out == nil {
		return []bool{false}
	}
	return out
}
