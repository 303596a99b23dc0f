package cliagent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// Plain is the dialect of programs that accept a prompt and print their reply as text. Their actions cannot be observed
// or restricted.
type Plain struct {
	// Args are the arguments. {prompt} and {model} are replaced; without {prompt} the prompt is written to standard
	// input.
	Args []string
	// ModelArgs follow Args if a model is named.
	ModelArgs []string
}

// Placeholders in arguments.
const (
	PromptPlace = "{prompt}"
	ModelPlace  = "{model}"
)

// Info reports that no restriction can be enforced: the program may do anything, whatever tools a step allows or
// denies.
func (Plain) Info(name string) provider.AgentInfo {
	return provider.AgentInfo{
		Name: name, Tools: claudeTools, Acts: func([]provider.Grant) bool { return true },
		Problem: func(grants []provider.Grant, denied []string) string {
			if len(denied) > 0 {
				return fmt.Sprintf("the program %s cannot enforce the workflow's denylist, which has %q", name,
					denied[0])
			}
			return narrows(name, grants)
		},
	}
}

// PlainText implements Dialect.
func (Plain) PlainText() bool { return true }

// maxArgument is the maximum length, in bytes, of a prompt that is passed as an argument; Linux limits a single
// argument to this length (MAX_ARG_STRLEN, with its final zero).
const maxArgument = 128<<10 - 1

// Call replaces the placeholders.
func (p Plain) Call(req *provider.Request, more []string) (Call, error) {
	text := prompt(req, true)
	call := Call{Stdin: text}
	argument := text
	if strings.HasPrefix(text, "-") { // the program would parse it as an option
		argument = " " + text
	}
	args := slices.Clone(p.Args)
	if req.Model != "" {
		args = append(args, p.ModelArgs...)
		if !strings.Contains(strings.Join(args, " "), ModelPlace) {
			return Call{}, fmt.Errorf("its command has no placeholder for the model %q: add %s to the command",
				req.Model, ModelPlace)
		}
	}
	for i, arg := range args {
		arg = strings.ReplaceAll(arg, ModelPlace, req.Model)
		if strings.Contains(arg, PromptPlace) {
			call.Stdin = ""
			if arg = strings.ReplaceAll(arg, PromptPlace, argument); len(arg) > maxArgument {
				return Call{}, errors.New("the prompt is too long for an argument of a program")
			}
		}
		args[i] = arg
	}
	call.Args = append(args, more...)
	return call, nil
}

// ParseLine uses the whole output as the reply.
func (Plain) ParseLine(all []byte, t *Turn) {
	text := strings.TrimSpace(string(all))
	t.addBlock(provider.Text, text, "")
}
