package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/tool"
)

// Secrets are those that the configuration declares, the keys of models that
// the environment holds, and the variables that servers and tools are given.
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
	keys := slices.Clone(usualKeys)
	for _, p := range c.Models.Providers {
		keys = append(keys, p.Is.KeyEnv.Value)
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
		if process.Harmless(env) || slices.Contains(keys, env) {
			continue
		}
		variable(env, func(ctx context.Context) (string, error) {
			// A folder says nothing that has to be hidden, and records without
			// paths are hard to read.
			found, err := value(env)(ctx)
			if _, missing := os.Stat(found); err == nil && filepath.IsAbs(found) && missing == nil {
				return "", fmt.Errorf("%s is a path", env)
			}
			return found, err
		})
	}
	return secret.New(out...)
}

// checkOutput is CheckOutput for what the engine holds: contracts are about
// the values themselves.
func checkOutput(s *secret.Registry) func(*ir.Program, json.RawMessage) error {
	return func(p *ir.Program, output json.RawMessage) error {
		revealed, err := s.Reveal(context.Background(), output)
		if err == nil {
			err = CheckOutput(p, revealed)
		}
		return hidden(s, err)
	}
}

// fillInput is FillInput for what the engine holds.
func fillInput(s *secret.Registry) func(*ir.Program, json.RawMessage, bool) (json.RawMessage, error) {
	return func(p *ir.Program, input json.RawMessage, strict bool) (json.RawMessage, error) {
		revealed, err := s.Reveal(context.Background(), input)
		if err != nil {
			return nil, hidden(s, err)
		}
		filled, err := FillInput(p, revealed, strict)
		if err != nil {
			return nil, hidden(s, err)
		}
		return s.Hide(filled), nil
	}
}

func hidden(s *secret.Registry, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", s.HideText(err.Error()))
}

// hiding is a tool that keeps what it is given: it is given no secrets, and
// what it gives back has them again.
type hiding struct {
	tool.Tool
	secrets *secret.Registry
}

func (h hiding) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	call.Input = h.secrets.Hide(call.Input)
	result, err := h.Tool.Call(ctx, call)
	if err != nil {
		return result, err
	}
	if result.Output, err = h.secrets.Reveal(ctx, result.Output); err != nil {
		return tool.Result{}, &tool.Error{Class: tool.ClassTool, Message: err.Error()}
	}
	return result, nil
}
