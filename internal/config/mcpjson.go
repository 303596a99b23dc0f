package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// MCPFileName is the file in which other programs, too, declare MCP servers.
const MCPFileName = ".mcp.json"

// MCPFile holds the servers of .mcp.json. Other programs use that file as well, so a mistake in one of its servers
// affects only the runs that need that server.
type MCPFile struct {
	File     *source.File // nil if there is no file
	Servers  []Named[Server]
	Problems diag.List
	Err      error // set if the file cannot be read
}

// mcpCodes ignore unknown keys, because other programs define keys there.
var mcpCodes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown, BadValue: CodeBadValue,
	UnknownAs: diag.Note,
}

// ParseMCP parses .mcp.json. A server of espalier.yaml takes precedence over a server of the same name here.
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

// mcpTypes are the names that programs use for transports.
var mcpTypes = []string{"stdio", "http", "streamable-http", "streamableHttp", "sse"}

// readMCP reads one server in the form that other programs use. Mistakes are kept with the server: those of a server
// that no run needs do no harm.
func readMCP(name text.Text, n *text.Node, out *diag.List) Server {
	r := text.Read(n, "MCP server", mcpCodes, out)
	kind := r.Enum("type", mcpTypes...)
	s := Server{URL: r.String("url"), Env: texts(r, "env", mcpCodes, out), Headers: texts(r, "headers", mcpCodes, out)}
	program, words := r.String("command"), r.Strings("args")
	if program.Value != "" {
		s.Command = append([]text.Text{program}, words...)
	}
	lacks := func(key string) bool {
		n := r.Node(key)
		return n == nil || n.Kind < text.List && n.Value == "" // values of another kind are reported elsewhere
	}
	switch {
	case kind.Value == "sse":
		out.Warnf(CodeTransport, kind.Span,
			"Look up the server's address for streamable HTTP, and write \"type\": \"http\".",
			"The MCP server %q uses the SSE transport, which is deprecated and not supported.", name.Value)
	case lacks("command") && lacks("url") && n.Kind == text.Map:
		out.Errorf(CodeMissing, name.Span, `Add "command": "npx" and "args", or "url": "https://…".`,
			"The MCP server %q has neither a command nor a URL.", name.Value)
	case program.Value != "" && s.URL.Value != "":
		out.Errorf(CodeSources, r.KeySpan("url"), "Keep one of them.",
			`"command" and "url" of the MCP server exclude each other.`)
	}
	if strings.ContainsAny(name.Value, serverless) {
		out.Warnf(CodeBadValue, name.Span, "Use letters, digits, dashes and underscores.",
			"Invalid server name %q: tools are written server.tool.", name.Value)
	}
	s.checkVariables(out)
	r.Done()
	return s
}

// texts reads a map from names to strings, in the order of the file.
func texts(r *text.Reader, key string, codes text.Codes, out *diag.List) []Header {
	n := r.Map(key)
	if n == nil {
		return nil
	}
	inner := text.Read(n, key, codes, out)
	return xslices.Map(n.Pairs, func(pair text.Pair) Header {
		return Header{Name: pair.Key.Value, Value: inner.String(pair.Key.Value)}
	})
}

// serverless are the characters that a server's name must not contain.
const serverless = ".*?[ "

// texts returns all strings in which variables are expanded.
func (s *Server) texts() []text.Text {
	values := xslices.Map(slices.Concat(s.Env, s.Headers), func(h Header) text.Text { return h.Value })
	out := slices.Concat(s.Command, []text.Text{s.URL}, values)
	if s.OAuth != nil {
		out = append(out, s.OAuth.ClientID, s.OAuth.Secret, s.OAuth.Issuer)
	}
	return out
}

// checkVariables reports malformed references to variables.
func (s *Server) checkVariables(out *diag.List) {
	for _, t := range s.texts() {
		checkVariables(t, out)
	}
}

func checkVariables(t text.Text, out *diag.List) {
	if _, ok := variables(t.Value); !ok {
		out.Errorf(CodeBadValue, t.Span, "Write ${NAME}, or ${NAME:-default} for an optional variable.",
			"%q has a ${ that is not closed.", t.Value)
	}
}

// Variables returns the names of the environment variables that servers and headers of tools refer to.
func (c *Config) Variables() []string {
	var all []text.Text
	for _, one := range slices.Concat(c.MCP, c.MCPFile.Servers) {
		all = append(all, one.Is.texts()...)
	}
	for _, t := range c.Tools {
		all = append(all, xslices.Map(t.Is.Headers, func(h Header) text.Text { return h.Value })...)
	}
	var out []string
	for _, t := range all {
		names, _ := variables(t.Value)
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// variables returns the names of the variables in s; ok is false if a reference is not closed.
func variables(s string) (names []string, ok bool) {
	_, err := Expand(s, func(name string) string {
		names = append(names, name)
		return "-" // not empty, because Expand rejects empty variables
	})
	return names, err == nil
}

// Expand replaces references to environment variables: ${NAME}, and ${NAME:-default} for an optional variable.
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
		value = cmp.Or(value, otherwise)
		out.WriteString(value)
		s = after
	}
}
