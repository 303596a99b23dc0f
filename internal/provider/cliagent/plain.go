package cliagent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// Plain is a program that takes a prompt and writes its answer as text. Nobody
// can tell what it does, or hold it to anything.
type Plain struct {
	// Args are what it is called with. {prompt} and {model} stand for the prompt
	// and the model; without {prompt} it gets the prompt on standard input.
	Args []string
	// ModelArgs come after Args when a model is named.
	ModelArgs []string
}

// The places in arguments that are filled in.
const (
	PromptPlace = "{prompt}"
	ModelPlace  = "{model}"
)

// Info says that it may do anything: which tools a step names makes no
// difference to it, so a step must not count on what it denies.
func (Plain) Info(name string) provider.AgentInfo {
	return provider.AgentInfo{
		Name: name, Tools: claudeTools, Acts: func([]provider.Grant) bool { return true },
		Problem: func(grants []provider.Grant, denied []string) string {
			if len(denied) > 0 {
				return fmt.Sprintf("the program %s cannot be held to the workflow's denylist, which has %q", name, denied[0])
			}
			return narrows(name, grants)
		},
	}
}

// Whole returns true.
func (Plain) Whole() bool { return true }

// mostArgument is how long a prompt may be that is handed over as an argument:
// Linux takes no more.
const mostArgument = 128<<10 - 1

// Call fills in what has a place.
func (p Plain) Call(req *provider.Request, more []string) (Call, error) {
	text := prompt(req, true)
	call := Call{Stdin: text}
	argument := text
	if strings.HasPrefix(text, "-") { // which would be taken for an option
		argument = " " + text
	}
	args := slices.Clone(p.Args)
	if req.Model != "" {
		args = append(args, p.ModelArgs...)
		if !strings.Contains(strings.Join(args, " "), ModelPlace) {
			return Call{}, fmt.Errorf("there is no place for the model %q in its command: write %s where it belongs", req.Model, ModelPlace)
		}
	}
	for i, arg := range args {
		arg = strings.ReplaceAll(arg, ModelPlace, req.Model)
		if strings.Contains(arg, PromptPlace) {
			call.Stdin = ""
			if arg = strings.ReplaceAll(arg, PromptPlace, argument); len(arg) > mostArgument {
				return Call{}, errors.New("the prompt is too long for an argument of a program")
			}
		}
		args[i] = arg
	}
	call.Args = append(args, more...)
	return call, nil
}

// Hear takes all of the output for the answer.
func (Plain) Hear(all []byte, t *Turn) {
	text := strings.TrimSpace(string(all))
	t.say(provider.Text, text, "")
}
