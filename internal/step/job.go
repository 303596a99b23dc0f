package step

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Runner runs the tasks of one kind. Its methods are called concurrently, also for tasks of one run.
type Runner interface {
	// Name returns the name of the kind.
	Name() string
	// Recovery returns what happens to a task that was started and whose outcome is unknown. history is what it
	// noted: a kind that notes before it acts can tell from it whether it may have acted.
	Recovery(t *ir.Task, history []journal.TaskNoted) Recovery
	// Run executes one attempt. An error is an *Error, or the context's.
	Run(ctx context.Context, job *Job) (Result, error)
}

// WriteAhead is a Runner that has no side effects before its first note is durable, and writes that note at
// once. It may run before its start is durable, so that one write covers the end of the previous task, the
// start and the note.
type WriteAhead interface {
	Runner
	WriteAhead()
}

// Instant is a Runner with tasks that neither wait nor act outside of the run.
// Such tasks still start while the process stops, so that a run whose last
// command has ended is finished and not parked.
type Instant interface {
	Runner
	// Instant reports whether a task is one of them.
	Instant(t *ir.Task) bool
}

// Recovery is what happens to a task that may have acted.
type Recovery = journal.Recovery

// The recoveries.
const (
	Rerun = journal.RecoveryRerun // running it again is harmless
	Ask   = journal.RecoveryAsk   // a person decides
)

// Job is one attempt at a task. Its own fields are plain data, which can be sent
// to another process as JSON. The Host is set where the task runs.
type Job struct {
	Run      journal.RunID // the run, or child run, of the task
	Root     journal.RunID // the top-level run
	Key      string        // of the task in its run, stable across crashes
	Attempt  int           // from 0
	Rerun    int           // how often this attempt was lost before
	Visit    int           // how often the step was entered before, in a cycle of jumps
	Workflow *ir.Program
	Step     *ir.Step
	Task     *ir.Task
	// Reads are the values that the step reads, in the order of the file.
	Reads []Read
	// Branches are the results that a combine task merges, in branch order.
	Branches []Branch
	// Iteration is the index of the innermost loop.
	Iteration int
	// Call is the number of this call, from 1, if the job is a call of another job; otherwise 0.
	Call int
	// History is what earlier executions of this attempt noted.
	History []journal.TaskNoted
	// Untrusted reports whether the run's input comes from outside of the project.
	Untrusted bool
	// CapsMoney reports whether a workflow of the run has a budget of money.
	CapsMoney bool
	// Sources are the files that the run's workflow was read from.
	Sources []ir.File
	// Audits are the audit settings of all workflows of the run, if the step writes an audit file.
	Audits []*ir.Audit

	Host `json:"-"`

	calls int // of Do so far
}

// Host is what a task can use of the process and the machine that it runs on. Engines, tests and previews set
// the fields.
type Host struct {
	Log   Log
	Model provider.Model
	// Sampling is held while a tool waits for a reply of the model, because a task reserves one amount at a time. Nil
	// is for tasks that call one tool at a time.
	Sampling *sync.Mutex
	// Calls lets calls finish after the task was stopped. Nil never interrupts the task.
	Calls *Calls
	// Price returns the price of a model by the name that the agent gives it;
	// false if the price is unknown. Nil knows no prices.
	Price   func(model string) (price.Price, bool)
	Tools   tool.Set
	Machine Machine // runs commands
	// Sandbox returns the sandbox of commands; nil runs them unconfined.
	Sandbox func() (*process.Sandbox, error)
	// Limits bounds the resources that the commands of the workflow use.
	Limits process.Limits
	// MayRunCommands reports whether a person has consented to the commands of the workflow.
	MayRunCommands bool
	// Consents reports whether naming a file is consent to the commands in it.
	Consents func(path string, content []byte) bool
	// RecordWrite records a content before the run writes it into the project.
	RecordWrite func(content []byte) error
	// Dir is the run's folder, the default working folder of commands. Most runs
	// need none: MakeDir creates it.
	Dir     string
	Project string // folder of the project
	// RecordStream makes replies and the output of commands be noted as they arrive.
	RecordStream bool
	// Simulated reports whether nothing real is started.
	Simulated bool
	// Secrets masks what people see.
	Secrets *secret.Registry
	// Draft generates a draft of a file by the named rules, from the inputs of a step; "" without such rules. fill
	// replaces placeholders. Nil generates none.
	Draft func(rules string, fill func(string) string, inputs []string) string
	// Runners returns the runner of a kind, for the calls of Do.
	Runners func(kind string) Runner
	// Kinds are the kinds of the workflow's steps, whose results simulations vary. Nil varies none.
	Kinds stepkind.Set
}

// Agent returns an agent of the workflow.
func (j *Job) Agent(id string) (*ir.Agent, error) {
	if a := j.Workflow.Agent(id); a != nil {
		return a, nil
	}
	return nil, Errorf(ir.ClassMissing, "step %q needs the agent %q, which does not exist", j.Step.ID, id)
}

// TraceParent returns the W3C traceparent for what the task calls.
func (j *Job) TraceParent() string { return journal.TraceParent(j.Root, j.Run) }

// MakeDir creates the run's folder, and the folder of all runs, if they do not exist.
func (j *Job) MakeDir() error {
	if j.Dir == "" {
		return nil
	}
	runs, id := filepath.Split(j.Dir)
	storage, folder := filepath.Split(filepath.Clean(runs))
	if err := protected.MkdirIn(storage, filepath.Join(folder, id)); err != nil {
		return Errorf(ir.ClassMissing, "cannot create the run's folder: %v", err)
	}
	return nil
}

// Consented returns an error if no person has consented to the commands of the workflow as they are now.
func (j *Job) Consented() error {
	if j.MayRunCommands {
		return nil
	}
	return Errorf(ir.ClassDenied, "step %q of %q runs a command, which needs your consent: run \"espalier trust\", "+
		"or start the run with --allow-shell", j.Step.ID, j.Workflow.Name)
}

// ApplySandbox prepares a command of the workflow to be run. It fails without a
// person's consent to commands, and when the job has a sandbox that cannot be
// set up. In a sandbox, the command can change the run's folder and the given
// paths.
func (j *Job) ApplySandbox(c *process.Command, writes ...string) error {
	if err := j.Consented(); err != nil {
		return err
	}
	c.Limits = j.Limits
	if j.Sandbox == nil {
		return nil
	}
	box, err := j.Sandbox()
	if err != nil {
		return Errorf(ir.ClassMissing, "step %q must run its command in a sandbox: %v", j.Step.ID, err)
	}
	if err := j.MakeDir(); err != nil {
		return err
	}
	box = box.For(j.Dir)
	box.Write = append(box.Write, writes...)
	if !box.Sees(c.Dir) {
		return Errorf(ir.ClassDenied, "step %q runs in %s, which is outside of the project and of the sandbox; "+
			"\"allow: {paths: [%s]}\" in the configuration allows it", j.Step.ID, c.Dir, c.Dir)
	}
	c.Sandbox = box
	return nil
}

// ProtectedFiles returns the files that the run must not change: those of its own
// workflow, and those that consent to commands.
func (j *Job) ProtectedFiles() protected.Files {
	out := protected.Files{Consents: j.Consents, Record: j.RecordWrite}
	out.Sums = xslices.Map(j.Sources, func(f ir.File) string { return f.SHA256 })
	return out
}

// TempDir returns the folder for a temporary file with the given text. A text
// with a secret does not go into the run's folder, where a crash would leave it,
// but to where the system keeps files in memory, if it has such a folder.
func (j *Job) TempDir(text string) (string, error) {
	if j.Secrets.Show(text) == text {
		return j.Dir, j.MakeDir()
	}
	const inMemory = "/dev/shm"
	if info, err := os.Stat(inMemory); err == nil && info.IsDir() {
		return inMemory, nil
	}
	return os.TempDir(), nil
}

// Read is one value that a step reads.
type Read struct {
	Path    string
	Value   json.RawMessage
	Missing bool // no step has written it; the value is null
}

// Branch is the result of one branch of a parallel step.
type Branch struct {
	Name    string
	Outcome ir.Outcome
	Error   string
	Value   json.RawMessage
	Used    journal.Usage
	Run     journal.RunID // a child run of its own, if it had one
}

// Log makes the notes of a task durable and reserves budget for it. The engine implements it. Tools of one turn call it
// concurrently, except that only one reservation may be requested at a time (Host.Sampling). After an error of Note,
// the task has to end: what it does from then on is not recorded.
type Log interface {
	// Note returns when the notes are durable. A note that settles a reservation
	// carries the usage.
	Note(ctx context.Context, notes ...Note) error
	// Reserve returns when the amount is reserved, or with an *Error of class BUDGET if it never can be. notes
	// become durable with it.
	Reserve(ctx context.Context, amount journal.Usage, notes ...Note) (Reservation, error)
	// ReserveUpTo is Reserve for a call whose reply may be shorter: if the budget
	// is too small and waiting does not help, it grants the output tokens that are
	// left, provided that they are at least least.
	ReserveUpTo(ctx context.Context, most journal.Usage, least int64, notes ...Note) (Reservation, journal.Usage, error)
}

// Reservation is a number that a note settles; 0 is none. A task numbers its reservations from 1, over all of its
// executions.
type Reservation int

// Note is something that happened inside a task. Notes are what a task continues from after a crash, so Data must
// contain whatever cannot be computed again.
type Note struct {
	Kind    string
	Data    any           // encoded as JSON
	Settles Reservation   // the reservation that ends with this note; 0 for none
	Usage   journal.Usage // what was really used, instead of what was reserved
}

// Result is the result of a task. Of a failed task, only Usage and Notes count.
type Result struct {
	Value json.RawMessage
	// Notes are made durable together with the result, without a write of their
	// own.
	Notes []Note
	// Usage is the usage that no note has settled.
	Usage journal.Usage
}

// Error is a failure of a task, with the class that retries look at.
type Error struct {
	Class   ir.Class
	Message string
	Exit    int // of a command
	// Value is a result despite the failure, for steps that keep it.
	Value json.RawMessage
}

func (e *Error) Error() string { return e.Message }

// PostponedError is the error of a task that has to wait. Its notes are kept, and the task continues from them
// afterwards.
type PostponedError struct {
	After time.Duration
	Why   string
}

func (l *PostponedError) Error() string { return l.Why }

// ApprovalRequired is the error of a task that needs a person's answer to continue. Its notes are kept; in the
// next execution, they include the answer. Shows has no values of secrets.
type ApprovalRequired struct {
	Call   string // key of the call that it is about
	Shows  map[string]json.RawMessage
	Within time.Duration // 0 means no timeout
}

func (q *ApprovalRequired) Error() string { return "approval required for " + q.Call }

// Errorf returns an Error with a formatted message.
func Errorf(class ir.Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

// NoteCount returns how many notes of a kind earlier executions of this attempt wrote.
func (j *Job) NoteCount(kind string) int {
	n := 0
	for _, note := range j.History {
		if note.Kind == kind {
			n++
		}
	}
	return n
}

// Object returns the reads as one JSON object, by the last part of their paths.
func (j *Job) Object() map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(j.Reads))
	for _, r := range j.Reads {
		out[LastSegment(r.Path)] = r.Value
	}
	return out
}

// LastSegment returns the last segment of a path, such as "title" of "state.report.title".
func LastSegment(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return path
}
