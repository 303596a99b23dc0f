package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// MCPFileName is where other programs, too, keep their MCP servers.
const MCPFileName = ".mcp.json"

// MCPFile is such a file. It belongs to other programs as well, so what is
// wrong with a server in it keeps nobody from running what does not need it.
type MCPFile struct {
	File     *source.File // nil when there is none
	Servers  []Named[Server]
	Problems diag.List
	Err      error // why it cannot be read at all
}

// mcpCodes let other programs have keys of their own.
var mcpCodes = text.Codes{WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown, BadValue: CodeBadValue, UnknownAs: diag.Note}

// ParseMCP reads such a file. Servers of the configuration come before those
// of the same name here.
func ParseMCP(f *source.File) MCPFile {
	out := MCPFile{File: f}
	node, problems := text.ParseJSON(f)
	out.Problems = problems
	if node == nil {
		return out
	}
	whole := text.Read(node, "file", mcpCodes, &out.Problems)
	whole.Require("mcpServers")
	if all := whole.Map("mcpServers"); all != nil {
		for _, pair := range all.Pairs {
			var own diag.List
			one := Named[Server]{Name: pair.Key.Text(), Is: readMCP(pair.Key.Text(), pair.Value, &own)}
			for _, d := range own {
				if d.Severity > diag.Note {
					one.Is.Wrong = append(one.Is.Wrong, d)
				}
			}
			out.Servers = append(out.Servers, one)
			out.Problems = append(out.Problems, own...)
		}
	}
	whole.Done()
	out.Problems = out.Problems.Sorted()
	return out
}

// mcpTypes are how programs call the ways to speak with a server.
var mcpTypes = []string{"stdio", "http", "streamable-http", "streamableHttp", "sse"}

func readMCP(name text.Text, n *text.Node, out *diag.List) Server {
	r := text.Read(n, "MCP server", mcpCodes, out)
	say := func(code diag.Code, severity diag.Severity, at source.Span, message, help string) {
		out.Add(diag.Diagnostic{Code: code, Severity: severity, Span: at, Message: message, Help: help})
	}
	kind := r.Enum("type", mcpTypes...)
	s := Server{URL: r.String("url"), Env: texts(r, "env", out), Headers: texts(r, "headers", out)}
	program, words := r.String("command"), r.Strings("args")
	if program.Value != "" {
		s.Command = append([]text.Text{program}, words...)
	}
	lacks := func(key string) bool {
		n := r.Node(key)
		return n == nil || n.Kind < text.List && n.Value == "" // of another kind was reported
	}
	switch {
	case kind.Value == "sse":
		say(CodeTransport, diag.Warning, kind.Span, fmt.Sprintf("The MCP server %q speaks SSE alone, which is out of use, so Espalier cannot use it.", name.Value),
			"Ask the server for its address for streamable HTTP, and write \"type\": \"http\".")
	case lacks("command") && lacks("url") && n.Kind == text.Map:
		say(CodeMissing, diag.Error, name.Span, fmt.Sprintf("The MCP server %q says neither how it is started nor where it is.", name.Value),
			`Add "command": "npx" and "args", or "url": "https://…".`)
	case program.Value != "" && s.URL.Value != "":
		say(CodeSources, diag.Error, r.KeySpan("url"), `"command" and "url" of the MCP server exclude each other.`, "Keep one of them.")
	}
	if strings.ContainsAny(name.Value, serverless) {
		say(CodeBadValue, diag.Warning, name.Span, fmt.Sprintf("%q cannot be the name of a server here, because tools are written server.tool.", name.Value),
			"Use letters, digits, dashes and underscores.")
	}
	s.checkVariables(out)
	r.Done()
	return s
}

// texts reads a map of texts.
func texts(r *text.Reader, key string, out *diag.List) []Header {
	n := r.Map(key)
	if n == nil {
		return nil
	}
	inner := text.Read(n, key, mcpCodes, out)
	var all []Header
	for _, pair := range n.Pairs {
		all = append(all, Header{Name: pair.Key.Value, Value: inner.String(pair.Key.Value)})
	}
	return all
}

// serverless are characters that names of servers cannot have.
const serverless = ".*?[ "

// texts are all texts in which variables may stand.
func (s *Server) texts() []text.Text {
	out := slices.Clone(s.Command)
	out = append(out, s.URL)
	for _, h := range slices.Concat(s.Env, s.Headers) {
		out = append(out, h.Value)
	}
	return out
}

// checkVariables reports variables that are not written as such.
func (s *Server) checkVariables(out *diag.List) {
	for _, t := range s.texts() {
		checkVariables(t, out)
	}
}

func checkVariables(t text.Text, out *diag.List) {
	if _, ok := variables(t.Value); !ok {
		out.Add(diag.Diagnostic{
			Code: CodeBadValue, Severity: diag.Error, Span: t.Span, Message: fmt.Sprintf("%q has a ${ that is not closed.", t.Value),
			Help: "Write ${NAME}, or ${NAME:-otherwise} for a variable that may be missing.",
		})
	}
}

// Variables are the names of all variables of the environment that servers and
// the headers of tools name.
func (c *Config) Variables() []string {
	var all []text.Text
	for _, list := range [][]Named[Server]{c.MCP, c.MCPFile.Servers} {
		for i := range list {
			all = append(all, list[i].Is.texts()...)
		}
	}
	for _, t := range c.Tools {
		for _, h := range t.Is.Headers {
			all = append(all, h.Value)
		}
	}
	var out []string
	for _, t := range all {
		names, _ := variables(t.Value)
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// variables are the names in a text; false when one is not closed.
func variables(s string) (names []string, ok bool) {
	_, err := Expand(s, func(name string) string {
		names = append(names, name)
		return "-" // not empty, which would be an error
	})
	return names, err == nil
}

// Expand puts variables of the environment into a text: ${NAME}, and
// ${NAME:-otherwise} for one that may be missing.
func Expand(s string, getenv func(string) string) (string, error) {
	var out strings.Builder
	for {
		before, rest, opened := strings.Cut(s, "${")
		inner, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		if !opened {
			return out.String(), nil
		}
		if !closed {
			return "", fmt.Errorf("%q has a ${ that is not closed", s)
		}
		name, otherwise, hasDefault := strings.Cut(inner, ":-")
		value := getenv(name)
		if value == "" && !hasDefault {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		if value == "" {
			value = otherwise
		}
		out.WriteString(value)
		s = after
	}
}
