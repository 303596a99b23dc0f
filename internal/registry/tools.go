package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
	"github.com/espalier-run/espalier/internal/tool/http"
	"github.com/espalier-run/espalier/internal/tool/notebook"
	"github.com/espalier-run/espalier/internal/xslices"
)

// storageFolder is Espalier's folder in a project, which tools cannot access.
const storageFolder = ".espalier"

// notebookFolder is the folder of the agents' notes, below storageFolder.
const notebookFolder = "memory"

// calculator is the built-in tool that workflows declare under names of their own.
const calculator = "calculator"

// Tools resolves the names of tools in a project: built-in tools, those that the configuration binds, and the tools of
// MCP servers. It is shared by all runs and safe for concurrent use; what differs between runs is in a toolbox.
type Tools struct {
	root    string
	config  *config.Config
	getenv  func(string) string
	secrets *secret.Registry
	guard   netguard.Options
	plain   map[string]tool.Tool                 // the built-in tools
	boxed   func() (map[string]tool.Tool, error) // the built-in tools with commands in a sandbox
	// Confined returns how commands are confined here, or why they cannot be; nil asks the machine.
	Confined func() (process.Confinement, error)
	// sandbox confines commands: those of tools, and those of the workflow itself.
	sandbox func() (*process.Sandbox, error)
	limits  process.Limits // of those commands
	servers servers
}

// NewTools returns the tools of a project. It starts no servers, and does not look for a sandbox before one is needed.
func NewTools(root string, c *config.Config, getenv func(string) string, secrets *secret.Registry) *Tools {
	t := &Tools{root: root, config: c, getenv: getenv, secrets: secrets, limits: c.Commands.Or(process.DefaultLimits)}
	t.guard.Allow = text.Values(c.Allow.Hosts)
	paths := foldersOf(root, c.Allow.Paths)
	builtins := func(box *process.Sandbox) map[string]tool.Tool {
		out := map[string]tool.Tool{}
		for _, one := range builtin.Tools(builtin.Options{
			Root: root, Readable: paths, Shell: builtin.Shell{
				Sandbox: box,
				Limits:  t.limits,
			}, Network: builtin.Network{Guard: t.guard},
		}) {
			out[one.Spec().Name] = one
		}
		for _, one := range notebook.Tools(memoryDir(root)) {
			one = redacted{one, secrets}
			out[one.Spec().Name] = one
		}
		return out
	}
	t.plain = builtins(nil)
	t.sandbox = sync.OnceValues(func() (*process.Sandbox, error) {
		if t.Confined != nil {
			if _, err := t.Confined(); err != nil {
				return nil, err
			}
		}
		box, err := process.NewSandbox(root, storageFolder)
		if err != nil {
			return nil, err
		}
		box.Read, box.Write = append(box.Read, paths...), append(box.Write, foldersOf(root, c.Allow.Writes)...)
		return box, nil
	})
	t.boxed = sync.OnceValues(func() (map[string]tool.Tool, error) {
		box, err := t.sandbox()
		if err != nil {
			return nil, err
		}
		return builtins(box), nil
	})
	return t
}

// foldersOf returns the paths of folders in the configuration, which are relative to the project.
func foldersOf(root string, list []text.Text) []string {
	var out []string
	for _, one := range list {
		path := one.Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		out = append(out, path)
	}
	return out
}

// Close stops all servers.
func (t *Tools) Close() { t.servers.close() }

// toolbox is the tools of one program in a run. It is a value: copies with another program or job are cheap. Without
// Tools, it has only those of a script or of the program.
type toolbox struct {
	*Tools
	program  *ir.Program
	scripted map[string]tool.Tool
	simulate bool
	seed     uint64
	job      *step.Job // of a simulation that may fail calls; nil otherwise
	confined bool      // commands run in the sandbox
	noShell  bool      // no consent: models run no commands
}

// box returns the tools of a run with these options, without those of a program.
func (t *Tools) box(o RunOptions, script *scripted.Script) toolbox {
	b := toolbox{Tools: t, simulate: o.Simulate, seed: o.Seed, confined: o.Sandbox, noShell: !t.Consented(o, "")}
	if script != nil {
		b.simulate = o.Simulate || script.Simulates()
		b.scripted = map[string]tool.Tool{}
		for _, one := range script.Tools(scriptOptions(o)) {
			b.scripted[one.Spec().Name] = one
		}
	}
	return b
}

// Tool returns the tool with a name; nil if there is none. Tools of a script come first; a simulated run has no real
// tools, but it takes the rules for calls from them.
func (b toolbox) Tool(name string) tool.Tool {
	if found := b.scripted[name]; found != nil {
		return scriptedTool{found, b.policy(name, found.Spec())}
	}
	found := b.real(name)
	if b.simulate {
		return simulatedTool{name: name, like: found, seed: b.seed, job: b.job, returns: b.returns(name, found)}
	}
	return found
}

// real returns the tool that a name stands for: what the configuration binds to it, or else the tool of that name. A
// tool that is disabled, or whose entry is not approved, does not exist.
func (b toolbox) real(name string) tool.Tool {
	if b.Tools == nil {
		return nil
	}
	set := b.config.Tool(name)
	switch {
	case set != nil && (set.Off || set.Unapproved):
		return nil
	case set != nil && set.URL.Value != "":
		return bound{http.New(declared(name, set), b.requests(set.URL.Value)), name, set}
	case set != nil:
		target := name
		if set.Use.Value != "" {
			target = set.Use.Value
		}
		if found := b.base(target); found != nil {
			return bound{found, name, set}
		}
		return nil
	}
	return b.base(name)
}

// scriptedTool is a tool of a script with the rules for calls of the real one.
type scriptedTool struct {
	tool.Tool
	spec tool.Spec
}

func (t scriptedTool) Spec() tool.Spec { return t.spec }

// policy returns the spec of a scripted tool with the rules for calls that the configuration has: a script replaces
// what a tool returns, not whether a person has to approve its calls.
func (b toolbox) policy(name string, spec tool.Spec) tool.Spec {
	if b.Tools == nil {
		return spec
	}
	if timeout, required := Approval(b.program, b.config, name); required {
		spec.RequiresApproval, spec.ApprovalTimeout = true, max(spec.ApprovalTimeout, timeout)
	}
	if runsShell(b.program, b.config, name) {
		spec.Code = ir.ShellArgument
	}
	return spec
}

// returns returns the schema of a tool's output: that of the configuration, else that of the tool itself.
func (b toolbox) returns(name string, found tool.Tool) json.RawMessage {
	if b.Tools != nil {
		if set := b.config.Tool(name); set != nil && len(set.Returns) > 0 {
			return set.Returns
		}
	}
	if found != nil {
		return found.Spec().Returns
	}
	return nil
}

// base returns a tool without regard to the entries of the configuration: one that the workflow declares, a built-in
// one, or one of an MCP server, in this order. Starting a server can take a minute.
func (b toolbox) base(name string) tool.Tool {
	if b.program != nil {
		for i := range b.program.ToolDefs {
			if def := &b.program.ToolDefs[i]; def.Name == name {
				if kind, operation, _ := strings.Cut(def.Builtin, "."); kind == calculator {
					return builtin.Calculator(name, operation)
				}
				if def.Use != "" {
					project := b
					project.program = nil // the alias is of a tool of the project
					if found := project.real(def.Use); found != nil {
						return bound{found, name, &config.Tool{Use: text.Text{Value: def.Use}}}
					}
					return nil
				}
				// A workflow file chooses the URL, so its tool gets no secrets.
				return http.New(defined(def), http.Options{Guard: b.guard})
			}
		}
	}
	// Without consent, models must not run commands, so the tool does not exist for them.
	if name == ir.ShellTool && b.noShell && !b.simulate {
		return nil
	}
	if b.plain[name] == nil {
		if b.simulate { // servers may need keys or a network, simulations do not
			return nil
		}
		return b.served(name)
	}
	if !b.confined {
		return b.plain[name]
	}
	boxed, err := b.boxed()
	if err != nil { // without a sandbox, there is no shell
		if name == ir.ShellTool {
			return nil
		}
		return b.plain[name]
	}
	return boxed[name]
}

// Names returns the names of the tools that a pattern matches and that can be called, sorted.
func (b toolbox) Names(pattern string) []string {
	all := slices.Collect(maps.Keys(b.scripted))
	if b.Tools != nil {
		all = append(slices.AppendSeq(all, maps.Keys(b.plain)), config.Names(b.config.Tools)...)
		if !b.simulate {
			all = append(all, b.servedNames(pattern)...)
		}
	}
	if b.program != nil {
		all = append(all, xslices.Map(b.program.ToolDefs, func(def ir.ToolDef) string { return def.Name })...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return !ir.MatchesTool(pattern, name) || b.Tool(name) == nil
	})
}

// bound is a tool under the name that the configuration binds it to, with the configuration's rules for its calls.
type bound struct {
	tool.Tool
	name string
	set  *config.Tool
}

func (b bound) Spec() tool.Spec {
	spec := b.Tool.Spec()
	if spec.Target == "" {
		spec.Target = spec.Name
	} else if b.set.Use.Value != "" {
		spec.Target = b.set.Use.Value + ": " + spec.Target
	}
	spec.Name = b.name
	spec.RequiresApproval = spec.RequiresApproval || b.set.RequiresApproval
	spec.ApprovalTimeout = max(spec.ApprovalTimeout, b.set.ApprovalTimeout)
	if b.set.Timeout > 0 {
		spec.Timeout = b.set.Timeout
	}
	return spec
}

// Repeatable implements tool.Repeater with the tool's own rule: embedding an interface does not pass on methods that it
// lacks.
func (b bound) Repeatable(input json.RawMessage) bool { return tool.Repeatable(b.Tool, input) }

func declared(name string, set *config.Tool) http.Declared {
	d := http.Declared{
		Name: name, Description: set.Description, Schema: set.Schema, URL: set.URL.Value, Method: set.Method,
		IdempotencyHeader: set.IdempotencyHeader, SideEffects: set.SideEffects, Timeout: set.Timeout,
	}
	for _, h := range set.Headers {
		d.Headers = append(d.Headers, http.Header{Name: h.Name, Value: h.Value.Value})
	}
	if set.Bearer.Value != "" {
		d.Headers = append(d.Headers, http.Header{Name: "Authorization", Value: bearer + set.Bearer.Value})
	}
	return d
}

const bearer = "Bearer "

func defined(def *ir.ToolDef) http.Declared {
	d := http.Declared{
		Name: def.Name, Description: def.Description, Schema: def.Schema, URL: def.URL,
		Method: def.Method,
	}
	for _, h := range def.Headers {
		d.Headers = append(d.Headers, http.Header{Name: h.Name, Value: h.Value})
	}
	return d
}

// requests returns the options of a request that the configuration declares. It may also reach the host of its address.
func (t *Tools) requests(address string) http.Options {
	guard := t.guard
	if u, err := url.Parse(address); err == nil {
		guard.Allow = append(slices.Clone(guard.Allow), u.Host)
	}
	return http.Options{Guard: guard, Value: t.value}
}

// value replaces references to secrets and variables in a text with their values. It is called for each request, so
// that a secret that has changed takes effect, except one from a command.
func (t *Tools) value(ctx context.Context, text string) (string, error) {
	before := ""
	if rest, ok := strings.CutPrefix(text, bearer); ok {
		before, text = bearer, rest
	}
	if name, ok := config.Reference(text); ok {
		value, err := t.secrets.Value(ctx, name)
		return before + value, err
	}
	expanded, err := config.Expand(text, t.getenv)
	return before + expanded, err
}

// simulatedTool replaces a tool in simulated runs. Its results are labeled as simulated.
type simulatedTool struct {
	name string
	like tool.Tool // the real tool; nil if there is none
	seed uint64
	job  *step.Job // whose calls may fail; nil if they cannot
	// returns is the schema of its result; nil if unknown.
	returns json.RawMessage
}

// Spec returns the rules of the real tool for calls, so that a simulated run requires the same approvals.
func (t simulatedTool) Spec() tool.Spec {
	if t.like == nil {
		return tool.Spec{Name: t.name}
	}
	spec := t.like.Spec()
	return tool.Spec{
		Name: t.name, Description: spec.Description, Schema: spec.Schema, Code: spec.Code, Target: spec.Target,
		RequiresApproval: spec.RequiresApproval, ApprovalTimeout: spec.ApprovalTimeout,
	}
}

// Call simulates a result: one that fits the schema if there is any, or else one that repeats the input. Results depend
// on the seed and on where the call is made, never on earlier calls, so that a task which runs again gets the same
// ones.
func (t simulatedTool) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	if t.job != nil && t.job.SimulatesFailure(t.seed) {
		return tool.Result{}, &tool.Error{Class: ir.ClassTool, Message: failsOnPurpose(t.seed)}
	}
	wants, model := call.For.Wants, simulated.Model{Seed: t.seed}
	purpose := provider.Purpose{
		Workflow: call.For.Workflow, Step: call.For.Step, Agent: call.For.Agent, Key: t.name + string(call.Input),
		Visit: call.For.Visit, Iteration: call.For.Iteration, Attempt: call.For.Attempt, Contract: wants,
	}
	// A schema that nothing fits, or that contradicts the workflow, is left out.
	for _, form := range []json.RawMessage{both(t.returns, wants.Schema), t.returns, wants.Schema, nil} {
		if out, err := model.Answer(purpose, form); err == nil && out != nil {
			return tool.Result{Output: out, Offline: journal.OfflineSimulated}, nil
		}
	}
	out, err := json.Marshal(map[string]any{"simulated": true, "tool": t.name, "input": call.Input})
	return tool.Result{Output: out, Offline: journal.OfflineSimulated}, err
}

// both returns a schema that requires two others; either may be empty.
func both(a, b json.RawMessage) json.RawMessage {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	return slices.Concat([]byte(`{"allOf":[`), a, []byte(","), b, []byte("]}"))
}

// listTimeout is the time that a server may take to start and to list its tools.
const listTimeout = 60 * time.Second

// Missing returns the tools that a program's steps call and that are not available: unbound ones with configuration
// entries to paste, the others with their problem. Agents whose models are programs have their own tools. It starts the
// MCP servers whose tools are called, because only a running server knows its tools.
func (t *Tools) Missing(p *ir.Program, o RunOptions, models *Models) []MissingDependency {
	script, err := scriptOf(o)
	if err != nil {
		return nil // it has been reported
	}
	var out, unbound []MissingDependency
	if o.Sandbox && !Simulates(o) {
		if steps := commandSteps(p, t.config); len(steps) > 0 {
			if _, err := t.sandbox(); err != nil {
				out = []MissingDependency{{Problem: *unconfined(err), Steps: steps}}
			}
		}
	}
	box := t.box(o, script)
	box.noShell = false // missing consent is reported by Unapproved
	if box.simulate {
		return out
	}
	var names []string // of unbound
	answers := router{models: models, override: o.Model, fallback: o.DefaultModel}
	for _, use := range toolUses(p) {
		name := ir.ToolName(use.name)
		box.program = use.program
		switch {
		case use.agent != nil && script == nil && models != nil && answers.Agent(use.agent.ModelName()) != nil,
			tool.Caller{Program: use.program, Step: use.step, Agent: use.agent}.Refusal(name, nil) != "", // not called
			box.scripted[name] != nil:
			continue
		}
		lacks := t.lacksValues(name)
		for _, problem := range lacks {
			out = addMissing(out, use.where, problem)
		}
		if len(lacks) > 0 || use.pattern || box.Tool(name) != nil {
			continue // a pattern may match nothing
		}
		problem := t.missing(name, o.Sandbox)
		if target := declaredUse(use.program, name); problem == nil && target != "" && t.config.Tool(name) == nil {
			problem = t.missingTarget(name, target, o.Sandbox)
		}
		if problem != nil {
			out = addMissing(out, use.where, *problem)
			continue
		}
		unbound = addMissing(unbound, use.where, Problem{Message: fmt.Sprintf("nothing is bound to the tool %q", name)})
		// If addMissing added an entry, names gets one, too, so that names and unbound stay parallel.
		if len(unbound) > len(names) {
			names = append(names, name)
		}
	}
	if len(unbound) == 0 {
		return out
	}
	instead := "use --simulate"
	if script != nil {
		instead = fmt.Sprintf("add them under \"tools\" in %s", o.ScriptName)
	}
	entries := make([]config.Unbound, len(names))
	for i, name := range names {
		entries[i] = config.Unbound{Tool: name, Steps: unbound[i].Steps}
	}
	// One text for all tools, ready to paste.
	unbound[len(unbound)-1].Help = t.config.Paste(entries, instead)
	return append(out, unbound...)
}

// declaredUse returns the tool of the project that a tool of a workflow stands for, or "".
func declaredUse(p *ir.Program, name string) string {
	if p != nil {
		for i := range p.ToolDefs {
			if p.ToolDefs[i].Name == name {
				return p.ToolDefs[i].Use
			}
		}
	}
	return ""
}

// missingTarget returns why a tool of a workflow, which stands for a tool of the project, cannot be called.
func (t *Tools) missingTarget(name, target string, sandbox bool) *Problem {
	if problem := t.missing(target, sandbox); problem != nil {
		return problem
	}
	server, _, dotted := strings.Cut(target, ".")
	if !dotted {
		return problemf(diag.DidYouMean(target, slices.Collect(maps.Keys(t.plain))),
			"the tool %q is bound to the unknown tool %q", name, target)
	}
	t.servers.mu.Lock()
	known := slices.Sorted(maps.Keys(t.servers.known))
	t.servers.mu.Unlock()
	return problemf(
		strings.TrimSpace(diag.DidYouMean(server, known)+" Servers are entries under \"mcp\" in "+config.FileName+
			" or in "+config.MCPFileName+"."),
		"the tool %q is of the MCP server %q, which is not configured", name, server)
}

// addMissing adds what a step lacks to a list without duplicates.
func addMissing(list []MissingDependency, step string, problem Problem) []MissingDependency {
	i := slices.IndexFunc(list, func(l MissingDependency) bool { return l.Message == problem.Message })
	if i < 0 {
		return append(list, MissingDependency{Problem: problem, Steps: []string{step}})
	}
	if !slices.Contains(list[i].Steps, step) {
		list[i].Steps = append(list[i].Steps, step)
	}
	return list
}

// missing returns why a tool cannot be called; nil if the only reason is that nothing is bound to its name.
func (t *Tools) missing(name string, sandbox bool) *Problem {
	set, target := t.config.Tool(name), name
	if set != nil && set.Use.Value != "" {
		target = set.Use.Value
	}
	if set != nil && set.Off {
		return problemf(
			"Remove \"enabled: false\" from its entry in "+config.FileName+", or the tool from the workflow.",
			"the tool %q is disabled", name)
	}
	if set != nil && set.Unapproved {
		return notApproved("the tool %q in %s", name, config.FileName)
	}
	if sandbox && t.plain[target] != nil {
		if _, err := t.boxed(); err != nil {
			return unconfined(err)
		}
	}
	err := t.serverProblem(target)
	if known, ok := errors.AsType[*Problem](err); ok {
		return known
	}
	if err != nil {
		return problemf("Check the server's entry under \"mcp\" in "+config.FileName+" or in "+config.MCPFileName+
			"; \"espalier validate\" checks both files.",
			"%v", err)
	}
	if target != name {
		return problemf(diag.DidYouMean(target, slices.Collect(maps.Keys(t.plain))),
			"the tool %q is bound to the unknown tool %q", name, target)
	}
	return nil
}

// unconfined returns the problem that commands cannot be confined.
func unconfined(err error) *Problem {
	return problemf("Without a sandbox, commands run with all your permissions. Use --sandbox=false to accept that.",
		"%v", err)
}

// toolUse is a tool that a step calls, or that its agent may call.
type toolUse struct {
	where, name string
	program     *ir.Program
	step        *ir.Step
	agent       *ir.Agent // nil if the step itself calls
	pattern     bool      // the name is a pattern
}

// toolUses returns the tools that the steps of a program, and of those that it calls, can call.
func toolUses(p *ir.Program) []toolUse {
	var out []toolUse
	for t := range tasks(p) {
		uses, at := t.kind.Uses(t.Task), t.prefix+t.place
		for _, name := range uses.Tools {
			out = append(out, toolUse{where: at, name: name.Name, program: t.program, step: t.step})
		}
		for _, name := range uses.Agents {
			agent := t.program.Agent(name.Name)
			if agent == nil {
				continue
			}
			for _, one := range agent.Tools {
				pattern := len(tool.Needed([]ir.Name{one})) == 0
				out = append(out, toolUse{at, one.Name, t.program, t.step, agent, pattern})
			}
		}
	}
	return out
}
