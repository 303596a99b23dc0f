package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Step is one step of a block, with its outgoing edges.
type Step struct {
	ID   string `json:"id"`
	Type string `json:"type"` // the format's own word, used in records and pictures
	// Label is displayed instead of an ID that lowering generated.
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`

	When   *expr.Expr `json:"when,omitempty"` // if false, the step is skipped
	Reads  []Ref      `json:"reads,omitempty"`
	Writes []Write    `json:"writes,omitempty"`
	// Mentions are parts of what the step reads that its texts name.
	Mentions []Ref `json:"mentions,omitempty"`
	// Result computes the step's result if its action produces none by itself: for a step that
	// contains blocks, for an End, and after a failure. It can read "result" (the branches'
	// results, {"iterations": n} for a loop, a child's output, or for an End the previous step's
	// result), "outcome", and "failure" ({error, class, exit}).
	Result *expr.Expr `json:"result,omitempty"`

	Action Action `json:"-"` // encoded as {"task": {…}} and so on
	Retry  *Retry `json:"retry,omitempty"`
	// Timeout bounds one attempt; 0 means the kind's default. For a step that contains others it bounds their active
	// time, including waits between attempts.
	Timeout Millis `json:"timeout,omitempty"`
	// TimeoutExpr computes the Timeout of a step that contains others, as text for ParseTimeout, at the start of each
	// attempt. Tasks compute their own.
	TimeoutExpr *expr.Expr `json:"timeout_expr,omitempty"`
	// SkipOnError turns a failure into a skip once all retries have failed.
	SkipOnError bool `json:"skip_on_error,omitempty"`
	// InheritOutcome makes the step end with the outcome of the step before it. A failure propagates even if a person
	// skips this step.
	InheritOutcome bool `json:"again,omitempty"`
	// Fallback names a step of the same block that runs instead of this one if this one fails or its condition is
	// false. Execution then continues with this step's successors, unless the fallback has a jump of its own (an edge
	// that is not Sequential). If this step was skipped, a fallback that succeeds follows this step's edge for Skipped,
	// if it has one. A fallback of a fallback replaces both: the jumps of the nearer one come first.
	Fallback *Name `json:"fallback,omitempty"`
	// StopWhen is evaluated after the writes; if true, the whole program ends successfully.
	StopWhen *expr.Expr `json:"stop_when,omitempty"`
	Next     []Edge     `json:"next,omitempty"`

	// Produces are files that must exist in the run folder after the step.
	Produces []Name `json:"produces,omitempty"`
	// AuditFile is a JSON file that records what the step read, did and wrote.
	AuditFile string `json:"audit_file,omitempty"`
	// ReasonOK and ReasonFail are the author's explanations of the outcome.
	ReasonOK   string `json:"reason_ok,omitempty"`
	ReasonFail string `json:"reason_fail,omitempty"`

	// Implied is set for steps that the format's lowering created.
	Implied bool `json:"implied,omitempty"`
	// Uncounted is set for gates that are not executions of a step: neither budgets nor checkpoints count them.
	Uncounted bool        `json:"uncounted,omitempty"`
	Span      source.Span `json:"span,omitzero"` // of the ID, or of the whole step if it has no ID
}

// TypeHook is the Type of steps that run hooks, in every format.
const TypeHook = "hook"

// Title returns the step's display name. A step that the format's lowering has created is called after the step of the
// file that it belongs to, which is the first part of its ID.
func (s *Step) Title() string {
	name, what, generated := strings.Cut(s.ID, ":")
	switch gate, isGate := s.Action.(Gate); {
	case s.Label != "":
		return s.Label
	case !s.Implied || !generated || s.Type == TypeHook:
		return s.ID
	case isGate && gate.Decider == Event:
		return replyTo + name
	case isGate && what != "gate":
		return fmt.Sprintf("%s%s (%s)", gateOf, name, what)
	case what == "gate":
		return gateOf + name
	case what == "checkpoint":
		return what + " of " + name
	}
	return name
}

const (
	gateOf  = "gate of "
	replyTo = "reply to "
)

// GateTitles returns the titles by which a person may mean the generated gate with an ID, with the short form of each;
// none for a gate of the file.
func GateTitles(id string) []string {
	name, what, generated := strings.Cut(id, ":")
	if !generated {
		return nil
	}
	return []string{gateOf + name, fmt.Sprintf("%s%s (%s)", gateOf, name, what), replyTo + name}
}

// Ref is a variable that a step reads, by its dotted path.
type Ref struct {
	Path string      `json:"path"`
	Span source.Span `json:"span,omitzero"`
	// Optional is set if the variable may be missing.
	Optional bool `json:"optional,omitempty"`
	// Members is set if a part of the step's text is rendered only for members of the variable.
	Members bool `json:"members,omitempty"`
}

// Write stores the step's result, or one part of it, in a variable.
type Write struct {
	Path string `json:"path"`
	// Part is the key of the result to store; empty stores all of it.
	Part    string  `json:"part,omitempty"`
	Reducer Reducer `json:"reducer,omitempty"` // if empty: the variable's declared reducer, or Set
	// Under is the key under which a Merge stores a result that is not an object with that key. AsList converts the
	// result to a list of its values first. Flat replaces each list in that list by its elements.
	Under  string `json:"under,omitempty"`
	AsList bool   `json:"as_list,omitempty"`
	Flat   bool   `json:"flat,omitempty"`
	// NonObjectKey is the key under which a Merge stores a result that is not an object.
	NonObjectKey string `json:"bare,omitempty"`
	// Always applies the write even if the step failed.
	Always bool        `json:"always,omitempty"`
	Span   source.Span `json:"span,omitzero"`
}

// Millis is a duration in milliseconds.
type Millis int64

// Duration returns m as a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Words formats the duration for people: "3 days", "24 h", "1 h 30 min", "1 s 500 ms".
func (m Millis) Words() string {
	if m <= 0 {
		return fmt.Sprintf("%d ms", m)
	}
	if m > 100*365*24*3600*1000 {
		return "years"
	}
	var parts []string
	for _, unit := range []struct {
		size Millis
		name string
	}{{24 * 3600_000, "days"}, {3600_000, "h"}, {60_000, "min"}, {1000, "s"}, {1, "ms"}} {
		if n := m / unit.size; n > 1 || n == 1 && unit.name != "days" {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
			m -= n * unit.size
		}
	}
	return strings.Join(parts, " ")
}

// ParseTimeout parses a timeout that a template produced: a number of seconds or a Go duration.
func (s *Step) ParseTimeout(text string) (Millis, error) {
	text = strings.TrimSpace(text)
	limit, err := time.ParseDuration(text)
	if n, plain := strconv.ParseFloat(text, 64); plain == nil && n > 0 && n < 1e9 {
		limit, err = max(time.Duration(n*float64(time.Second)), 1), nil
	}
	if err != nil || limit <= 0 {
		const shown = 100
		if runes := []rune(text); len(runes) > shown {
			text = string(runes[:shown]) + "…"
		}
		return 0, fmt.Errorf(
			"step %q has an invalid timeout %q: use seconds such as 30, or a duration such as 1m30s, above 0",
			s.ID, text)
	}
	return max(Millis(limit.Milliseconds()), 1), nil
}

// Outcome is how a step ended, as far as control flow is concerned.
type Outcome string

// The outcomes. Rejected is the negative decision of a gate: not an error, and never retried.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"
	Skipped  Outcome = "skipped"
	Rejected Outcome = "rejected"
)

// Edge is one possible transition from a step.
type Edge struct {
	On    []Outcome  `json:"on"`
	When  *expr.Expr `json:"when,omitempty"`
	To    Target     `json:"to"`
	Label string     `json:"label,omitempty"` // shown on the arrow in pictures
	// Limit is how often the edge may be taken per activation of its block; 0 means unlimited. An edge that has reached
	// its limit does not match.
	Limit int `json:"limit,omitempty"`
	// Sequential marks an edge that follows document order rather than an explicit jump.
	Sequential bool        `json:"sequential,omitempty"`
	Span       source.Span `json:"span,omitzero"`
}

// VisitCap is how often a run may enter one step of a block per activation of the block if no budget bounds the steps:
// it ends endless cycles of jumps.
const VisitCap = 1000

// Exit is a way to leave a block instead of continuing at a step.
type Exit string

// The exits.
const (
	ExitBlock Exit = "block" // close the block successfully; in a loop, continue with the next iteration
	ExitLoop  Exit = "loop"  // leave the innermost loop
	ExitFail  Exit = "fail"  // close the block as failed, with Reason
)

// Target is the destination of an edge: an exit, or a step of this block or of an enclosing one with no Parallel or
// Call in between.
type Target struct {
	Step   string `json:"step,omitempty"`
	Exit   Exit   `json:"exit,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// NoTransition is the reason of an edge that the author did not write: no condition of the step holds.
const NoTransition = "NO_TRANSITION"

// Backoff determines how the delay grows between attempts.
type Backoff string

// The backoffs. List uses its delays in order and repeats the last one.
const (
	List        Backoff = "list"
	Constant    Backoff = "constant"
	Linear      Backoff = "linear"
	Exponential Backoff = "exponential"
)

// Retry is the retry policy of a step.
type Retry struct {
	MaxAttempts int      `json:"max_attempts"` // including the first attempt
	Backoff     Backoff  `json:"backoff"`
	Delays      []Millis `json:"delays,omitempty"` // List: in order; otherwise the first is the base
	MaxDelay    Millis   `json:"max_delay,omitempty"`
	Multiplier  float64  `json:"multiplier,omitempty"`
	Jitter      float64  `json:"jitter,omitempty"`
	// On limits retries to these error classes; empty means every retryable class.
	On        []Class     `json:"on,omitempty"`
	ExitCodes []int       `json:"exit_codes,omitempty"`
	Span      source.Span `json:"span,omitzero"`
}

// Attempts returns the maximum number of attempts.
func (s *Step) Attempts() int {
	if s.Retry == nil || s.Retry.MaxAttempts < 1 {
		return 1
	}
	return s.Retry.MaxAttempts
}

// ReadsPath reports whether the step reads the variable with this path.
func (s *Step) ReadsPath(path string) bool {
	return slices.ContainsFunc(s.Reads, func(r Ref) bool { return r.Path == path })
}

// AddRead makes the step read a variable, unless it does already.
func (s *Step) AddRead(r Ref) {
	if !s.ReadsPath(r.Path) {
		s.Reads = append(s.Reads, r)
	}
}

// Task returns the step's leaf work, whether it is the whole action or a part of it (a verdict, a combination of
// branches, final work). It returns nil if there is none.
func (s *Step) Task() *Task {
	switch a := s.Action.(type) {
	case Task:
		return &a
	case Gate:
		return a.Verdict
	case Parallel:
		return a.Combine
	case Call:
		return a.Finish
	case End:
		return a.Work
	}
	return nil
}

// Blocks yields the blocks that a step runs, with the names of branches.
func (s *Step) Blocks() iter.Seq2[BlockID, string] {
	return func(yield func(BlockID, string) bool) {
		switch a := s.Action.(type) {
		case Loop:
			yield(a.Block, "")
		case Parallel:
			for i := range a.Branches {
				if !yield(a.Branches[i].Block, a.Branches[i].Name) {
					return
				}
			}
			if a.Each != nil {
				yield(a.Each.Block, "")
			}
		}
	}
}

// Each returns the iteration over a list that the step makes, as a fan-out or a loop; nil if it makes none.
func (s *Step) Each() *Each {
	switch a := s.Action.(type) {
	case Parallel:
		return a.Each
	case Loop:
		return a.Each
	}
	return nil
}

// Expressions yields the expressions of a step: its conditions, and the values that it computes.
func (s *Step) Expressions(yield func(*expr.Expr) bool) {
	more := true
	visit := func(list ...*expr.Expr) {
		for _, e := range list {
			more = more && (e == nil || yield(e))
		}
	}
	visit(s.When, s.StopWhen, s.Result, s.TimeoutExpr)
	for i := range s.Next {
		visit(s.Next[i].When)
	}
	switch a := s.Action.(type) {
	case Parallel:
		for i := range a.Branches {
			visit(a.Branches[i].When)
		}
	case Loop:
		visit(a.While, a.BreakWhen, a.MaxExpr)
	case Call:
		for i := range a.Inputs {
			visit(a.Inputs[i].Value)
		}
	case End:
		visit(a.MessageExpr, a.Check)
	}
	if each := s.Each(); each != nil {
		visit(each.Items)
	}
}

// Action is what a step does. The set of implementations is closed.
type Action interface{ actionName() string }

// Task is leaf work that the named step kind performs with its own settings.
type Task struct {
	Kind     string   `json:"kind"`
	Settings Settings `json:"settings,omitempty"`
	// Traits are filled in when a file is analyzed. Readers call Describe.
	Traits *Traits `json:"traits,omitempty"`
}

// Route only chooses among its step's edges.
type Route struct{}

// Decider is the kind of decision that a gate waits for.
type Decider string

// The deciders.
const (
	Person Decider = "person" // approve or reject
	Event  Decider = "event"  // an external signal opens the gate
	Work   Decider = "work"   // Verdict decides: {"approved": true|false, …}
)

// OnTimeout is what a gate does at its timeout.
type OnTimeout string

// The timeout actions, in the words of Agent Flow. TimeoutNotify sends a notification first.
const (
	TimeoutFail     OnTimeout = "stop"
	TimeoutNotify   OnTimeout = "notify_then_stop"
	TimeoutSkip     OnTimeout = "skip"
	TimeoutFallback OnTimeout = "fallback"
)

// Gate waits for a decision.
type Gate struct {
	Decider Decider `json:"decider"`
	Verdict *Task   `json:"verdict,omitempty"`
	Event   string  `json:"event,omitempty"` // if set, also settles a person's gate
	// Text marks a gate whose event carries text that a person writes. Commands ask for it on the terminal.
	Text      bool      `json:"text,omitempty"`
	Timeout   Millis    `json:"timeout,omitempty"`
	OnTimeout OnTimeout `json:"on_timeout,omitempty"`
	// Approvers limits who may decide a person's gate; nil is anyone who may decide gates.
	Approvers *Approvers `json:"approvers,omitempty"`
	// Name is the name of the waitpoint, if it has one.
	Name string      `json:"name,omitempty"`
	Span source.Span `json:"span,omitzero"`
}

// GateResult is the result of a decided gate, in the value that the gate writes.
type GateResult string

// The results of gates.
const (
	GateApproved GateResult = "approved"
	GateRejected GateResult = "rejected"
)

// The keys of the value that a gate writes which conditions and contracts refer to.
const (
	GateResultKey = "gate_result" // a GateResult
	GateReviewKey = "review"      // the reply that decided
)

// Approvers are the people who may decide a gate, and how many of them must approve.
type Approvers struct {
	Roles []string `json:"roles,omitempty"` // one of them is required; empty is anyone who may decide gates
	Min   int      `json:"min,omitempty"`   // number of people who must approve; 0 is 1
	// FourEyes excludes the person who started the run.
	FourEyes bool `json:"four_eyes,omitempty"`
	// EscalateAfter is the time after which people with a role in EscalateTo may decide, too; 0 is
	// never.
	EscalateAfter Millis   `json:"escalate_after,omitempty"`
	EscalateTo    []string `json:"escalate_to,omitempty"`
}

// Required returns the number of people who must approve.
func (a *Approvers) Required() int {
	if a == nil {
		return 1
	}
	return max(a.Min, 1)
}

// Allowed returns the roles that may decide. If there is none, anyone who may decide gates may.
func (a *Approvers) Allowed(escalated bool) []string {
	switch {
	case a == nil || len(a.Roles) == 0:
		return nil
	case escalated:
		return append(slices.Clone(a.Roles), a.EscalateTo...)
	}
	return a.Roles
}

// Join determines when a Parallel ends.
type Join string

// The joins.
const (
	JoinAll    Join = "all"    // all must succeed; the first failure cancels the rest
	JoinAny    Join = "any"    // the first success cancels the rest
	JoinSettle Join = "settle" // all run to their end; then one failure fails the step
	JoinBest   Join = "best"   // all run to their end; failures are only recorded
)

// Parallel runs branches concurrently, each in its own scope.
type Parallel struct {
	Branches []Branch `json:"branches,omitempty"`
	// Each runs one block per item of a list, instead of Branches.
	Each          *Each `json:"each,omitempty"`
	MaxConcurrent int   `json:"max_concurrent,omitempty"` // 0 means unlimited
	Join          Join  `json:"join"`
	// MinSuccess is the number of branches whose success suffices for JoinSettle; 0 means that no branch may fail.
	MinSuccess int `json:"min_success,omitempty"`
	// Combine computes the step's result from the branches' results ({branch, outcome, value} in branch order). A retry
	// then repeats only the branches that failed. Without it, the branches' writes are applied to the parent's scope in
	// branch order.
	Combine *Task       `json:"combine,omitempty"`
	Name    string      `json:"name,omitempty"` // of the bundle, if it has one
	Span    source.Span `json:"span,omitzero"`
}

// Branch is one block of a Parallel.
type Branch struct {
	Name   string      `json:"name"`
	Block  BlockID     `json:"block"`
	When   *expr.Expr  `json:"when,omitempty"`
	Budget Budget      `json:"budget,omitzero"`
	Span   source.Span `json:"span,omitzero"`
}

// Each is the iteration over a list of a fan-out or a loop. A Var below "loop." is stored in the loop's own variable,
// which nested loops see as their parent's.
type Each struct {
	Items *expr.Expr `json:"items"`
	Var   string     `json:"var"`
	Block BlockID    `json:"block"` // of a fan-out; a Loop has its own
}

// Loop repeats its block sequentially.
type Loop struct {
	Block     BlockID    `json:"block"`
	Each      *Each      `json:"each,omitempty"`       // over a list
	While     *expr.Expr `json:"while,omitempty"`      // before each iteration
	BreakWhen *expr.Expr `json:"break_when,omitempty"` // after each iteration
	Max       int        `json:"max,omitempty"`        // 0 means unlimited
	MaxExpr   *expr.Expr `json:"max_expr,omitempty"`   // evaluated when the loop starts; a value above Max is a failure
	// FailAtMax makes reaching the limit a failure.
	FailAtMax bool        `json:"fail_at_max,omitempty"`
	Span      source.Span `json:"span,omitzero"`
}

// Call runs another program as a child, with its own scope and records and the caller's budget.
type Call struct {
	Child  int       `json:"child"` // index in Program.Children
	Inputs []Binding `json:"inputs,omitempty"`
	// PassReads passes the step's reads as the child's input, named by their last segment. A whole namespace, and the
	// only read of the step if the child declares inputs of other names, are passed as they are.
	PassReads bool `json:"pass_reads,omitempty"`
	// Outputs are the call's results by name, each evaluated in the child's scope at its end. If empty, the result is
	// the child's output.
	Outputs []Binding `json:"outputs,omitempty"`
	// Finish is work on the child's result, which it passes on: it handles the files that the step declares.
	Finish *Task       `json:"finish,omitempty"`
	Span   source.Span `json:"span,omitzero"`
}

// Binding assigns a value to an input of a child, or to an output.
type Binding struct {
	Name  string      `json:"name"`
	Value *expr.Expr  `json:"value"`
	Span  source.Span `json:"span,omitzero"`
}

// End ends the whole program.
type End struct {
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
	// MessageExpr computes the message; Message is used if it cannot be evaluated.
	MessageExpr *expr.Expr `json:"message_expr,omitempty"`
	Status      int        `json:"status,omitempty"` // exit code chosen by the author; 0 means none
	// Check is a condition that is expected to be true at the end. If it is false, the run still ends, with a note
	// about it.
	Check *expr.Expr `json:"check,omitempty"`
	// Work computes the final result before the end, if any work is left.
	Work *Task `json:"work,omitempty"`
}

func (Task) actionName() string     { return "task" }
func (Route) actionName() string    { return "route" }
func (Gate) actionName() string     { return "gate" }
func (Parallel) actionName() string { return "parallel" }
func (Loop) actionName() string     { return "loop" }
func (Call) actionName() string     { return "call" }
func (End) actionName() string      { return "end" }

// ActionName returns the action's name in JSON, or "" for nil.
func ActionName(a Action) string {
	if a == nil {
		return ""
	}
	return a.actionName()
}

// Settings are the settings of a Task, in file order.
type Settings []Setting

// Setting is one named value of a Task's settings.
type Setting struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Span  source.Span     `json:"span,omitzero"`
}

// Put appends a setting; v must be plain data that encodes as JSON.
func (s *Settings) Put(name string, v any, at source.Span) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("ir: setting %s: %v", name, err)) // a bug in the caller: settings are plain data
	}
	*s = append(*s, Setting{Name: name, Value: raw, Span: at})
}

// PutSet is Put for a value that may be unset: zero or empty. An unset value is no setting.
func (s *Settings) PutSet(name string, v any, at source.Span) {
	value := reflect.ValueOf(v)
	list := value.Kind() == reflect.Slice || value.Kind() == reflect.Map
	if value.IsZero() || list && value.Len() == 0 {
		return
	}
	s.Put(name, v, at)
}

func (s Settings) find(name string) Setting {
	return xslices.Find(s, func(one Setting) bool { return one.Name == name })
}

// Get returns the raw value of a setting, or nil.
func (s Settings) Get(name string) json.RawMessage { return s.find(name).Value }

// At returns the source position of a setting, or the zero span.
func (s Settings) At(name string) source.Span { return s.find(name).Span }

// Decode stores the settings in the struct that into points to. A setting that the struct lacks, or one of another
// type, is an error: kinds and formats must agree.
func (s Settings) Decode(into any) error {
	// Fields are decoded one by one instead of through a single JSON object: programs are checked far more often than
	// they change, and this dominated the profile.
	v := reflect.ValueOf(into).Elem()
	t := v.Type()
	left := len(s)
	for i, name := range settingNames(t) {
		for j := range s {
			if s[j].Name != name {
				continue
			}
			if err := decodeInto(v.Field(i), s[j].Value); err != nil {
				return err
			}
			left--
		}
	}
	if left == 0 {
		return nil
	}
	unknown := slices.IndexFunc(s, func(one Setting) bool {
		return !slices.ContainsFunc(reflect.VisibleFields(t),
			func(f reflect.StructField) bool { return settingName(f) == one.Name })
	})
	return fmt.Errorf("unknown setting %q", s[unknown].Name)
}

// settingNames returns the JSON names of a struct's fields. They are cached per type, because computing them dominated
// Decode.
func settingNames(t reflect.Type) []string {
	if known, ok := settingsOf.Load(t); ok {
		return known.([]string)
	}
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = settingName(t.Field(i))
	}
	settingsOf.Store(t, names)
	return names
}

var settingsOf sync.Map // reflect.Type → []string

func settingName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// decodeInto decodes a value, with a shortcut for the most common case of unescaped strings.
func decodeInto(field reflect.Value, raw json.RawMessage) error {
	if text, ok := plainText(raw); ok && field.Kind() == reflect.String {
		field.SetString(text)
		return nil
	}
	return decodeStrict(raw, field.Addr().Interface())
}

// plainText returns the content of a JSON string without escapes.
func plainText(raw json.RawMessage) (string, bool) {
	last := len(raw) - 1
	if last < 1 || raw[0] != '"' || raw[last] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return "", false
	}
	return string(raw[1:last]), true
}
