package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
)

// Tool binds the name of a tool in workflows and configures its calls. Without Use and URL it configures the tool of
// the same name.
type Tool struct {
	Use text.Text // another tool: the name of a built-in tool, or SERVER.TOOL
	Off bool      // calls are refused

	Unapproved bool // see PrivilegedSetting

	// The fields of a tool that sends HTTP requests.
	URL         text.Text
	Method      string
	Description string
	Schema      json.RawMessage
	Returns     json.RawMessage // the JSON Schema of the response
	Headers     []Header
	Bearer      text.Text // a reference to a secret
	// IdempotencyHeader names the header that carries the call's key, by which the server recognizes repeated calls.
	IdempotencyHeader string
	SideEffects       *bool // nil: derived from the method

	// RequiresApproval also holds if the tool in Use requires approval and this entry does not say otherwise.
	RequiresApproval bool
	ApprovalTimeout  time.Duration

	ownApproval bool // the entry says whether calls require approval
	Timeout     time.Duration
}

// readTools reads the tools section. An entry that uses another entry inherits its approval rule unless it has one of
// its own: a second name must not get around the rule.
func readTools(f *fields) []Named[Tool] {
	list := entries(f, "tools", "tool", "Bindings and settings of tools, by the name that workflows use.", readTool)
	for i := range list {
		t := &list[i].Is
		other := entry(list, t.Use.Value)
		if other == nil || !other.RequiresApproval || t.ownApproval {
			continue
		}
		t.RequiresApproval = true
		t.ApprovalTimeout = cmp.Or(t.ApprovalTimeout, other.ApprovalTimeout)
	}
	return list
}

// Methods returns the HTTP methods that a tool can use.
func Methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// readTool reads one tool.
func readTool(name text.Text, f *fields) Tool {
	var t Tool
	t.Use = f.text("use", "The tool to call: a built-in tool such as Read, or SERVER.TOOL of an MCP server.")
	t.URL = f.text("url", "The address of a tool that sends an HTTP request; {name} inserts an argument.")
	t.Method = f.choice("method", "The HTTP method; POST if not set.", Methods()...)
	t.Description = f.text("description", "What the tool does, for the model.").Value
	t.Schema = f.contract("schema", "The JSON Schema of its arguments.")
	t.Returns = f.contract("returns", "The JSON Schema of its response; simulated runs generate responses from it.")
	t.Headers = f.named("headers", "Additional HTTP headers; a value may be secret://NAME.")
	t.Bearer = f.text("bearer", "The token, as a reference to a declared secret: secret://NAME.")
	t.IdempotencyHeader = f.text("idempotency_header",
		"The header that carries an idempotency key, so that the server ignores repeated calls.").Value
	if on := f.flag("side_effects",
		"Whether calls have side effects; by default, all methods except GET have."); f.r.Has("side_effects") {
		t.SideEffects = &on
	}
	if on := f.flag("enabled", "false: calls are refused."); f.r.Has("enabled") && !on {
		t.Off = true
	}
	t.RequiresApproval = f.flag("requires_approval",
		"true: a person must approve each call and its exact arguments. If not set, as for the tool in \"use\".")
	t.ownApproval = f.r.Has("requires_approval")
	t.ApprovalTimeout = f.duration("approval_timeout", "Time limit for the approval; then the call is rejected.")
	t.Timeout = f.duration("timeout", "Time limit for a call.")
	f.exclusive("use", "url")
	f.checkKey(t.Bearer, "bearer: secret://NAME")
	t.check(name, f)
	return t
}

// check reports entries that would have no effect, or another one than it seems: names that select several tools, and
// settings of requests without an address.
func (t *Tool) check(name text.Text, f *fields) {
	if name.Value == "" {
		return
	}
	// In the tool lists of workflows these patterns select several tools or some calls. An entry under such a name
	// would have no effect, so its approval rule would be ignored.
	if strings.ContainsAny(name.Value, "*?[(") || strings.HasPrefix(name.Value, "mcp__") {
		f.out.Errorf(CodeBadValue, name.Span,
			"Write an entry for each tool, under its own name: Bash, or SERVER.TOOL for a tool of an MCP server.",
			"%q is not the name of one tool.", name.Value)
	}
	if t.URL.Value == "" {
		for _, key := range []string{
			"method", "schema", "headers", "bearer", "idempotency_header", "description",
			"side_effects",
		} {
			if f.r.Has(key) && !f.r.Has("url") {
				f.out.Errorf(CodeMissing, f.r.KeySpan(key),
					"Add a line such as url: https://api.example.com/search, or remove this one.",
					"%q of the tool %q requires a url.", key, name.Value)
			}
		}
		return
	}
	u, err := url.Parse(t.URL.Value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(u.Host, "{}"):
		f.out.Errorf(CodeBadValue, t.URL.Span,
			"Write a whole address: url: https://api.example.com/search. Only the part after the host may contain "+
				"arguments.", "%q is not the address of a tool.", t.URL.Value)
	case u.User != nil:
		f.out.Errorf(CodeOpenKey, t.URL.Span, "Declare a secret, and name it with bearer: secret://NAME.",
			"The address contains a password in plain text.")
	}
}

// Server configures an MCP server: a local program or a URL.
type Server struct {
	Command []text.Text
	Env     []Header
	URL     text.Text
	Headers []Header
	Timeout time.Duration // per call
	Tools   []text.Text   // allowed tools; empty allows all
	Sandbox bool          // the program runs in a sandbox
	// Sampling lets the server use the models of runs.
	Sampling bool
	OAuth    *OAuth // nil if requests need no token
	Off      bool
	Wrong    diag.List // mistakes that make a server of .mcp.json unusable

	Unapproved bool // see PrivilegedSetting
}

// OAuth is a client that is registered at the authorization server of an MCP server.
type OAuth struct {
	ClientID text.Text
	Secret   text.Text // empty: a person signs in
	Issuer   text.Text // authorization server; empty lets the MCP server name it
}

func readServers(f *fields) []Named[Server] {
	return entries(f, "mcp", "MCP server",
		"MCP servers, in addition to those of .mcp.json. Their tools are named NAME.TOOL.",
		func(name text.Text, f *fields) Server {
			s := Server{
				Command: f.texts("command", "The program that runs the server, and its arguments, as a list."),
				Env: f.named("env",
					"Environment variables of the program; values may be secret://NAME or contain ${NAME}."),
				URL:     f.text("url", "The address of a server with streamable HTTP."),
				Headers: f.named("headers", "HTTP headers; values may be secret://NAME or contain ${NAME}."),
				Timeout: f.duration("timeout", "Time limit for a tool call."),
				Tools:   f.texts("tools", "The tools that may be used; all if not set."),
			}
			s.Sandbox = f.flag("sandbox",
				"true: the program can read the project, change only its own folder, and has no network access.")
			if s.Sandbox && f.r.Has("url") {
				f.out.Errorf(CodeSources, f.r.KeySpan("sandbox"),
					"Remove it: a remote server cannot run in the local sandbox.",
					"\"url\" and \"sandbox\" of the MCP server exclude each other.").
					RemoveEntry("sandbox", f.r.Entry("sandbox"))
			}
			s.Sampling = f.flag("sampling",
				"true: tools of the server can ask the model of the run, within its budget.")
			has := f.r.Has("oauth")
			f.object("oauth", "OAuth client", "The client that gets tokens for the URL.",
				func(f *fields) {
					read := &OAuth{
						ClientID: f.text("client_id", "The ID under which the client is registered."),
						Secret: f.text("client_secret", "The client secret: secret://NAME or ${NAME}. Without it, you "+
							"sign in with espalier login --mcp NAME."),
						Issuer: f.text("issuer",
							"The only authorization server that may receive the secret. Recommended."),
					}
					if has {
						f.require("client_id")
						s.OAuth = read
					}
				})
			if s.OAuth != nil && !f.r.Has("url") {
				f.out.Errorf(CodeSources, f.r.KeySpan("oauth"), "Remove it: a program needs no token.",
					"\"oauth\" of the MCP server needs \"url\".").RemoveEntry("oauth", f.r.Entry("oauth"))
			}
			if on := f.flag("enabled",
				"false: the server is not used, even if .mcp.json declares it."); f.r.Has("enabled") && !on {
				s.Off = true
			}
			f.exclusive("command", "url")
			if name.Value != "" && !s.Off && f.lacks("command", "url") {
				f.out.Errorf(CodeMissing, name.Span, "Add command: [npx, -y, PACKAGE], or url: https://….",
					"The MCP server %q has neither a command nor a URL.", name.Value)
			}
			if strings.ContainsAny(name.Value, serverless) {
				f.out.Errorf(CodeBadValue, name.Span, "Use letters, digits, dashes and underscores.",
					"Invalid server name %q: tools are written server.tool.", name.Value)
			}
			return s
		})
}

// Tool returns the entry of that name, or nil if there is none.
func (c *Config) Tool(name string) *Tool { return entry(c.Tools, name) }

// Unbound is a tool without a binding, and the steps that call it.
type Unbound struct {
	Tool  string
	Steps []string
}

// Paste returns instructions for binding tools, with configuration that can be pasted as is. instead names the
// alternative.
func (c *Config) Paste(tools []Unbound, instead string) string {
	var b strings.Builder
	place := ""
	if len(c.Tools) > 0 { // the section exists
		place = `, below "tools:"`
	}
	fmt.Fprintf(&b, "Add this to %s%s, or %s:\n\n", FileName, place, instead)
	if place == "" {
		b.WriteString("tools:\n")
	}
	for i, one := range tools {
		fmt.Fprintf(&b, "  %s: # for %s\n    use: SERVER.TOOL", one.Tool, strings.Join(one.Steps, ", "))
		if i == 0 {
			b.WriteString("   # of an MCP server, or a built-in tool; or instead:\n    # url: " +
				"https://api.example.com/…\n    # method: POST")
		}
		b.WriteString("\n")
	}
	return b.String()
}
