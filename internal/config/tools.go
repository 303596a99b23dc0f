package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
)

// Tool is what a name means that workflows call tools by, and what holds for
// its calls. Without Use and URL it is about the tool of that very name.
type Tool struct {
	Use text.Text // another tool: a built-in one, or SERVER.TOOL
	Off bool      // nobody may call it

	Withheld bool // see Power

	// A tool that is a request over HTTP.
	URL         text.Text
	Method      string
	Description string
	Schema      json.RawMessage
	Returns     json.RawMessage // the schema of its answer
	Headers     []Header
	Bearer      text.Text // a reference to a secret
	// IdempotencyHeader carries the call's key: the server does nothing twice.
	IdempotencyHeader string
	SideEffects       *bool // nil is what the method says

	RequiresApproval bool
	ApprovalTimeout  time.Duration
	Timeout          time.Duration
}

func readTools(f *fields) []Named[Tool] {
	return entries(f, "tools", "tool", "What the names of tools mean here, and what holds for their calls.", readTool)
}

// Methods are those that a tool can have.
func Methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

func readTool(name text.Text, f *fields) Tool {
	var t Tool
	t.Use = f.text("use", "The tool that it is: a built-in one such as Read, or SERVER.TOOL of an MCP server.")
	t.URL = f.text("url", "The address of a tool that is a request over HTTP; {name} stands for an argument.")
	t.Method = f.choice("method", "The method of the request; POST when left out.", Methods()...)
	t.Description = f.text("description", "What the tool does, for the model.").Value
	t.Schema = f.contract("schema", "The JSON Schema of its arguments.")
	t.Returns = f.contract("returns", "The JSON Schema of its answer: what simulated runs make up.")
	t.Headers = f.named("headers", "Further HTTP headers; secret://NAME may stand for a value.")
	t.Bearer = f.text("bearer", "The token, as a reference to a declared secret: secret://NAME.")
	t.IdempotencyHeader = f.text("idempotency_header", "The header in which the server takes a key, so that it does nothing twice.").Value
	if on := f.flag("side_effects", "Whether calling it changes anything; GET says no, the other methods yes."); f.r.Has("side_effects") {
		t.SideEffects = &on
	}
	if on := f.flag("enabled", "false: nobody may call it."); f.r.Has("enabled") && !on {
		t.Off = true
	}
	t.RequiresApproval = f.flag("requires_approval", "A person has to agree to each call, with exactly its arguments.")
	t.ApprovalTimeout = f.duration("approval_timeout", "How long there is for that; after it the answer is no.")
	t.Timeout = f.duration("timeout", "How long a call may take.")
	f.exclusive("use", "url")
	f.checkKey(t.Bearer)
	t.check(name, f)
	return t
}

func (t *Tool) check(name text.Text, f *fields) {
	if name.Value == "" {
		return
	}
	// Where workflows list tools these mean several, or some calls. Here they
	// would mean nothing, and nobody would be asked.
	if strings.ContainsAny(name.Value, "*?[(") || strings.HasPrefix(name.Value, "mcp__") {
		f.report(CodeBadValue, name.Span, "Write an entry for each tool, under its own name: Bash, or SERVER.TOOL for a tool of an MCP server.", "%q is not the name of one tool.", name.Value)
	}
	if t.URL.Value == "" {
		for _, key := range []string{"method", "schema", "headers", "bearer", "idempotency_header", "description", "side_effects"} {
			if f.r.Has(key) && !f.r.Has("url") {
				f.report(CodeMissing, f.r.KeySpan(key), "Add a line such as url: https://api.example.com/search, or remove this one.", "%q of the tool %q is about a request, and there is no url.", key, name.Value)
			}
		}
		return
	}
	u, err := url.Parse(t.URL.Value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(u.Host, "{}"):
		f.report(CodeBadValue, t.URL.Span, "Write a whole address: url: https://api.example.com/search. Only what comes after the host may be an argument.", "%q is not the address of a tool.", t.URL.Value)
	case u.User != nil:
		f.report(CodeOpenKey, t.URL.Span, "Declare a secret, and name it with bearer: secret://NAME.", "The address holds a password, which everybody who can read this file would know.")
	}
}

// Server is an MCP server: a program, or an address.
type Server struct {
	Command []text.Text
	Env     []Header
	URL     text.Text
	Headers []Header
	Timeout time.Duration // of one call
	Tools   []text.Text   // that may be used; all when empty
	Sandbox bool          // the program is confined
	Off     bool
	Wrong   diag.List // what keeps it from being used, in .mcp.json

	Withheld bool // see Power
}

func readServers(f *fields) []Named[Server] {
	return entries(f, "mcp", "MCP server", "Servers that speak MCP. Their tools are called NAME.TOOL. Those of .mcp.json count, too.", func(name text.Text, f *fields) Server {
		s := Server{
			Command: f.texts("command", "The program that is the server, as a list of its words."),
			Env:     f.named("env", "What the program gets to see of the environment; secret://NAME and ${NAME} may stand for a value."),
			URL:     f.text("url", "The address of a server that speaks streamable HTTP."),
			Headers: f.named("headers", "HTTP headers for it; secret://NAME and ${NAME} may stand for a value."),
			Timeout: f.duration("timeout", "How long a call of a tool may take."),
			Tools:   f.texts("tools", "The tools that may be used; all of them when left out."),
		}
		s.Sandbox = f.flag("sandbox", "true: the program sees the project, changes only a folder of its own, and reaches no network.")
		if s.Sandbox && f.r.Has("url") {
			f.report(CodeSources, f.r.KeySpan("sandbox"), "Remove it: what runs elsewhere cannot be confined from here.", "\"url\" and \"sandbox\" of the MCP server exclude each other.")
		}
		if on := f.flag("enabled", "false: the server is not used, also when .mcp.json has it."); f.r.Has("enabled") && !on {
			s.Off = true
		}
		f.exclusive("command", "url")
		if name.Value != "" && !s.Off && f.lacks("command", "url") {
			f.report(CodeMissing, name.Span, "Add command: [npx, -y, PACKAGE], or url: https://….", "The MCP server %q says neither how it is started nor where it is.", name.Value)
		}
		if strings.ContainsAny(name.Value, serverless) {
			f.report(CodeBadValue, name.Span, "Use letters, digits, dashes and underscores.", "%q cannot be the name of a server, because tools are written server.tool.", name.Value)
		}
		return s
	})
}

// Tool is the entry of that name; nil when there is none.
func (c *Config) Tool(name string) *Tool {
	i := slices.IndexFunc(c.Tools, func(t Named[Tool]) bool { return t.Name.Value == name })
	if i < 0 {
		return nil
	}
	return &c.Tools[i].Is
}

// Unbound is a tool that nothing is bound to, and the steps that need it.
type Unbound struct {
	Tool  string
	Steps []string
}

// Paste says how to bind tools, in a text that can be pasted as it is. instead
// is what else can be done.
func (c *Config) Paste(tools []Unbound, instead string) string {
	var b strings.Builder
	place := ""
	if len(c.Tools) > 0 { // the key is there
		place = `, below "tools:"`
	}
	fmt.Fprintf(&b, "Add this to %s%s, or %s:\n\n", FileName, place, instead)
	if place == "" {
		b.WriteString("tools:\n")
	}
	for i, one := range tools {
		fmt.Fprintf(&b, "  %s: # for %s\n    use: SERVER.TOOL", one.Tool, strings.Join(one.Steps, ", "))
		if i == 0 {
			b.WriteString("   # of an MCP server, or a built-in tool; or instead:\n    # url: https://api.example.com/…\n    # method: POST")
		}
		b.WriteString("\n")
	}
	return b.String()
}
