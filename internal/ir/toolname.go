package ir

import (
	"path"
	"strings"
)

// ShellTool is the tool that executes its argument ShellArgument with ToolShell.
const (
	ShellTool     = "Bash"
	ShellArgument = "command"
	ToolShell     = "bash"
)

// ToolName returns the plain name of the tool that an entry of a list names: without the brackets that narrow its
// arguments, and with a dot between an MCP server and its tool.
func ToolName(entry string) string {
	name, _, _ := strings.Cut(entry, "(")
	name = strings.TrimSpace(name)
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		if server, tool, ok := strings.Cut(rest, "__"); ok {
			return server + "." + tool
		}
		return rest + ".*" // a whole server
	}
	return name
}

// MatchesTool reports whether an entry of a list names a tool. An entry may be a pattern ("github.*"). Brackets
// ("Bash(git status)") concern the arguments of a tool and not its name.
func MatchesTool(entry, name string) bool {
	entry, name = withoutSlashes.Replace(ToolName(entry)), withoutSlashes.Replace(ToolName(name))
	if entry == name {
		return true
	}
	ok, err := path.Match(entry, name)
	return ok && err == nil
}

// withoutSlashes makes a star match names with slashes, which MCP servers use.
var withoutSlashes = strings.NewReplacer("/", "\x00")

// ToolArguments returns the brackets of an entry of a list, such as "Makefile" in "Edit(Makefile)". restricted is false
// if the entry means every call of the tool.
func ToolArguments(entry string) (text string, restricted bool) {
	_, text, found := strings.Cut(entry, "(")
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), ")"))
	return text, found && text != "" && text != "*"
}
