package api

import (
	"encoding/json"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Run is a run in a list.
type Run struct {
	ID         string          `json:"run_id"`
	Workflow   string          `json:"workflow" doc:"Name of the workflow"`
	Format     string          `json:"format,omitempty"`
	State      journal.State   `json:"state" enum:"queued,running,waiting,sleeping,paused,interrupted,budget,unknown,finished"`
	Outcome    journal.Outcome `json:"outcome,omitempty" doc:"Of a finished run: ok, failed, rejected or cancelled"`
	Reason     string          `json:"reason,omitempty" doc:"Why the run ended as it did"`
	Error      string          `json:"error,omitempty"`
	WaitingFor string          `json:"waiting_for,omitempty" doc:"What a waiting run waits for"`
	Started    time.Time       `json:"started"`
	Updated    time.Time       `json:"updated"`
	Wakes      *time.Time      `json:"wakes,omitempty" doc:"When a timer of the run fires next"`
	Driver
	Parent string `json:"parent_run_id,omitempty"`
	Root   string `json:"root_run_id,omitempty"`
	Seq    int64  `json:"seq" doc:"How many facts the journal has of the run"`
	Queue  *Queue `json:"queue,omitempty" doc:"Why a queued run waits: a concurrency limit, or labels of workers"`
}

// Driver is the process that drives a run.
type Driver struct {
	Name     string     `json:"driver,omitempty" doc:"The process that drives the run"`
	Since    *time.Time `json:"driver_since,omitempty" doc:"When this process started"`
	Stopping bool       `json:"driver_stopping,omitempty" doc:"It finishes the steps that are running, and starts no others"`
}

// newDriver returns the form of a driver; the zero value if there is none.
func newDriver(d *app.Driver) (out Driver) {
	if d == nil {
		return out
	}
	out.Name, out.Stopping = d.Name, d.Stopping
	if !d.Since.IsZero() {
		out.Since = new(d.Since.UTC())
	}
	return out
}

func (d *Driver) app() *app.Driver {
	if d.Name == "" {
		return nil
	}
	out := &app.Driver{Name: d.Name, Stopping: d.Stopping}
	if d.Since != nil {
		out.Since = *d.Since
	}
	return out
}

// Queue is the place of a run among those that wait because of a concurrency limit.
type Queue struct {
	Position int      `json:"position" doc:"1 is next; 0 if the run waits for labels"`
	Limit    string   `json:"limit,omitempty" doc:"Name of the limit in espalier.yaml; absent if it is the turn of the run"`
	Provider string   `json:"provider,omitempty" doc:"Provider of the model call that waits; absent if the run itself waits"`
	Labels   []string `json:"labels,omitempty" doc:"Labels that the run needs and no living worker has"`
}

// NewRun returns the form of a run. Times are those of the journal, in milliseconds.
func NewRun(r *app.Run) Run {
	out := Run{
		ID: string(r.ID), Workflow: r.Name, Format: r.Format, State: r.State(), Outcome: r.Outcome,
		Reason: r.Reason, Error: r.Error, WaitingFor: r.Waiting.Label(),
		Started: r.Started.Time(), Updated: r.Updated.Time(),
		Driver: newDriver(r.Driver), Parent: string(r.Parent), Root: string(r.Root), Seq: int64(r.Seq),
	}
	if r.Wake != 0 && out.State != journal.StateFinished {
		out.Wakes = new(r.Wake.Time())
	}
	if r.Queue != nil {
		out.Queue = new(Queue(*r.Queue))
	}
	return out
}

// Status is a run with everything that is going on in it.
type Status struct {
	Run
	Steps     []string        `json:"steps,omitempty" doc:"Steps that are being executed"`
	Gates     []Gate          `json:"gates,omitempty"`
	Used      Usage           `json:"used"`
	Reserved  Usage           `json:"reserved" doc:"Set aside for calls that are under way"`
	Limits    Limits          `json:"limits"`
	Simulated journal.Offline `json:"simulated,omitempty" doc:"simulated or scripted, if replies are not from real models"`
	Untrusted bool            `json:"untrusted,omitempty" doc:"The input comes from outside of the project: an event, a webhook or a file"`
	Held      bool            `json:"held,omitempty" doc:"A person has paused the run; it may also wait at a gate"`
}

// NewStatus returns the form of a status.
func NewStatus(s *app.Status) Status {
	return Status{
		Run: NewRun(&s.Run), Steps: s.Step, Gates: xslices.Map(s.Gates, NewGate), Used: newUsage(s.Used),
		Reserved: newUsage(s.Held), Simulated: s.Offline, Untrusted: s.Untrusted, Held: s.Paused,
		Limits: Limits{
			Steps: s.Limits.Steps, ToolCalls: s.Limits.ToolCalls, Tokens: s.Limits.Tokens,
			ActiveSeconds: s.Limits.ActiveSeconds, Dollars: dollars(s.Limits.MicroDollars),
		},
	}
}

// ListedRun is a run in a list, with what it has used.
type ListedRun struct {
	Run
	Millis       *int64          `json:"duration_ms,omitempty" doc:"Absent if it is not known: the run is queued or interrupted"`
	Dollars      *float64        `json:"dollars,omitempty" doc:"Absent for a child run: its parent has it"`
	MicroDollars *int64          `json:"micro_dollars,omitempty" doc:"Millionths of a dollar, exactly"`
	Simulated    journal.Offline `json:"simulated,omitempty" doc:"simulated or scripted, if replies are not from real models"`
}

// NewListedRun returns the form of a run in a list. The status is that of its root; nil if it is not known.
func NewListedRun(r *app.Run, root *app.Status, now time.Time) ListedRun {
	out := ListedRun{Run: NewRun(r)}
	end := r.Updated.Time()
	if out.State == journal.StateRunning {
		end = now
	}
	// The process of an interrupted run may have worked for any time after the last event.
	if out.State != journal.StateInterrupted && out.State != journal.StateQueued {
		out.Millis = new(max(0, end.Sub(r.Started.Time()).Milliseconds()))
	}
	if root == nil {
		return out
	}
	out.Simulated = root.Offline
	if r.Root == "" {
		out.MicroDollars, out.Dollars = new(root.Used.MicroDollars), dollars(&root.Used.MicroDollars)
	}
	return out
}

// Usage is an amount of steps, calls, tokens and money that a run has used or reserved.
type Usage struct {
	Steps        int64   `json:"steps"`
	ModelCalls   int64   `json:"model_calls"`
	ToolCalls    int64   `json:"tool_calls"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Dollars      float64 `json:"dollars"`
	MicroDollars int64   `json:"micro_dollars" doc:"Millionths of a dollar, exactly"`
	// Lost is the part of it that was charged for model calls without a reply and tool calls without a result.
	Lost *journal.Lost `json:"lost,omitempty" doc:"Charged for calls without a reply or a result"`
}

func newUsage(u journal.Usage) Usage {
	out := Usage{
		Steps: u.Steps, ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls, InputTokens: u.InputTokens,
		OutputTokens: u.OutputTokens, Dollars: float64(u.MicroDollars) / 1e6, MicroDollars: u.MicroDollars,
	}
	if u.Lost != (journal.Lost{}) {
		out.Lost = &u.Lost
	}
	return out
}

// Limits are the budgets of a run. A budget that is absent is unlimited. Dollars are millionths divided
// by 1,000,000; MicroDollars restores them.
type Limits struct {
	Steps         *int64   `json:"steps,omitempty"`
	ToolCalls     *int64   `json:"tool_calls,omitempty"`
	Tokens        *int64   `json:"tokens,omitempty"`
	ActiveSeconds *int64   `json:"active_seconds,omitempty"`
	Dollars       *float64 `json:"dollars,omitempty"`
}

func dollars(micro *int64) *float64 {
	if micro == nil {
		return nil
	}
	return new(float64(*micro) / 1e6)
}

// Gate is something that a run asks for.
type Gate struct {
	Step        string                     `json:"step,omitempty"`
	Kind        journal.AskKind            `json:"kind" enum:"approval,tool_approval,event,input,unknown_outcome,budget"`
	Description string                     `json:"description,omitempty"`
	Event       string                     `json:"event,omitempty" doc:"Name of the event that an event or input gate waits for"`
	Shows       map[string]json.RawMessage `json:"shows,omitempty" doc:"What is decided on"`
	Order       []string                   `json:"order,omitempty" doc:"Names of what is decided on, as the file lists them"`
	Digest      string                     `json:"digest,omitempty" doc:"Binds a decision to what is shown"`
	Until       string                     `json:"until,omitempty" doc:"When the gate expires"`
	Key         string                     `json:"key,omitempty" doc:"Idempotency key of a step with an unknown outcome"`
	Files       map[string]string          `json:"files,omitempty" doc:"Paths of the files that hold what is decided on, by its names"`
	Approvers   *Approvers                 `json:"approvers,omitempty" doc:"Who may decide, if the gate limits it"`
}

// Approvers are the people who may decide a gate, and those who have approved it.
type Approvers struct {
	Roles       []string   `json:"roles,omitempty" doc:"Roles that may decide; absent if anyone who may decide gates may"`
	Required    int        `json:"required" doc:"Number of people who must approve"`
	Missing     int        `json:"missing" doc:"Number of approvals that are missing"`
	FourEyes    bool       `json:"four_eyes,omitempty" doc:"The person who started the run may not decide"`
	Starter     string     `json:"starter,omitempty" doc:"With four_eyes: the person who started the run"`
	Approvals   []Approved `json:"approvals,omitempty"`
	Escalates   *time.Time `json:"escalates,omitempty" doc:"When more people may decide"`
	EscalatesTo []string   `json:"escalates_to,omitempty" doc:"Roles that may decide then"`
	Escalated   bool       `json:"escalated,omitempty" doc:"They may decide now"`
}

// Approved is the approval of one of several people.
type Approved struct {
	User string    `json:"user,omitempty"`
	As   string    `json:"as,omitempty" doc:"Who the user claims to be"`
	Note string    `json:"note,omitempty"`
	At   time.Time `json:"at"`
}

func newApprovers(a *app.Approvers) *Approvers {
	if a == nil {
		return nil
	}
	out := &Approvers{
		Roles: a.Roles, Required: a.Required, Missing: a.Missing(), FourEyes: a.FourEyes, Starter: a.Starter,
		EscalatesTo: a.EscalatesTo, Escalated: a.Escalated,
	}
	if a.Escalates != 0 {
		out.Escalates = new(a.Escalates.Time())
	}
	for _, one := range a.Approvals {
		out.Approvals = append(out.Approvals, Approved{
			User: one.By.User, As: one.By.As, Note: one.Note, At: one.At.Time(),
		})
	}
	return out
}

// NewGate returns the form of a gate.
func NewGate(g app.Gate) Gate {
	return Gate{
		Step: g.Step, Kind: g.Kind, Description: g.Description, Event: g.Event, Shows: g.Shows, Order: g.Order,
		Digest: g.Digest, Until: g.Until, Key: g.Key, Files: g.Files, Approvers: newApprovers(g.Approvers),
	}
}

// Workflow is a workflow in a list.
type Workflow struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	Format      string `json:"format"`
	Level       string `json:"level,omitempty"`
	Description string `json:"description,omitempty"`
	Errors      int    `json:"errors"`
	Warnings    int    `json:"warnings"`
	ShadowedBy  string `json:"shadowed_by,omitempty" doc:"Path of the workflow that is used instead"`
}

// NewWorkflow returns the form of a workflow.
func NewWorkflow(w app.Workflow) Workflow {
	return Workflow{
		Name: w.Name, Path: w.Path, Format: w.Format, Level: w.Level, Description: w.Description,
		Errors: w.Problems["errors"], Warnings: w.Problems["warnings"], ShadowedBy: w.ShadowedBy,
	}
}

// Trigger is a way to start runs of a workflow without a person.
type Trigger struct {
	Kind     string `json:"kind"`
	Schedule string `json:"schedule,omitempty"`
	Timezone string `json:"timezone,omitempty"`
	Event    string `json:"event,omitempty"`
	// Commands are the names of the commands that start the workflow.
	Commands []string `json:"commands,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
}

// Triggers returns the forms of the triggers of a program.
func Triggers(p *ir.Program) []Trigger {
	return xslices.Map(p.Triggers, newTrigger)
}

func newTrigger(t ir.Trigger) Trigger {
	out := Trigger{Kind: string(t.Kind), Schedule: t.Schedule, Timezone: t.Timezone, Event: t.Event, Disabled: t.Off}
	if t.Kind == ir.OnCommand {
		out.Commands = t.Names
	}
	return out
}

// Execution is one execution of a step.
type Execution struct {
	app.Execution
	Decision *Decision `json:"decision,omitempty"`
	Used     Usage     `json:"used"`
}

// Decision is the decision about a gate.
type Decision struct {
	User string `json:"user,omitempty"`
	As   string `json:"as,omitempty" doc:"Who the user claims to be"`
	// Established is how a server has established the user.
	Established string `json:"established,omitempty" doc:"How a server has established the user; absent for the account of a process"`

	Method journal.Method `json:"method"`
	Note   string         `json:"note,omitempty"`
	Digest string         `json:"digest,omitempty"`
}

// NewExecution returns the form of an execution.
func NewExecution(e *app.Execution) Execution {
	out := Execution{Execution: *e, Used: newUsage(e.Used)}
	if d := e.Decided; d != nil {
		out.Decision = &Decision{
			User: d.By.User, As: d.By.As, Established: d.By.Method, Method: d.Method, Note: d.Note, Digest: d.Digest,
		}
	}
	return out
}

// Executions are the executions of one step of a run, in order.
type Executions struct {
	Run        string      `json:"run_id"`
	Executions []Execution `json:"executions"`
}

// NewExecutions returns the form of executions.
func NewExecutions(run journal.RunID, list []*app.Execution) Executions {
	out := Executions{Run: string(run), Executions: make([]Execution, len(list))}
	for i, e := range list {
		out.Executions[i] = NewExecution(e)
	}
	return out
}

// TriggerStatus is a trigger with its state.
type TriggerStatus struct {
	ID       string `json:"id" doc:"Path of the workflow and name of the trigger: flows/report.md#schedule"`
	Workflow string `json:"workflow"`
	Path     string `json:"path"`
	Trigger
	Overlap string   `json:"overlap,omitempty" doc:"What happens if the previous run has not finished"`
	CatchUp string   `json:"catch_up,omitempty" doc:"How late a scheduled run may start"`
	Jitter  string   `json:"jitter,omitempty" doc:"Scheduled runs are delayed by less than this"`
	Paused  bool     `json:"paused,omitempty"`
	Next    string   `json:"next,omitempty" doc:"When the schedule fires next"`
	Queue   []string `json:"queue,omitempty" doc:"Scheduled times whose runs start when the previous run has finished"`
	Missed  []Missed `json:"missed,omitempty" doc:"The latest firings that started no run, oldest first"`
	Active  []string `json:"active,omitempty" doc:"Unfinished runs"`
	Problem string   `json:"problem,omitempty" doc:"Why the workflow cannot be read; the trigger is that of its last valid version"`
}

// Missed is a firing, or several of one reason, that started no run.
type Missed struct {
	At     string `json:"at"`
	Until  string `json:"until,omitempty" doc:"The last one, if there are several"`
	Reason string `json:"reason"`
}

// Worker is a process that uses the store of the project.
type Worker struct {
	ID       string   `json:"id"`
	Host     string   `json:"host"`
	PID      int      `json:"pid"`
	Command  string   `json:"command"`
	Version  string   `json:"version,omitempty"`
	Works    bool     `json:"works" doc:"It drives every run of the project"`
	Labels   []string `json:"labels,omitempty" doc:"It drives runs of workflows that need these"`
	Since    string   `json:"since"`
	LastSeen string   `json:"last_seen,omitempty" doc:"The time of the last heartbeat, if the store keeps leases"`
	Runs     int      `json:"runs" doc:"Unfinished runs that it owns"`
	Draining bool     `json:"draining"`
}

// NewWorker returns the form of a worker.
func NewWorker(w *app.Worker) Worker {
	return Worker{
		ID: string(w.ID), Host: w.Host, PID: w.PID, Command: w.Command, Version: w.Version, Works: w.Works,
		Labels: w.Labels, Since: timeText(w.Since), LastSeen: timeText(w.Seen), Runs: w.Runs, Draining: w.Draining,
	}
}

// NewTrigger returns the form of a trigger.
func NewTrigger(t *app.Trigger) TriggerStatus {
	out := TriggerStatus{
		ID: t.ID, Workflow: t.Workflow, Path: t.Path, Overlap: string(t.Overlap), Paused: t.Paused, Problem: t.Problem,
		Trigger: newTrigger(t.Trigger), Next: timeText(t.Next), Queue: xslices.Map(t.Queue, timeText),
		Active: xslices.Map(t.Active, func(id journal.RunID) string { return string(id) }),
	}
	if t.Kind == ir.OnSchedule && !t.Off {
		out.CatchUp = t.CatchUp.String()
	}
	if t.Jitter > 0 {
		out.Jitter = t.Jitter.String()
	}
	for _, m := range t.Missed {
		out.Missed = append(out.Missed, Missed{At: timeText(m.At), Until: timeText(m.Until), Reason: m.Reason})
	}
	return out
}

// timeText formats t in RFC 3339; it returns "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
