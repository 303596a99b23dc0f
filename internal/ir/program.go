package ir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Program is a complete workflow.
type Program struct {
	Format      string `json:"format"`            // name of the format: "agent-flow"
	Dialect     string `json:"dialect,omitempty"` // generation or flavor of the format, if it has several
	Level       string `json:"level,omitempty"`   // the format's name for this degree of complexity: "Layer 2 (graph)"
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Meta holds the remaining metadata of the file, in file order. Conditions read scalars as workflow.NAME.
	Meta []Meta `json:"meta,omitempty"`

	Input    *Contract `json:"input,omitempty"`
	Output   *Contract `json:"output,omitempty"`
	Vars     []Var     `json:"vars,omitempty"`
	Triggers []Trigger `json:"triggers,omitempty"`
	Budget   Budget    `json:"budget,omitzero"`
	Tools    Tools     `json:"tools,omitzero"`
	// ToolDefs are tools that the workflow itself defines.
	ToolDefs []ToolDef `json:"tool_defs,omitempty"`
	Agents   []Agent   `json:"agents,omitempty"`
	Audit    *Audit    `json:"audit,omitempty"`

	// OnCancel names a step of the body that a canceled run executes last. No edge leads to it. "" means none.
	OnCancel string `json:"on_cancel,omitempty"`
	// MayIntervene allows a person to pause the run and edit its state.
	MayIntervene bool `json:"may_intervene,omitempty"`
	// NoResume forbids resuming an interrupted run.
	NoResume bool `json:"no_resume,omitempty"`
	// APIOptIn forbids other programs to start runs over the API, unless a trigger of kind OnAPI allows it.
	APIOptIn bool `json:"api_opt_in,omitempty"`
	// CheckpointEvery adds a checkpoint to the records after this many steps. Durability does not depend on it: every
	// step is durable.
	CheckpointEvery int `json:"checkpoint_every,omitempty"`

	// Blocks[0] is the body of the program.
	Blocks []Block `json:"blocks"`
	// Children are the programs that Call actions refer to by position.
	Children []Program `json:"children,omitempty"`
	// Files are the other files that this program was compiled from. A run pins them together with the program.
	Files []File `json:"files,omitempty"`
	// Quote is the cost of a run by the format's own price list; nil if the format has none.
	Quote *Quote `json:"quote,omitempty"`
	// Unread describes the parts of the file that could not be read.
	Unread Unread `json:"unread,omitzero"`

	Span source.Span `json:"span,omitzero"`

	// Callers are the steps that call the program, if Link has recorded them.
	Callers Callers `json:"-"`
}

// Body is the ID of the program's outermost block.
const Body BlockID = 0

// BlockID is the index of a block in Program.Blocks.
type BlockID int

// Block is a list of steps that share one scope. Execution starts at Steps[0].
type Block struct {
	Name  string      `json:"name,omitempty"`
	Steps []Step      `json:"steps"`
	Span  source.Span `json:"span,omitzero"`
}

// Meta is one entry of a file's metadata.
type Meta struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Span  source.Span     `json:"span,omitzero"`
}

// Contract is the JSON Schema of a program's input or output.
type Contract struct {
	Schema json.RawMessage `json:"schema,omitempty"`
	// Places maps JSON pointers into the schema to their source positions.
	Places map[string]source.Span `json:"places,omitempty"`
	// Files are the inputs that must name existing files.
	Files []string `json:"files,omitempty"`
	// Inserted are the inputs that prompts insert. Without one, a prompt keeps its name as it is written.
	Inserted []string    `json:"inserted,omitempty"`
	Span     source.Span `json:"span,omitzero"`
}

// At returns the position of the part of the schema at a JSON pointer, or of the nearest enclosing part with a known
// position.
func (c *Contract) At(pointer string) source.Span {
	for pointer != "" {
		if at, ok := c.Places[pointer]; ok {
			return at
		}
		pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
	}
	return c.Span
}

// Reducer determines how a write combines with the variable's current value.
type Reducer string

// The reducers. Append adds to the end of a list. Merge overlays an object on the current one, key by key.
const (
	Set    Reducer = "set"
	Append Reducer = "append"
	Merge  Reducer = "merge"
)

// Var declares a variable.
type Var struct {
	Path    string          `json:"path"`
	Reducer Reducer         `json:"reducer,omitempty"` // empty means Set
	Schema  json.RawMessage `json:"schema,omitempty"`
	Init    json.RawMessage `json:"init,omitempty"`
	// From is the machine property that the variable starts with: "env:NAME", "user", "host", "dir", or "stamp:FOLDER",
	// a timestamped name for a new folder below FOLDER in the project. It is resolved once, when the run starts.
	From string      `json:"from,omitempty"`
	Span source.Span `json:"span,omitzero"`
}

// NewFolder reports whether the variable names a folder that each run creates for itself.
func (v *Var) NewFolder() bool { return strings.HasPrefix(v.From, "stamp:") }

// Overlap reports whether two dotted paths can mean the same data: they are equal, or one lies inside the other.
func Overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '.')
}

// Owns reports whether a path is, holds or lies in a value that only Espalier sets: the name of a run's folder, a
// property of the machine, or what expressions read about the run. Environment variables are not among them.
func (p *Program) Owns(path string) bool {
	switch first, _, _ := strings.Cut(path, "."); first {
	case "run", "workflow", "last":
		return true
	}
	for i := range p.Vars {
		v := &p.Vars[i]
		if v.From == "" || strings.HasPrefix(v.From, "env:") {
			continue
		}
		if Overlap(v.Path, path) {
			return true
		}
	}
	return slices.ContainsFunc(p.Children, func(child Program) bool { return child.Owns(path) })
}

// CapsMoney reports whether the program, one of its branches or one of its children has a budget of money.
func (p *Program) CapsMoney() bool {
	for one := range p.All() {
		if one.Budget.MicroDollars != nil || one.BranchCapsMoney() {
			return true
		}
	}
	return false
}

// BranchCapsMoney reports whether a branch of the program itself has a budget of money.
func (p *Program) BranchCapsMoney() bool {
	for s := range p.Steps() {
		if par, ok := s.Action.(Parallel); ok &&
			slices.ContainsFunc(par.Branches, func(b Branch) bool { return b.Budget.MicroDollars != nil }) {
			return true
		}
	}
	return false
}

// TriggerKind is a way to start runs.
type TriggerKind string

// The trigger kinds.
const (
	OnSchedule TriggerKind = "schedule"
	OnDemand   TriggerKind = "manual"
	OnAPI      TriggerKind = "api"
	OnEvent    TriggerKind = "event"
	OnFile     TriggerKind = "file"
	OnCommand  TriggerKind = "command"
	// OnMention starts a run when an agent decides that the description of the workflow fits a request.
	OnMention TriggerKind = "natural-language"
	// OnWebhook is configured by the project, not declared by a workflow.
	OnWebhook TriggerKind = "webhook"
)

// Trigger is one way to start runs of the program.
type Trigger struct {
	Kind     TriggerKind `json:"kind"`
	Off      bool        `json:"off,omitempty"`      // declared, but disabled
	Schedule string      `json:"schedule,omitempty"` // cron expression
	Timezone string      `json:"timezone,omitempty"` // IANA name; empty means UTC
	Event    string      `json:"event,omitempty"`
	Paths    []string    `json:"paths,omitempty"` // patterns of the files to watch, below the root of the project
	Names    []string    `json:"names,omitempty"` // of commands
	Span     source.Span `json:"span,omitzero"`
	// TimezoneSpan is separate from Span because the time zone is checked on its own.
	TimezoneSpan source.Span `json:"timezone_span,omitzero"`
}

// Zone returns the name of the time zone of the schedule.
func (t *Trigger) Zone() string { return cmp.Or(t.Timezone, "UTC") }

// Source returns what the trigger reacts to: a schedule with its time zone, the name of an event, the patterns of
// files, the names of commands, or the path of a webhook. It is empty for the other kinds.
func (t *Trigger) Source() string {
	switch t.Kind {
	case OnSchedule:
		return t.Schedule + ", " + t.Zone()
	case OnEvent:
		return t.Event
	case OnWebhook:
		return "/hooks/" + t.Event
	case OnFile:
		return strings.Join(t.Paths, ", ")
	case OnCommand:
		return strings.Join(t.Names, ", ")
	}
	return ""
}

// triggerWords precede what a trigger reacts to.
var triggerWords = map[TriggerKind]string{
	OnSchedule: "schedule", OnEvent: "event", OnAPI: "HTTP request", OnFile: "files", OnCommand: "command",
	OnWebhook: "webhook", OnDemand: "by hand", OnMention: "an agent that the description fits",
}

// Words describes the trigger, as in "schedule 0 9 * * 1, UTC".
func (t *Trigger) Words() string { return strings.TrimSpace(triggerWords[t.Kind] + " " + t.Source()) }

// StartedBy reports whether a trigger of one of the kinds starts runs of the program.
func (p *Program) StartedBy(kinds ...TriggerKind) bool {
	return slices.ContainsFunc(p.Triggers, func(t Trigger) bool { return !t.Off && slices.Contains(kinds, t.Kind) })
}

// Limit is a bound written in the file; a nil *Limit means unbounded.
type Limit struct {
	Max  int64       `json:"max"`
	Span source.Span `json:"span,omitzero"`
}

// Budget bounds a run, a branch or a child. Time is active time: waiting for people and events does not count.
type Budget struct {
	Steps         *Limit `json:"steps,omitempty"`
	ToolCalls     *Limit `json:"tool_calls,omitempty"`
	Tokens        *Limit `json:"tokens,omitempty"`
	ActiveSeconds *Limit `json:"active_seconds,omitempty"`
	MicroDollars  *Limit `json:"micro_dollars,omitempty"`
}

// The names of budgets, as journals have them and --raise takes them.
const (
	BudgetSteps    = "steps"
	BudgetTools    = "tool_calls"
	BudgetTokens   = "tokens"
	BudgetMoney    = "micro_dollars" // the cost budget; people count in dollars
	BudgetDeadline = "active_seconds"
)

// Budgets lists the names of all budgets.
var Budgets = []string{BudgetSteps, BudgetTools, BudgetTokens, BudgetMoney, BudgetDeadline}

// Tools is the tool policy of a program.
type Tools struct {
	Allow         []Name `json:"allow,omitempty"`
	AllowAll      bool   `json:"allow_all,omitempty"` // the file has no allowlist
	Deny          []Name `json:"deny,omitempty"`
	WorkersMayUse bool   `json:"workers_may_use,omitempty"` // whether branches of a Parallel may call tools
}

// ToolDef is a tool that the workflow defines: an HTTP request, or an alias of a built-in tool or of a
// tool of the project.
// The project's configuration takes precedence over it.
type ToolDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Builtin     string          `json:"builtin,omitempty"`
	Use         string          `json:"use,omitempty"`    // name of the project's tool
	URL         string          `json:"url,omitempty"`    // {name} is replaced by an argument
	Method      string          `json:"method,omitempty"` // empty means POST
	Headers     []HeaderDef     `json:"headers,omitempty"`
	Span        source.Span     `json:"span,omitzero"`
}

// HeaderDef is a request header. Its value may be secret://NAME or contain ${NAME}.
type HeaderDef struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Name is a name with its source position.
type Name struct {
	Name string      `json:"name"`
	Span source.Span `json:"span,omitzero"`
}

// Agent is a model with a role. Steps refer to it by ID.
type Agent struct {
	ID           string `json:"id"`
	Role         string `json:"role,omitempty"`
	Goal         string `json:"goal,omitempty"`
	Instructions string `json:"instructions,omitempty"` // text that precedes everything else in the prompt
	Expected     string `json:"expected,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Model        string `json:"model,omitempty"`
	// Tier is the class of model that the author requests instead of a specific one.
	Tier string `json:"tier,omitempty"`
	// Late is set if the provider is known only at run time: the step computes it.
	Late bool `json:"late,omitempty"`
	// MaxTokens caps each reply; 0 means the engine's default.
	MaxTokens int             `json:"max_tokens,omitempty"`
	Tools     []Name          `json:"tools,omitempty"`
	Bundle    *Bundle         `json:"bundle,omitempty"`  // nil means none
	Options   json.RawMessage `json:"options,omitempty"` // passed to the provider
	// Implied is set for agents that the format's lowering created.
	Implied bool        `json:"implied,omitempty"`
	Span    source.Span `json:"span,omitzero"`
}

// Bundle is the set of files that accompany an agent's instructions. The agent reads them on demand.
type Bundle struct {
	Dir   string   `json:"dir"`   // relative to the project root, or absolute if outside it
	Files []string `json:"files"` // relative to Dir, with slashes
}

// ModelName returns the model in the form that --model accepts, with its provider if the file names one. It returns ""
// for a nil agent.
func (a *Agent) ModelName() string {
	switch {
	case a == nil:
		return ""
	case a.Provider == "":
		return a.Model
	case a.Model == "":
		return a.Provider
	}
	return a.Provider + "/" + a.Model
}

// Audit is the file's requirements for the audit log.
type Audit struct {
	Level          string      `json:"level,omitempty"`
	RequiredEvents []Name      `json:"required_events,omitempty"`
	RequiredIDs    []Name      `json:"required_ids,omitempty"`
	RedactPII      bool        `json:"redact_pii,omitempty"`
	RedactSecrets  bool        `json:"redact_secrets,omitempty"`
	RedactPatterns []Name      `json:"redact_patterns,omitempty"`
	Span           source.Span `json:"span,omitzero"`
}

// Audits returns the requirements of the program and of all programs that it calls.
func (p *Program) Audits() []*Audit {
	var out []*Audit
	for one := range p.All() {
		if one.Audit != nil {
			out = append(out, one.Audit)
		}
	}
	return out
}

// File is another file that the program was compiled from.
type File struct {
	Path   string `json:"path"`
	Role   string `json:"role"` // schema, skill, base, prompt, …
	SHA256 string `json:"sha256"`
}

// Quote is the cost of a run by a price list that belongs to the format, in millionths of a dollar. Each agent has a
// fixed price per call, whichever model runs it.
type Quote struct {
	Lines []QuoteLine `json:"lines"`
	// Base is the cost of one pass; Worst includes every repetition that the file allows.
	Base  int64 `json:"base_micro_dollars"`
	Worst int64 `json:"worst_micro_dollars"`
	// Unbounded are the agents that code calls without a bound; the worst case counts one call for each visit.
	Unbounded []string `json:"unbounded,omitempty"`
	// Unpriced are the agents that the price list does not contain.
	Unpriced []string `json:"unpriced,omitempty"`
	// Stated is the cost that the file claims for a run; Ceilings are the limits that its prose names.
	Stated   *Limit  `json:"stated,omitempty"`
	Ceilings []Limit `json:"ceilings,omitempty"`
	// Notes state the assumptions behind the figures.
	Notes []string `json:"notes,omitempty"`
}

// QuoteLine is the price of one agent.
type QuoteLine struct {
	Agent string `json:"agent"`
	Tier  string `json:"tier"`
	Price int64  `json:"micro_dollars"` // per call
	Calls int64  `json:"calls"`         // per pass
	Worst int64  `json:"worst_calls"`
}

// Step returns the step of block b with the given ID, or nil.
func (p *Program) Step(b BlockID, id string) *Step {
	return xslices.FindPointer(p.Blocks[b].Steps, func(one *Step) bool { return one.ID == id })
}

// Steps returns the steps of all blocks, without those of children.
func (p *Program) Steps() iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		for _, s := range p.PlacedSteps() {
			if !yield(s) {
				return
			}
		}
	}
}

// PlacedSteps returns the steps of all blocks with the blocks that they are in, without those of children.
func (p *Program) PlacedSteps() iter.Seq2[BlockID, *Step] {
	return func(yield func(BlockID, *Step) bool) {
		for b := range p.Blocks {
			for i := range p.Blocks[b].Steps {
				if !yield(BlockID(b), &p.Blocks[b].Steps[i]) {
					return
				}
			}
		}
	}
}

// CloneSteps copies the blocks and steps, so that changes of them do not change the program that p is a copy of.
func (p *Program) CloneSteps() {
	p.Blocks = slices.Clone(p.Blocks)
	for b := range p.Blocks {
		p.Blocks[b].Steps = slices.Clone(p.Blocks[b].Steps)
	}
}

// All returns the program and its children at any depth, each before its own children.
func (p *Program) All() iter.Seq[*Program] {
	return func(yield func(*Program) bool) { p.visit(yield) }
}

func (p *Program) visit(yield func(*Program) bool) bool {
	if !yield(p) {
		return false
	}
	for i := range p.Children {
		if !p.Children[i].visit(yield) {
			return false
		}
	}
	return true
}

// Labels returns the titles of the steps whose IDs people do not know, children included, by the IDs of the steps.
func (p *Program) Labels() map[string]string {
	out := map[string]string{}
	for one := range p.All() {
		for s := range one.Steps() {
			if title := s.Title(); title != s.ID {
				out[s.ID] = title
			}
		}
	}
	return out
}

// Places returns the names of the steps with those of the steps around them, as people know them: "review.policy".
func (p *Program) Places() map[*Step]string {
	out := map[*Step]string{}
	var visit func(b BlockID, prefix string)
	visit = func(b BlockID, prefix string) {
		if b < 0 || int(b) >= len(p.Blocks) {
			return
		}
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			if _, shared := out[s]; shared {
				continue
			}
			out[s] = prefix + s.Title()
			for inner := range s.Blocks() {
				visit(inner, out[s]+".")
			}
		}
	}
	visit(Body, "")
	for s := range p.Steps() { // those that no other step contains
		if out[s] == "" {
			out[s] = s.Title()
		}
	}
	return out
}

// Agent returns the agent with the given ID, or nil.
func (p *Program) Agent(id string) *Agent {
	return xslices.FindPointer(p.Agents, func(one *Agent) bool { return one.ID == id })
}

// AddFile records that the program was compiled from f. A file with the same role is recorded once.
func (p *Program) AddFile(f *source.File, role string) {
	sum := sha256.Sum256([]byte(f.Text))
	one := File{Path: f.Path, Role: role, SHA256: hex.EncodeToString(sum[:])}
	if !slices.Contains(p.Files, one) {
		p.Files = append(p.Files, one)
	}
}

// AddBlock appends a block and returns its ID.
func (p *Program) AddBlock(b Block) BlockID {
	p.Blocks = append(p.Blocks, b)
	return BlockID(len(p.Blocks) - 1)
}
