package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/mcp"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
)

// servers are the MCP servers of a project. Each is started when one of its tools is first needed. mu guards the maps
// and is not held while a server is started or asked, so that a slow server does not hold up the others.
type servers struct {
	mu       sync.Mutex
	known    map[string]*mcp.Server
	declared map[string]config.Server
	found    map[string][]tool.Tool // tools, by server; set when the server has listed them
	wrong    map[string]error       // why servers cannot be used
	// loaded reports that the declarations have been read; known, declared and the first entries of wrong are complete
	// then.
	loaded bool
}

// load reads the declarations of the servers, once. It creates them and starts none. t.servers.mu must be held.
func (t *Tools) load() {
	s := &t.servers
	if s.loaded {
		return
	}
	s.loaded = true
	s.known, s.found, s.wrong = map[string]*mcp.Server{}, map[string][]tool.Tool{}, map[string]error{}
	s.declared = map[string]config.Server{}
	add := func(list []config.Named[config.Server]) {
		for _, one := range list {
			name := one.Name.Value
			if s.known[name] != nil || s.wrong[name] != nil {
				continue // the configuration takes precedence
			}
			if one.Is.Off {
				s.wrong[name] = problemf("Remove \"enabled: false\" from its entry in "+config.FileName+".",
					"the MCP server %q is disabled", name)
				continue
			}
			if one.Is.Unapproved {
				s.wrong[name] = notApproved("the MCP server %q", name)
				continue
			}
			if len(one.Is.Wrong) > 0 {
				s.wrong[name] = fmt.Errorf("the MCP server %q cannot be used:%w", name,
					errors.New(t.formatDiagnostics(one.Is.Wrong)))
				continue
			}
			made, err := t.server(name, one.Is)
			if err != nil {
				s.wrong[name] = fmt.Errorf("the MCP server %q: %w", name, err)
				continue
			}
			s.known[name], s.declared[name] = made, one.Is
		}
	}
	add(t.config.MCP)
	add(t.config.MCPFile.Servers)
}

// serversFolder is the folder, below storageFolder, with a writable folder for each server in a sandbox.
const serversFolder = "servers"

// server returns the server for a declaration. Its secrets are read when it connects.
func (t *Tools) server(name string, is config.Server) (*mcp.Server, error) {
	c := mcp.Config{Name: name, Dir: t.root, Guard: t.guard, Timeout: is.Timeout, Limits: t.limits}
	c.Limits.CPU = 0 // the server serves many calls
	for _, word := range is.Command {
		expanded, err := config.Expand(word.Value, t.getenv)
		if err != nil {
			return nil, err
		}
		c.Command = append(c.Command, expanded)
	}
	var err error
	if c.URL, err = config.Expand(is.URL.Value, t.getenv); err != nil {
		return nil, err
	}
	if is.Sandbox {
		box, err := t.sandbox()
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(t.root, storageFolder, serversFolder, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		c.Sandbox = box.For(dir)
	}
	c.Only, c.Sampling = text.Values(is.Tools), is.Sampling
	if o := is.OAuth; o != nil {
		c.OAuth = &mcp.OAuth{}
		if o.Secret.Value != "" {
			c.OAuth.Secret = func(ctx context.Context) (string, error) { return t.value(ctx, o.Secret.Value) }
		}
		if c.OAuth.ClientID, err = config.Expand(o.ClientID.Value, t.getenv); err != nil {
			return nil, err
		}
		if c.OAuth.Issuer, err = config.Expand(o.Issuer.Value, t.getenv); err != nil {
			return nil, err
		}
	}
	if c.URL != "" {
		c.Logins = loginsOf(t.getenv)
		c.Hide = func(token string) { t.secrets.Learn(tokenSecret(name), token) }
	}
	c.Secrets = func(ctx context.Context) ([]string, http.Header, error) {
		var env []string
		for _, one := range is.Env {
			value, err := t.value(ctx, one.Value.Value)
			if err != nil {
				return nil, nil, err
			}
			env = append(env, one.Name+"="+value)
		}
		headers := http.Header{}
		for _, one := range is.Headers {
			value, err := t.value(ctx, one.Value.Value)
			if err != nil {
				return nil, nil, err
			}
			headers.Set(one.Name, value)
		}
		return env, headers, nil
	}
	return mcp.New(c), nil
}

// loginsOf returns the sign-ins of the user at MCP servers; nil if the user has no folder for them.
func loginsOf(getenv func(string) string) *mcp.Logins {
	dir := trust.Open(getenv).Dir()
	if dir == "" {
		return nil
	}
	return mcp.NewLogins(filepath.Join(dir, "mcp-logins.json"))
}

// tokenSecret returns the name of the secret that is the token for an MCP server.
func tokenSecret(server string) string { return "mcp." + server }

// remote returns the MCP server with a name, for sign-ins.
func (t *Tools) remote(name string) (*mcp.Server, error) {
	s := &t.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	t.load()
	if err := s.wrong[name]; err != nil {
		return nil, err
	}
	server := s.known[name]
	switch {
	case server == nil:
		names := slices.Concat(slices.Collect(maps.Keys(s.known)), slices.Collect(maps.Keys(s.wrong)))
		return nil, problemf(diag.DidYouMean(name, names), "unknown MCP server %q", name)
	case server.URL != "" && server.Logins == nil:
		return nil, problemf("Set XDG_STATE_HOME.", "there is no folder for your sign-ins")
	}
	return server, nil
}

// SignIn lets a person sign in at an MCP server. It shows the address to open in a browser.
func (t *Tools) SignIn(ctx context.Context, name string, show func(address string)) error {
	server, err := t.remote(name)
	if err != nil {
		return err
	}
	if err := server.SignIn(ctx, show); err != nil {
		return fmt.Errorf("the MCP server %q: %w", name, err)
	}
	return nil
}

// SignOut removes a sign-in and reports whether it existed.
func (t *Tools) SignOut(name string) (bool, error) {
	server, err := t.remote(name)
	if err != nil || server.Logins == nil {
		return false, err
	}
	return server.Logins.Remove(server.URL)
}

// serverOf returns the server in a tool's name, and reports whether the project has it.
func (t *Tools) serverOf(name string) (string, bool) {
	server, _, ok := strings.Cut(name, ".")
	if !ok {
		return "", false
	}
	t.servers.mu.Lock()
	defer t.servers.mu.Unlock()
	t.load()
	return server, t.servers.known[server] != nil
}

// offers returns the tools of a server. It asks the server until that succeeds once; the list stays the same then, and
// an error is kept in wrong until a later call succeeds. server must be in known.
func (t *Tools) offers(ctx context.Context, server string) ([]tool.Tool, error) {
	s := &t.servers
	s.mu.Lock()
	found, known := s.found[server], s.known[server]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := known.Tools(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if _, ok := errors.AsType[*mcp.SignInError](err); ok {
			err = problemf("Sign in: espalier login --mcp "+server, "%v", err)
		}
		s.wrong[server] = err
		return nil, err
	}
	delete(s.wrong, server)
	s.found[server] = found
	return found, nil
}

// ServerTools is an MCP server of the project with its tools.
type ServerTools struct {
	Server  string      `json:"server"`
	Tools   []tool.Spec `json:"tools"`
	Problem string      `json:"problem,omitempty"` // why the server cannot be used
	Help    string      `json:"help,omitempty"`
}

// ListServers returns the MCP servers of the project in the order of their names. With ask, it starts each one that can
// be used and asks for its tools.
func (t *Tools) ListServers(ctx context.Context, ask bool) []ServerTools {
	s := &t.servers
	s.mu.Lock()
	t.load()
	names := slices.Concat(slices.Collect(maps.Keys(s.known)), slices.Collect(maps.Keys(s.wrong)))
	wrong := maps.Clone(s.wrong)
	s.mu.Unlock()
	slices.Sort(names)
	var out []ServerTools
	for _, name := range slices.Compact(names) {
		one, err := ServerTools{Server: name, Tools: []tool.Spec{}}, wrong[name]
		if err == nil && ask {
			var offered []tool.Tool
			offered, err = t.offers(ctx, name)
			one.Tools = append(one.Tools, xslices.Map(offered, func(o tool.Tool) tool.Spec { return o.Spec() })...)
		}
		if err != nil {
			one.Problem = err.Error()
			if problem, ok := errors.AsType[*Problem](err); ok {
				one.Help = problem.Help
			}
		}
		out = append(out, one)
	}
	return out
}

// siblings returns the tools of the server in a name or pattern.
func (t *Tools) siblings(name string) []tool.Tool {
	server, ok := t.serverOf(name)
	if !ok {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), listTimeout)
	defer stop()
	offered, err := t.offers(ctx, server)
	if err != nil {
		return nil // serverProblem returns the reason
	}
	return offered
}

// served returns the tool of a server; nil if there is none.
func (t *Tools) served(name string) tool.Tool {
	offered := t.siblings(name)
	if i := slices.IndexFunc(offered, func(one tool.Tool) bool { return one.Spec().Name == name }); i >= 0 {
		return offered[i]
	}
	return nil
}

// servedNames returns the names of the tools of the server in a pattern.
func (t *Tools) servedNames(pattern string) []string {
	return xslices.Map(t.siblings(pattern), func(one tool.Tool) string { return one.Spec().Name })
}

// serverProblem returns why the server of a tool cannot be used or does not have it; nil if the tool is not missing
// because of a server.
func (t *Tools) serverProblem(name string) error {
	server, dotted := t.serverOf(name)
	t.servers.mu.Lock()
	defer t.servers.mu.Unlock()
	switch {
	case t.servers.wrong[server] != nil:
		return t.servers.wrong[server]
	case dotted:
		return problemf(otherTools(name, t.servers.found[server]), "the MCP server %q has no tool %q", server, name)
	case strings.Contains(name, "."):
		return t.noServers()
	}
	return nil
}

// otherTools lists the tools that a server has instead of one, with a suggestion.
func otherTools(name string, offers []tool.Tool) string {
	has := xslices.Map(offers, func(one tool.Tool) string { return one.Spec().Name })
	if near := diag.Nearest(name, has); near != "" {
		return fmt.Sprintf("Did you mean %q? It has %s.", near, strings.Join(has, ", "))
	}
	return "It has " + strings.Join(has, ", ") + "."
}

// noServers returns why the servers of .mcp.json are not known; nil if they are.
func (t *Tools) noServers() error {
	file := t.config.MCPFile
	switch {
	case file.Err != nil:
		return fmt.Errorf("%s cannot be read: %w", config.MCPFileName, file.Err)
	case len(file.Servers) == 0 && file.Problems.Errors():
		return fmt.Errorf("%s cannot be used:%s", config.MCPFileName, t.formatDiagnostics(file.Problems))
	}
	return nil
}

// formatDiagnostics returns problems of .mcp.json with their positions, each on its own line.
func (t *Tools) formatDiagnostics(list diag.List) string {
	var out strings.Builder
	for _, d := range list {
		at := t.config.MCPFile.File.Position(d.Span.Start)
		fmt.Fprintf(&out, "\n    %s:%d:%d: %s %s", d.Span.File, at.Line, at.Column, d.Message, d.Help)
	}
	return out.String()
}

// close stops all servers in parallel. Each may take as long as its program takes to end.
func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ending sync.WaitGroup
	for _, one := range s.known {
		ending.Go(one.Close)
	}
	ending.Wait()
}
