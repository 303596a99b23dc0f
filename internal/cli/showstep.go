package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/xslices"
)

// shownStep is a step as show --step prints it.
type shownStep struct {
	Step     string             `json:"step"`
	Contract *contract.Contract `json:"contract,omitempty"`
	Request  *provider.Request  `json:"request,omitempty"`
}

// showStep prints the reply contract of a step, or the request that asks for it.
func (a *invocation) showStep(ctx context.Context, an *app.Analysis, id string, prompt bool) error {
	s, err := findStep(an, id)
	if err != nil {
		return err
	}
	out := shownStep{Step: id}
	c, known := an.Contract(s)
	if prompt || !known {
		request, err := a.app().Preview(ctx, an, s)
		if err != nil {
			return err
		}
		if !known { // the contract is that of an agent that code calls
			c = request.For.Contract
		}
		if prompt {
			out.Request = request
			out.Request.For = provider.Purpose{} // models do not see it
			if out.Request.Options, err = maskSecrets(request.Options); err != nil {
				return err
			}
		}
	}
	out.Contract = &c
	switch {
	case a.json:
		return a.writeJSON(out)
	case prompt:
		_, err = a.Stdout.Write(requestText(out.Request))
	default:
		_, err = a.Stdout.Write(contractText(out.Contract))
	}
	return err
}

// maskSecrets replaces the secrets in the options of a request. References to secrets and to variables remain, because
// they name a secret without having it.
func maskSecrets(options json.RawMessage) (json.RawMessage, error) {
	if len(options) == 0 {
		return options, nil
	}
	rules, err := redact.New(false, true)
	if err != nil {
		return nil, err
	}
	masked, found, err := rules.JSON(options)
	if err != nil || !found {
		return options, err
	}
	var before, after map[string]json.RawMessage
	if json.Unmarshal(options, &before) != nil || json.Unmarshal(masked, &after) != nil {
		return masked, nil // not an object, so it has no references
	}
	for name, value := range before {
		var text string
		if json.Unmarshal(value, &text) != nil {
			continue
		}
		if _, ok := config.Reference(text); ok || variable.MatchString(text) {
			after[name] = value
		}
	}
	return json.Marshal(after)
}

// variable matches a text that is a reference to one environment variable.
var variable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// findStep finds a step by its ID in any block.
func findStep(an *app.Analysis, id string) (*ir.Step, error) {
	var known []string
	for b := range an.Program.Blocks {
		if s := an.Program.Step(ir.BlockID(b), id); s != nil {
			return s, nil
		}
		for _, s := range an.Program.Blocks[b].Steps {
			known = append(known, s.ID)
		}
	}
	help := "\"espalier show " + shellWord(an.File.Path) + "\" lists the steps."
	if near := diag.Nearest(id, known); near != "" {
		help = fmt.Sprintf("Did you mean %q?", near)
	}
	return nil, usage(help, "unknown step %q in %s", id, an.File.Path)
}

// contractText is a contract as people read it.
func contractText(c *contract.Contract) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "The reply must be %s.\n", c)
	if c.From != "" {
		fmt.Fprintf(&out, "This follows from %s.\n", c.From)
	}
	if len(c.Schema) > 0 {
		var schema bytes.Buffer
		if json.Indent(&schema, c.Schema, "", "  ") != nil {
			schema.Write(c.Schema)
		}
		fmt.Fprintf(&out, "\nJSON Schema:\n%s\n", prefixed(schema.String()))
	}
	if text := c.Instructions(); text != "" {
		fmt.Fprintf(&out, "\nInstructions for the model:\n%s\n", prefixed(text))
	}
	return out.Bytes()
}

// requestText is a request as people read it.
func requestText(r *provider.Request) []byte {
	var out bytes.Buffer
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "--- %s ---\n%s\n\n", name, text)
		}
	}
	section("system", r.System)
	for _, m := range r.Messages {
		blocks := xslices.Map(m.Blocks, func(b provider.Block) string { return b.Text })
		section(string(m.Role), strings.Join(blocks, "\n\n"))
	}
	for _, t := range r.Tools {
		section("tool "+t.Name, strings.TrimSpace(t.Description+"\n"+string(t.Schema)))
	}
	if r.Task != nil {
		section("own tools", grantsText(r.Task.Grants))
	}
	section("reply schema", string(r.Schema))
	section("options", string(r.Options))
	var limits []string
	if r.Model != "" {
		limits = append(limits, "model "+r.Model)
	}
	if r.MaxTokens > 0 {
		limits = append(limits, fmt.Sprintf("at most %d tokens", r.MaxTokens))
	}
	section("limits", strings.Join(limits, ", "))
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

// grantsText lists the tools of its own that a coding agent may use.
func grantsText(grants []provider.Grant) string {
	if len(grants) == 0 {
		return "none"
	}
	var lines []string
	for _, g := range grants {
		line := g.Tool
		if len(g.Only) > 0 {
			line += ", only " + strings.Join(g.Only, ", ")
		}
		if len(g.Never) > 0 {
			line += ", never " + strings.Join(g.Never, ", ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func prefixed(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
