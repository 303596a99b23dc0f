package expr

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Programs that read what a command hands them as code.

var saysEscape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\{-?\s*escape\b|\|\s*escape\s*-?\}\}$`) })

// CodeReaders tells which programs read parts of a command as code: a second shell,
// for instance, or awk. The parts are templates, given by where they begin and
// end; "" is the reader of those that are data.
func CodeReaders(command string, parts [][]int) []string {
	var b strings.Builder
	at := 0
	for i, p := range parts {
		way := byte(asWords)
		if saysEscape().MatchString(command[p[0]:p[1]]) {
			way = asQuoted
		}
		b.WriteString(command[at:p[0]])
		b.WriteString(marked(way, strconv.Itoa(i)))
		at = p[1]
	}
	b.WriteString(command[at:])
	w := newWeaver("sh")
	w.values = slices.Repeat([]string{"1"}, len(parts))
	_, _ = w.weave(b.String()) // what is wrong with it the shell will say
	out := make([]string, len(parts))
	for i := range parts {
		out[i] = w.readers[i]
	}
	return out
}

// introduces are the options behind which a program has code.
var introduces = map[string][]string{
	"python": {"-c"}, "perl": {"-e", "-E"}, "ruby": {"-e"}, "node": {"-e", "-p", "--eval", "--print"}, "bun": {"-e", "-p", "--eval"}, "deno": {"eval"},
	"php": {"-r"}, "lua": {"-e"}, "psql": {"-c"}, "mysql": {"-e"}, "osascript": {"-e"}, "Rscript": {"-e"}, "su": {"-c"},
}

// leading is how many arguments, options aside, a program has before its code, and which
// of its options have how many words behind them. With an option of -1 there is
// no code.
type leading struct {
	arguments int
	more      bool // all that follows is code
	options   map[string]int
}

var programs = map[string]leading{
	"eval":    {more: true},
	"trap":    {},
	"watch":   {more: true, options: optionsWith(1, "-n")},
	"awk":     {options: map[string]int{"-v": 1, "-F": 1, "-f": -1}},
	"sed":     {options: map[string]int{"-e": 0, "-f": -1, "--file": -1, "-l": 1}},
	"jq":      {options: map[string]int{"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2, "--indent": 1, "-L": 1, "-f": -1, "--from-file": -1}},
	"ssh":     {arguments: 1, more: true, options: optionsWith(1, "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q", "-R", "-S", "-W", "-w")},
	"sqlite3": {arguments: 1, more: true, options: optionsWith(1, "-cmd", "-separator", "-nullvalue")},
}

func optionsWith(count int, names ...string) map[string]int {
	out := map[string]int{}
	for _, name := range names {
		out[name] = count
	}
	return out
}

// wrappers are programs that run another one.
var wrappers = []string{"sudo", "doas", "env", "command", "builtin", "exec", "nohup", "time", "timeout", "nice", "stdbuf", "xargs"}

// ReadsWords tells whether the code that a program reads is a shell's, with words
// in quotes.
func ReadsWords(reader string) bool {
	return IsShell(reader) || slices.Contains([]string{"eval", "trap", "ssh", "su", "watch"}, reader)
}

// programName is a program without its folder and version.
func programName(word string) string {
	name := path.Base(word)
	switch {
	case strings.HasPrefix(name, "python"):
		return "python"
	case strings.HasSuffix(name, "awk"):
		return "awk"
	case name == "gsed":
		return "sed"
	case name == "nodejs":
		return "node"
	}
	return name
}

func isOption(word string) bool { return strings.HasPrefix(word, "-") && word != "-" }

func onlyOptions(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
}

// codeReader is the program that reads the next argument of a command as code; option says
// that this argument begins with -.
func codeReader(words []string, option bool) string {
	for i, word := range words {
		name, args := programName(word), words[i+1:]
		last := ""
		if len(args) > 0 {
			last = args[len(args)-1]
		}
		switch lead, known := programs[name]; {
		case IsShell(name):
			if onlyOptions(args) && introduced(last, "-c") {
				return name
			}
		case introduces[name] != nil:
			if slices.ContainsFunc(introduces[name], func(o string) bool { return introduced(last, o) }) {
				return name
			}
		case known && (i == 0 || slices.Contains(wrappers, words[0])):
			if lead.reached(args, option) {
				return name
			}
		}
	}
	return ""
}

// introduced tells whether a word is an option, perhaps with others before it.
func introduced(word, option string) bool {
	return word == option || len(option) == 2 && isOption(word) && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, option[1:])
}

// reached tells whether the next argument is code.
func (l leading) reached(args []string, option bool) bool {
	left := l.arguments
	for i := 0; i < len(args); i++ {
		behind, known := l.options[args[i]]
		switch {
		case behind < 0:
			return false
		case known && behind == 0 && i == len(args)-1: // its code follows
			return true
		case known:
			if i += max(1, behind); i >= len(args) {
				return false
			}
		case args[i] == "" || isOption(args[i]) && left == l.arguments:
		case left > 0:
			left--
		default: // that was it
			return l.more
		}
	}
	return left == 0 && (!option || l.arguments > 0)
}

// inputReader is the program that reads the input of a command as code.
func inputReader(words []string) string {
	for i, word := range words {
		name, args := programName(word), words[i+1:]
		switch {
		case name == "ssh" && programs[name].reached(args, false) && !programs[name].reached(args[:len(args)-1], false), // and no command for there
			name == "sqlite3", name == "psql", name == "mysql",
			onlyOptions(args) && IsShell(name) && !slices.ContainsFunc(args, func(a string) bool { return introduced(a, "-c") }),
			introduces[name] != nil && onlyOptions(args) && !slices.ContainsFunc(args, func(a string) bool {
				return slices.ContainsFunc(introduces[name], func(o string) bool { return introduced(a, o) })
			}):
			return name
		}
	}
	return ""
}
