package ir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

// Step is one thing that a block does, and where it goes from there.
type Step struct {
	ID   string `json:"id"`
	Type string `json:"type"` // the format's own word: records and pictures use it
	// Label is what people are shown in the place of an ID that nobody wrote.
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`

	When   *expr.Expr `json:"when,omitempty"` // false: the step is skipped
	Reads  []Ref      `json:"reads,omitempty"`
	Writes []Write    `json:"writes,omitempty"`
	// Result makes what the step gives where its work gives nothing by itself:
	// of a step that holds blocks, of an end, and of a failure. It sees
	// "result" (the branches' results, {"iterations": n} of a loop, what a child
	// gave; of an end what the step before gave), "outcome", and "failure"
	// ({error, class, exit}).
	Result *expr.Expr `json:"result,omitempty"`

	Action Action `json:"-"` // written as {"task": {…}} and so on
	Retry  *Retry `json:"retry,omitempty"`
	// Timeout is of one attempt; 0 means the kind's default. Of a step that holds
	// others it is the time that they may be at work, and wait to try again.
	Timeout Millis `json:"timeout,omitempty"`
	// TimeoutExpr computes the Timeout of a step that holds others, as a text for
	// ParseTimeout, each time that an attempt begins. Tasks compute their own.
	TimeoutExpr *expr.Expr `json:"timeout_expr,omitempty"`
	// SkipOnError makes a failure, once retries are used up, count as skipped.
	SkipOnError bool `json:"skip_on_error,omitempty"`
	// Again says that the step ends as the one before it ended: a failure goes on,
	// also when somebody passes over this step.
	Again bool `json:"again,omitempty"`
	// Fallback names a step of the same block that runs in the place of this
	// one when it failed or its condition was false. What follows then is
	// what would have followed this step, unless the fallback has a jump of
	// its own (an edge that is not Sequential).
	Fallback *Name `json:"fallback,omitempty"`
	// StopWhen is looked at after the writes: true ends the whole program well.
	StopWhen *expr.Expr `json:"stop_when,omitempty"`
	Next     []Edge     `json:"next,omitempty"`

	// Produces are files that must exist in the run folder afterwards.
	Produces []Name `json:"produces,omitempty"`
	// AuditFile is a JSON file of what the step read, did and wrote.
	AuditFile string `json:"audit_file,omitempty"`
	// ReasonOK and ReasonFail are the author's words for how it ended.
	ReasonOK   string `json:"reason_ok,omitempty"`
	ReasonFail string `json:"reason_fail,omitempty"`

	// Implied steps were made by the format's lowering, not written down.
	Implied bool        `json:"implied,omitempty"`
	Span    source.Span `json:"span,omitzero"` // of the ID, or of the whole step when it has none
}

// Title is what people call the step.
func (s *Step) Title() string { return cmp.Or(s.Label, s.ID) }

// Ref is a variable that is read, by its dotted path.
type Ref struct {
	Path string      `json:"path"`
	Span source.Span `json:"span,omitzero"`
	// Optional: nobody minds when it is missing.
	Optional bool `json:"optional,omitempty"`
}

// Write puts the step's result, or one part of it, into a variable.
type Write struct {
	Path string `json:"path"`
	// Part is the key of the result to take; empty takes all of it.
	Part    string  `json:"part,omitempty"`
	Reducer Reducer `json:"reducer,omitempty"` // empty: as the variable is declared, else Set
	// Under is the key that a Merge puts a result under which is not an
	// object with that key; AsList makes a list of its values first.
	Under  string `json:"under,omitempty"`
	AsList bool   `json:"as_list,omitempty"`
	// Bare is the key that a Merge puts a result under which is no object at all.
	Bare string `json:"bare,omitempty"`
	// Always writes what a step left that failed, too.
	Always bool        `json:"always,omitempty"`
	Span   source.Span `json:"span,omitzero"`
}

// Millis is a duration in milliseconds.
type Millis int64

// Duration converts to Go's own.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Words is the duration as people say it: "3 days", "24 h", "1 h 30 min", "1 s 500 ms".
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

// ParseTimeout reads how long the step may take, as a template of it gave it:
// seconds, or a duration.
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
		return 0, fmt.Errorf("the timeout of step %q is %q; it has to be seconds such as 30 or a duration such as 1m30s, above 0", s.ID, text)
	}
	return max(Millis(limit.Milliseconds()), 1), nil
}

// Outcome is how a step ended, as far as control flow cares.
type Outcome string

// The outcomes. Rejected is a gate's "no": not an error, never retried.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"
	Skipped  Outcome = "skipped"
	Rejected Outcome = "rejected"
)

// Edge is one way on from a step.
type Edge struct {
	On    []Outcome  `json:"on"`
	When  *expr.Expr `json:"when,omitempty"`
	To    Target     `json:"to"`
	Label string     `json:"label,omitempty"` // what a picture writes on the arrow
	// Limit is how often the edge may be taken in one activation of its
	// block; 0 is without limit. A used-up edge does not match.
	Limit int `json:"limit,omitempty"`
	// Sequential edges only follow the order of the document; nobody wrote a jump.
	Sequential bool        `json:"sequential,omitempty"`
	Span       source.Span `json:"span,omitzero"`
}

// Exit is a way to leave a block instead of going to a step.
type Exit string

// The exits.
const (
	ExitBlock Exit = "block" // close the block well; in a loop: on to the next iteration
	ExitLoop  Exit = "loop"  // leave the innermost loop
	ExitFail  Exit = "fail"  // close the block as failed, for Reason
)

// Target is where an edge leads: a step of this block or of an enclosing one
// that no Parallel or Call lies between, or an exit.
type Target struct {
	Step   string `json:"step,omitempty"`
	Exit   Exit   `json:"exit,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Backoff is how the delay grows from attempt to attempt.
type Backoff string

// The backoffs. A List takes its delays in order and repeats the last one.
const (
	List        Backoff = "list"
	Constant    Backoff = "constant"
	Linear      Backoff = "linear"
	Exponential Backoff = "exponential"
)

// Retry is how a failed attempt is followed by another.
type Retry struct {
	MaxAttempts int      `json:"max_attempts"` // the first one included
	Backoff     Backoff  `json:"backoff"`
	Delays      []Millis `json:"delays,omitempty"` // List: in order; otherwise the first is the base
	MaxDelay    Millis   `json:"max_delay,omitempty"`
	Multiplier  float64  `json:"multiplier,omitempty"`
	Jitter      float64  `json:"jitter,omitempty"`
	// On limits retries to these error classes; empty means any that can be retried.
	On        []string    `json:"on,omitempty"`
	ExitCodes []int       `json:"exit_codes,omitempty"`
	Span      source.Span `json:"span,omitzero"`
}

// Attempts is how often a step may be started before it has failed.
func (s *Step) Attempts() int {
	if s.Retry == nil || s.Retry.MaxAttempts < 1 {
		return 1
	}
	return s.Retry.MaxAttempts
}

// Task is the leaf work that the step does, by itself or as a part of it (a
// verdict, putting branches together, a last piece of work); nil when there is none.
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

// Action is what a step does. The set is closed.
type Action interface{ actionName() string }

// Task is leaf work: the named step kind does it with its own settings.
type Task struct {
	Kind     string   `json:"kind"`
	Settings Settings `json:"settings,omitempty"`
}

// Route does nothing but choose among its step's edges.
type Route struct{}

// Decider is who settles a gate.
type Decider string

// The deciders.
const (
	Person Decider = "person" // approve or reject
	Event  Decider = "event"  // a signal from outside lets it pass
	Work   Decider = "work"   // Verdict decides: {"approved": true|false, …}
)

// OnTimeout is what a gate does when nobody came.
type OnTimeout string

// The reactions. Notify says so first.
const (
	TimeoutFail     OnTimeout = "fail"
	TimeoutNotify   OnTimeout = "notify_then_fail"
	TimeoutSkip     OnTimeout = "skip"
	TimeoutFallback OnTimeout = "fallback"
)

// Gate waits until somebody or something decides.
type Gate struct {
	Decider   Decider   `json:"decider"`
	Verdict   *Task     `json:"verdict,omitempty"`
	Event     string    `json:"event,omitempty"` // also settles a person's gate, when set
	Timeout   Millis    `json:"timeout,omitempty"`
	OnTimeout OnTimeout `json:"on_timeout,omitempty"`
	// Name is the waitpoint's own name when it has one.
	Name string      `json:"name,omitempty"`
	Span source.Span `json:"span,omitzero"`
}

// Join is when a Parallel is over.
type Join string

// The joins.
const (
	JoinAll    Join = "all"    // all must end well; the first failure cancels the rest
	JoinAny    Join = "any"    // the first that ends well cancels the rest
	JoinSettle Join = "settle" // all run to their end whatever happens, then one failure fails the step
	JoinBest   Join = "best"   // all run to their end, failures are only recorded
)

// Parallel runs branches side by side, each in a scope of its own.
type Parallel struct {
	Branches []Branch `json:"branches,omitempty"`
	// Each fans one block out over the items of a list, instead of Branches.
	Each          *Each `json:"each,omitempty"`
	MaxConcurrent int   `json:"max_concurrent,omitempty"` // 0 is without limit
	Join          Join  `json:"join"`
	// Combine makes the step's result out of the branches' results
	// ({branch, outcome, value} in branch order). Without it the branches'
	// writes are laid over the parent's scope in branch order.
	Combine *Task       `json:"combine,omitempty"`
	Name    string      `json:"name,omitempty"` // of the bundle, when it has one
	Span    source.Span `json:"span,omitzero"`
}

// Branch is one of several blocks that run side by side.
type Branch struct {
	Name   string      `json:"name"`
	Block  BlockID     `json:"block"`
	When   *expr.Expr  `json:"when,omitempty"`
	Budget Budget      `json:"budget,omitzero"`
	Span   source.Span `json:"span,omitzero"`
}

// Each is the items of a fan-out or a loop. A Var below "loop." is kept in the
// loop's own variable, where loops inside see it as their parent's.
type Each struct {
	Items *expr.Expr `json:"items"`
	Var   string     `json:"var"`
	Block BlockID    `json:"block"` // of a fan-out; a Loop has its own
}

// Loop runs its block again and again, one iteration after the other.
type Loop struct {
	Block     BlockID    `json:"block"`
	Each      *Each      `json:"each,omitempty"`       // over a list
	While     *expr.Expr `json:"while,omitempty"`      // before each iteration
	BreakWhen *expr.Expr `json:"break_when,omitempty"` // after each iteration
	Max       int        `json:"max,omitempty"`        // 0: without limit
	MaxExpr   *expr.Expr `json:"max_expr,omitempty"`   // computed when the loop begins; more than Max is a failure
	// FailAtMax makes reaching the limit a failure instead of an end.
	FailAtMax bool        `json:"fail_at_max,omitempty"`
	Span      source.Span `json:"span,omitzero"`
}

// Call runs another program as a child: own scope, own records, the caller's budget.
type Call struct {
	Child  int       `json:"child"` // position in Program.Children
	Inputs []Binding `json:"inputs,omitempty"`
	// PassReads hands the step's reads over as the child's input, by their last segment.
	PassReads bool `json:"pass_reads,omitempty"`
	// Outputs are what the call gives, by name, each seen from inside the
	// child as it ends; without any it gives the child's output.
	Outputs []Binding `json:"outputs,omitempty"`
	// Finish is work on what the child gave, which it passes on: looking after
	// the files that the step declares.
	Finish *Task       `json:"finish,omitempty"`
	Span   source.Span `json:"span,omitzero"`
}

// Binding gives a name a value: an input of a child, or an output.
type Binding struct {
	Name  string      `json:"name"`
	Value *expr.Expr  `json:"value"`
	Span  source.Span `json:"span,omitzero"`
}

// End ends the whole program.
type End struct {
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
	// MessageExpr computes the message; Message is then what to say when it cannot.
	MessageExpr *expr.Expr `json:"message_expr,omitempty"`
	Status      int        `json:"status,omitempty"` // exit code of the author's choice; 0 is none
	// Check is a condition that should hold now; when it does not, the run
	// ends all the same and says so.
	Check *expr.Expr `json:"check,omitempty"`
	// Work makes the final result before the end, when there is any left to do.
	Work *Task `json:"work,omitempty"`
}

func (Task) actionName() string     { return "task" }
func (Route) actionName() string    { return "route" }
func (Gate) actionName() string     { return "gate" }
func (Parallel) actionName() string { return "parallel" }
func (Loop) actionName() string     { return "loop" }
func (Call) actionName() string     { return "call" }
func (End) actionName() string      { return "end" }

// ActionName is the action's one-word name, as JSON has it.
func ActionName(a Action) string {
	if a == nil {
		return ""
	}
	return a.actionName()
}

// Settings is what a Task tells its kind, in the order of the file.
type Settings []Setting

// Setting is one of them.
type Setting struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Span  source.Span     `json:"span,omitzero"`
}

// Put appends a setting; v must be encodable as JSON, which plain data is.
func (s *Settings) Put(name string, v any, at source.Span) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("ir: setting %s: %v", name, err)) // a programming mistake: only plain data goes here
	}
	*s = append(*s, Setting{Name: name, Value: raw, Span: at})
}

// Get returns the raw value of a setting, nil when it is absent.
func (s Settings) Get(name string) json.RawMessage {
	for i := range s {
		if s[i].Name == name {
			return s[i].Value
		}
	}
	return nil
}

// At returns where a setting was written; the zero span when it is absent.
func (s Settings) At(name string) source.Span {
	for i := range s {
		if s[i].Name == name {
			return s[i].Span
		}
	}
	return source.Span{}
}

// Decode fills a struct with the settings. A setting that the struct does not
// have, or of another type, is an error: kinds and formats must agree.
func (s Settings) Decode(into any) error {
	// Done by hand, without the detour through one JSON object: programs are
	// checked far more often than they change, and most of the time went here.
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
		return !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return settingName(f) == one.Name })
	})
	return fmt.Errorf("there is no setting %q", s[unknown].Name)
}

// settingNames are the names of a struct's fields. They are worked out once for
// each type: that took longer than all else.
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

var settingsOf sync.Map // by type

func settingName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// decodeInto decodes a value; plain texts, which are most, at once.
func decodeInto(field reflect.Value, raw json.RawMessage) error {
	if text, ok := plainText(raw); ok && field.Kind() == reflect.String {
		field.SetString(text)
		return nil
	}
	return decodeStrict(raw, field.Addr().Interface())
}

// plainText is the content of a JSON string without escapes.
func plainText(raw json.RawMessage) (string, bool) {
	last := len(raw) - 1
	if last < 1 || raw[0] != '"' || raw[last] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return "", false
	}
	return string(raw[1:last]), true
}
