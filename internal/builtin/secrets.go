package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/tool"
)

// Secrets are those that the configuration declares, and the keys of models
// that the environment holds.
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
	for _, env := range keys {
		if env == "" || slices.Contains(declared, env) {
			continue
		}
		variable := config.Secret{Env: env}
		out = append(out, secret.Source{
			Name: env, Place: variable.Place(),
			Find: func(ctx context.Context) (string, error) { return variable.Value(ctx, root, getenv) },
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
