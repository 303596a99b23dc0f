package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

// host gives tasks their model, their tools and their folder.
type host struct {
	runs   string // folder of the runs' folders
	root   string // of the project
	config *config.Config
	getenv func(string) string
	models *Models

	mu      sync.Mutex
	outfits map[string]*outfit // by the run's options
}

func newHost(dir string, o RuntimeOptions) *host {
	root := filepath.Dir(dir)
	return &host{
		runs: filepath.Join(dir, "runs"), root: root, config: o.Config, getenv: o.Getenv,
		models: NewModels(root, o.Config, o.Getenv),
	}
}

// outfit is what all tasks of runs with the same options use.
type outfit struct {
	model provider.Model
	price func(model string) (price.Price, bool)
	tools toolbox
}

type toolbox struct {
	known    map[string]tool.Tool
	simulate bool
}

// Tool finds a tool by its name.
func (t toolbox) Tool(name string) tool.Tool {
	if found := t.known[name]; found != nil {
		return found
	}
	if t.simulate {
		return simulatedTool{name}
	}
	return nil
}

// Names are the tools that a pattern means.
func (t toolbox) Names(pattern string) []string {
	var out []string
	for name := range t.known {
		if tool.Names(pattern, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// simulatedTool answers for a tool that nothing real is bound to, in runs that
// are simulated. It says so.
type simulatedTool struct{ name string }

func (t simulatedTool) Spec() tool.Spec { return tool.Spec{Name: t.name} }

func (t simulatedTool) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	out, err := json.Marshal(map[string]any{"simulated": true, "tool": t.name, "input": call.Input})
	return tool.Result{Output: out, Offline: "simulated"}, err
}

// Equip fills in what a job needs.
func (h *host) Equip(job *step.Job, options json.RawMessage) error {
	o, err := h.outfit(options)
	if err != nil {
		return err
	}
	job.Model, job.Price, job.Tools = o.model, o.price, o.tools
	job.Dir, job.Project = filepath.Join(h.runs, string(job.Run)), h.root
	return nil
}

func (h *host) outfit(options json.RawMessage) (*outfit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.outfits[string(options)]; o != nil {
		return o, nil
	}
	var asked RunOptions
	if len(options) > 0 {
		if err := json.Unmarshal(options, &asked); err != nil {
			return nil, fmt.Errorf("the run's options cannot be read: %w", err)
		}
	}
	o := &outfit{tools: toolbox{known: map[string]tool.Tool{}, simulate: asked.Simulate}}
	// Offline models cost what the real ones would, so that budgets of money
	// can be tried out; their replies say what they are.
	answers := router{models: h.models, instead: asked.Model, otherwise: asked.DefaultModel}
	o.model, o.price = answers, answers.price
	if asked.Simulate {
		o.model = Simulated(asked.Seed)
	}
	if asked.ScriptName != "" {
		script, problems := Script(source.NewFile(asked.ScriptName, asked.Script))
		if problems.Errors() {
			return nil, fmt.Errorf("%s: %s", asked.ScriptName, problems[0].Message)
		}
		played := scripted.Options{Simulate: Simulated(asked.Seed)}
		o.model = provider.Deadline{Model: script.Model(played), After: step.ModelCallSeconds * time.Second}
		for _, t := range script.Tools(played) {
			o.tools.known[t.Spec().Name] = t
		}
	}
	if h.outfits == nil {
		h.outfits = map[string]*outfit{}
	}
	h.outfits[string(options)] = o
	return o, nil
}

func joined(problems []schema.Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	return strings.Join(out, "; ")
}
