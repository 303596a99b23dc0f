package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Secrets returns the secrets that the configuration declares, the keys of models in the environment, and the variables
// that are passed to servers and tools. All of them are hidden in records, so the list has to have everything that a
// run can get to see; declared secrets come first, and a variable that is one of them is not listed again.
func Secrets(root string, c *config.Config, getenv func(string) string) *secret.Registry {
	var out []secret.Source
	var declared []string // variables
	for _, s := range c.Secrets {
		out = append(out, secret.Source{
			Name: s.Name.Value, Place: s.Is.Place(), Asks: len(s.Is.Command) > 0,
			Find: func(ctx context.Context) (string, error) { return s.Is.Value(ctx, root, getenv) },
		})
		declared = append(declared, s.Is.Env)
	}
	keys := slices.Concat(usualKeys(), xslices.Map(c.Models.Providers, func(p config.Named[config.Provider]) string {
		return p.Is.KeyEnv.Value
	}))
	for _, name := range config.BuiltInCLIs() {
		keys = xslices.AppendNew(keys, knownCLIs[name].keys...)
	}
	variable := func(env string, find func(context.Context) (string, error)) {
		if env == "" || slices.Contains(declared, env) {
			return
		}
		name := env
		if c.Secret(name) != nil { // which comes from elsewhere
			name = "variable." + env
		}
		out = append(out, secret.Source{Name: name, Place: (&config.Secret{Env: env}).Place(), Find: find})
	}
	value := func(env string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return (&config.Secret{Env: env}).Value(ctx, root, getenv) }
	}
	for _, env := range keys {
		variable(env, value(env))
	}
	for _, env := range c.Variables() {
		if process.NeverSecret(env) || slices.Contains(keys, env) {
			continue
		}
		variable(env, func(ctx context.Context) (string, error) {
			found, err := value(env)(ctx)
			if err == nil && isOrdinary(found) {
				return "", fmt.Errorf("the value of %s is not secret", env)
			}
			return found, err
		})
	}
	logins := loginsOf(getenv)
	for _, s := range slices.Concat(c.MCP, c.MCPFile.Servers) {
		address, err := config.Expand(s.Is.URL.Value, getenv)
		if err != nil || address == "" {
			continue
		}
		token := secret.Source{Name: tokenSecret(s.Name.Value)}
		switch {
		case s.Is.OAuth != nil && s.Is.OAuth.Secret.Value != "":
			token.Place, token.Asks = "a secret of the configuration", true // the server learns it when it connects
			token.Find = func(context.Context) (string, error) { return "", errTokenGone }
		case logins != nil:
			token.Place = "your sign-in (espalier login --mcp " + s.Name.Value + ")"
			token.Find = func(context.Context) (string, error) { return logins.AccessToken(address) }
		default:
			continue
		}
		out = append(out, token)
	}
	return secret.New(out...)
}

// errTokenGone is returned for a token of an MCP server that is not stored.
var errTokenGone = errors.New("it is a token of an MCP server, which another process received")

// isOrdinary reports whether the value of a variable is an ordinary word, an existing path, or the address of a server
// without credentials. Such a value is not declared a secret; hiding it would make records hard to read and conditions
// unable to compare it.
func isOrdinary(value string) bool {
	if filepath.IsAbs(value) {
		_, missing := os.Stat(value)
		return missing == nil
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		return u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
	}
	const longest = 12 // passwords that machines make of letters have 16
	rest := strings.TrimLeftFunc(value, unicode.IsUpper)
	return len(value) <= longest && (rest == "" || len(value)-len(rest) <= 1 &&
		strings.TrimLeftFunc(rest, unicode.IsLower) == "")
}

// lacksSecret returns why a secret is not available; nil if it is. A command that prints one is not run for that,
// because it may ask a person.
func lacksSecret(c *config.Config, root string, getenv func(string) string, what, name string) *Problem {
	declared := c.Secret(name)
	switch {
	case declared == nil:
		return problemf("Declare it in "+config.FileName+".",
			"%s is the secret %q, which is not declared", what, name)
	case declared.Unapproved:
		return notApproved("%s comes from %s, which", what, declared.Place())
	case len(declared.Command) > 0:
		if _, err := exec.LookPath(declared.Command[0]); err != nil {
			return problemf("Install it, or change the secret in "+config.FileName+".",
				"%s comes from the command %q, which is not installed", what, declared.Command[0])
		}
		return nil
	}
	if _, err := declared.Value(context.Background(), root, getenv); err != nil {
		return problemf(fmt.Sprintf("Put the secret into %s.", declared.Place()), "%s is not available: %v", what, err)
	}
	return nil
}

// lacksValues returns a problem for each value that a tool or its server needs and that is not available.
func (t *Tools) lacksValues(name string) []Problem {
	what, values := "", []config.Header(nil)
	set := t.config.Tool(name)
	if set != nil && set.Use.Value != "" {
		name = set.Use.Value
	}
	if set != nil && set.URL.Value != "" {
		what = fmt.Sprintf("of the tool %q", name)
		values = append(slices.Clone(set.Headers), config.Header{Name: "Authorization", Value: set.Bearer})
	} else if server, ok := t.serverOf(name); ok {
		what = fmt.Sprintf("of the MCP server %q", server)
		t.servers.mu.Lock()
		is := t.servers.declared[server]
		t.servers.mu.Unlock()
		values = slices.Concat(is.Env, is.Headers)
	}
	var out []Problem
	for _, v := range values {
		what := v.Name + " " + what
		if name, ok := config.Reference(v.Value.Value); ok {
			if problem := lacksSecret(t.config, t.root, t.getenv, what, name); problem != nil {
				out = append(out, *problem)
			}
		} else if _, err := config.Expand(v.Value.Value, t.getenv); err != nil {
			out = append(out, Problem{
				Message: fmt.Sprintf("%s is not available: %v", what, err),
				Help:    "Set the variable, or give it a default: ${NAME:-VALUE}.",
			})
		}
	}
	return out
}

// checkOutput is CheckOutput for values with marks.
func checkOutput(s *secret.Registry) func(*ir.Program, json.RawMessage, func(string) string) error {
	return func(p *ir.Program, output json.RawMessage, origin func(path string) string) error {
		return checkRevealed(s, output, func(raw json.RawMessage) error { return CheckOutput(p, raw, origin) })
	}
}

// checkVariable is CheckVariable for values with marks.
func checkVariable(s *secret.Registry) func(*ir.Program, string, json.RawMessage) error {
	return func(p *ir.Program, path string, value json.RawMessage) error {
		return checkRevealed(s, value, func(raw json.RawMessage) error { return CheckVariable(p, path, raw) })
	}
}

// fillInput is FillInput for inputs with marks.
func fillInput(s *secret.Registry) func(*ir.Program, json.RawMessage) (json.RawMessage, error) {
	return func(p *ir.Program, input json.RawMessage) (filled json.RawMessage, err error) {
		err = checkRevealed(s, input, func(raw json.RawMessage) (err error) {
			filled, err = FillInput(p, raw)
			return err
		})
		if err != nil {
			return nil, err
		}
		return s.Hide(filled), nil
	}
}

// checkRevealed calls a check with a value without marks: contracts are about the values themselves. It runs no command
// for them, because the engine decides with it and must neither wait for a person nor get different answers. Secrets
// are hidden again in the error.
func checkRevealed(s *secret.Registry, value json.RawMessage, check func(json.RawMessage) error) error {
	revealed, err := s.Reveal(secret.WithoutAsking(context.Background()), value)
	if err == nil {
		err = check(revealed)
	}
	if err != nil {
		return errors.New(s.HideText(err.Error()))
	}
	return nil
}

// redacted wraps a tool that stores its input: secrets are stored as marks and revealed in the output.
type redacted struct {
	tool.Tool
	secrets *secret.Registry
}

func (h redacted) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	call.Input = h.secrets.Hide(call.Input)
	result, err := h.Tool.Call(ctx, call)
	if err != nil {
		return result, err
	}
	if result.Output, err = h.secrets.Reveal(ctx, result.Output); err != nil {
		return tool.Result{}, &tool.Error{Class: ir.ClassTool, Message: err.Error()}
	}
	return result, nil
}
