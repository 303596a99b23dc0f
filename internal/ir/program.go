package ir

import (
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// Program is a whole workflow.
type Program struct {
	Format      string `json:"format"`            // the format's name: "agent-flow"
	Dialect     string `json:"dialect,omitempty"` // which generation or flavour of it, if it has several
	Level       string `json:"level,omitempty"`   // what the format calls this degree of complexity: "Layer 2 (graph)"
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Meta is what else the file says about itself, in its order. Scalars can
	// be read by conditions as workflow.NAME.
	Meta []Meta `json:"meta,omitempty"`

	Input    *Contract `json:"input,omitempty"`
	Output   *Contract `json:"output,omitempty"`
	Vars     []Var     `json:"vars,omitempty"`
	Triggers []Trigger `json:"triggers,omitempty"`
	Budget   Budget    `json:"budget,omitzero"`
	Tools    Tools     `json:"tools,omitzero"`
	// ToolDefs are tools that the workflow itself brings along.
	ToolDefs []ToolDef `json:"tool_defs,omitempty"`
	Agents   []Agent   `json:"agents,omitempty"`
	Audit    *Audit    `json:"audit,omitempty"`

	// OnCancel is a step of the body that nothing leads to: a run that is
	// cancelled ends with it. "" is none.
	OnCancel string `json:"on_cancel,omitempty"`
	// MayIntervene lets a person pause the run and edit its state.
	MayIntervene bool `json:"may_intervene,omitempty"`
	// NoResume refuses to carry a stopped run on.
	NoResume bool `json:"no_resume,omitempty"`
	// CheckpointEvery notes a checkpoint in the records each so many steps.
	// What is durable does not depend on it: every step is.
	CheckpointEvery int `json:"checkpoint_every,omitempty"`

	// Blocks[0] is the body of the program.
	Blocks []Block `json:"blocks"`
	// Children are the programs that Call actions name, by their position.
	Children []Program `json:"children,omitempty"`
	// Files are the other files that went into this program. Together with
	// the program they are what a run pins.
	Files []File `json:"files,omitempty"`
	// Quote is what a run costs by the price list of its format; nil when the
	// format has none.
	Quote *Quote `json:"quote,omitempty"`
	// Unread is what could not be read of the file, after an error.
	Unread Unread `json:"unread,omitzero"`

	Span source.Span `json:"span,omitzero"`
}

// Body is the number of the program's outermost block.
const Body BlockID = 0

// BlockID is the number of a block in its Program.
type BlockID int

// Block is steps that run in one scope. Steps[0] is where it begins.
type Block struct {
	Name  string      `json:"name,omitempty"`
	Steps []Step      `json:"steps"`
	Span  source.Span `json:"span,omitzero"`
}

// Meta is one fact that a file states about itself.
type Meta struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Span  source.Span     `json:"span,omitzero"`
}

// Contract is what goes in or comes out: a JSON Schema.
type Contract struct {
	Schema json.RawMessage `json:"schema,omitempty"`
	// Places is where parts of the schema stand, by their JSON pointers.
	Places map[string]source.Span `json:"places,omitempty"`
	Span   source.Span            `json:"span,omitzero"`
}

// At is where the part of the schema that a JSON pointer leads to stands, or
// the nearest part around it whose place is known.
func (c *Contract) At(pointer string) source.Span {
	for pointer != "" {
		if at, ok := c.Places[pointer]; ok {
			return at
		}
		pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
	}
	return c.Span
}

// Reducer says how a write meets what is already there.
type Reducer string

// The reducers. Append adds to the end of a list, Merge lays an object over
// the one that is there, key by key.
const (
	Set    Reducer = "set"
	Append Reducer = "append"
	Merge  Reducer = "merge"
)

// Var declares a variable before anything writes it.
type Var struct {
	Path    string          `json:"path"`
	Reducer Reducer         `json:"reducer,omitempty"` // empty means Set
	Schema  json.RawMessage `json:"schema,omitempty"`
	Init    json.RawMessage `json:"init,omitempty"`
	// From is what of the machine it begins with: "env:NAME", "user", "host",
	// "dir", or "stamp:FOLDER", which is the time as the name of a new folder
	// below one of the project's. It is looked up once, when the run starts.
	From string      `json:"from,omitempty"`
	Span source.Span `json:"span,omitzero"`
}

// TriggerKind is a way in which runs begin.
type TriggerKind string

// The ways in which runs begin.
const (
	OnSchedule TriggerKind = "schedule"
	OnDemand   TriggerKind = "manual"
	OnAPI      TriggerKind = "api"
	OnEvent    TriggerKind = "event"
)

// Trigger is one way in which runs of the program begin.
type Trigger struct {
	Kind     TriggerKind `json:"kind"`
	Off      bool        `json:"off,omitempty"`      // stated, but switched off
	Schedule string      `json:"schedule,omitempty"` // cron expression
	Timezone string      `json:"timezone,omitempty"` // IANA name; empty means UTC
	Event    string      `json:"event,omitempty"`
	Span     source.Span `json:"span,omitzero"`
	// TimezoneSpan is apart because the two are checked apart.
	TimezoneSpan source.Span `json:"timezone_span,omitzero"`
}

// Limit is a bound that somebody wrote down; a nil *Limit is no bound.
type Limit struct {
	Max  int64       `json:"max"`
	Span source.Span `json:"span,omitzero"`
}

// Budget bounds a run, a branch or a child. Time is active time: waiting for
// people and events does not count.
type Budget struct {
	Steps         *Limit `json:"steps,omitempty"`
	ToolCalls     *Limit `json:"tool_calls,omitempty"`
	Tokens        *Limit `json:"tokens,omitempty"`
	ActiveSeconds *Limit `json:"active_seconds,omitempty"`
	MicroDollars  *Limit `json:"micro_dollars,omitempty"`
}

// Tools is which tools may be called at all.
type Tools struct {
	Allow         []Name `json:"allow,omitempty"`
	AllowAll      bool   `json:"allow_all,omitempty"` // no allowlist was given
	Deny          []Name `json:"deny,omitempty"`
	WorkersMayUse bool   `json:"workers_may_use,omitempty"` // branches of a Parallel
}

// ToolDef is a tool that the workflow itself brings along: a request over
// HTTP, or a built-in tool under a name of its own. The project's
// configuration comes before it.
type ToolDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Builtin     string          `json:"builtin,omitempty"`
	URL         string          `json:"url,omitempty"`    // {name} stands for an argument
	Method      string          `json:"method,omitempty"` // empty is POST
	Headers     []HeaderDef     `json:"headers,omitempty"`
	Span        source.Span     `json:"span,omitzero"`
}

// HeaderDef is a header of a request. A value may be secret://NAME, or have
// ${NAME} in it.
type HeaderDef struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Name is a name and where it was written.
type Name struct {
	Name string      `json:"name"`
	Span source.Span `json:"span,omitzero"`
}

// Agent is a model with a role. Steps refer to it by ID.
type Agent struct {
	ID           string `json:"id"`
	Role         string `json:"role,omitempty"`
	Goal         string `json:"goal,omitempty"`
	Instructions string `json:"instructions,omitempty"` // text that goes before everything else
	Expected     string `json:"expected,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Model        string `json:"model,omitempty"`
	// Tier is the kind of model that the author asks for without naming one.
	Tier string `json:"tier,omitempty"`
	// Late says that the provider is known only when a step runs, which names it then.
	Late bool `json:"late,omitempty"`
	// MaxTokens caps each reply; 0 means the engine's default.
	MaxTokens int             `json:"max_tokens,omitempty"`
	Tools     []Name          `json:"tools,omitempty"`
	Bundle    *Bundle         `json:"bundle,omitempty"`  // nil is none
	Options   json.RawMessage `json:"options,omitempty"` // passed to the provider
	// Implied agents were made by the format's lowering, not written down.
	Implied bool        `json:"implied,omitempty"`
	Span    source.Span `json:"span,omitzero"`
}

// Bundle is the files that come with an agent's instructions. It reads them
// when it needs them.
type Bundle struct {
	Dir   string   `json:"dir"`   // from the project's root; absolute when it is elsewhere
	Files []string `json:"files"` // below Dir, with slashes
}

// ModelName is the model as people write it after --model: with its provider
// when the file names one.
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

// Audit is what the file asks of the audit log.
type Audit struct {
	Level          string      `json:"level,omitempty"`
	RequiredEvents []Name      `json:"required_events,omitempty"`
	RequiredIDs    []Name      `json:"required_ids,omitempty"`
	RedactPII      bool        `json:"redact_pii,omitempty"`
	RedactSecrets  bool        `json:"redact_secrets,omitempty"`
	RedactPatterns []Name      `json:"redact_patterns,omitempty"`
	Span           source.Span `json:"span,omitzero"`
}

// File is another file that went into the program.
type File struct {
	Path   string `json:"path"`
	Role   string `json:"role"` // schema, skill, base, prompt, …
	SHA256 string `json:"sha256"`
}

// Quote is what a run costs by a price list that belongs to the format, in
// millionths of a dollar: every agent has a price per call, whatever model
// answers.
type Quote struct {
	Lines []QuoteLine `json:"lines"`
	// Base is one pass, Worst is with every repetition that the file allows.
	Base  int64 `json:"base_micro_dollars"`
	Worst int64 `json:"worst_micro_dollars"`
	// Unpriced are the agents that the price list does not know.
	Unpriced []string `json:"unpriced,omitempty"`
	// Stated is what the file says that a run costs, and the ceilings that
	// its prose names.
	Stated   *Limit  `json:"stated,omitempty"`
	Ceilings []Limit `json:"ceilings,omitempty"`
	// Notes say what the figures rest on.
	Notes []string `json:"notes,omitempty"`
}

// QuoteLine is the price of one agent.
type QuoteLine struct {
	Agent string `json:"agent"`
	Tier  string `json:"tier"`
	Price int64  `json:"micro_dollars"` // of one call
	Calls int64  `json:"calls"`         // in one pass
	Worst int64  `json:"worst_calls"`
}

// Step finds a step of a block by its ID, or returns nil.
func (p *Program) Step(b BlockID, id string) *Step {
	for i := range p.Blocks[b].Steps {
		if p.Blocks[b].Steps[i].ID == id {
			return &p.Blocks[b].Steps[i]
		}
	}
	return nil
}

// Agent finds an agent by its ID, or returns nil.
func (p *Program) Agent(id string) *Agent {
	for i := range p.Agents {
		if p.Agents[i].ID == id {
			return &p.Agents[i]
		}
	}
	return nil
}

// AddBlock appends a block and returns its number.
func (p *Program) AddBlock(b Block) BlockID {
	p.Blocks = append(p.Blocks, b)
	return BlockID(len(p.Blocks) - 1)
}
