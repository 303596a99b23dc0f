package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
)

// ErrorKind classifies errors for callers: exit codes of the command line, status codes of a server.
type ErrorKind int

// The kinds of errors.
const (
	Internal          ErrorKind = iota // unexpected, such as a file that cannot be written
	InvalidRequest                     // the request contradicts itself, the workflow or the run
	NotFound                           // no such workflow, run or step
	InvalidWorkflow                    // see Error.Diagnostics
	NotReady                           // see Error.Missing and Error.Commands; nothing was started
	Refused                            // the run does not accept the message; Error.Message has the reason
	Conflict                           // the run exists, has finished, or belongs to another process
	StoreUnavailable                   // the storage cannot be opened, or its server cannot be reached
	StoreDamaged                       // the journal is damaged or is not a journal
	StoreFull                          // the disk is full
	StoreLost                          // the disk did not keep what was written
	Interrupted                        // the App is closing
	EngineUnavailable                  // the server that drives runs cannot be reached or used
)

// Reason distinguishes errors of one kind, so that a caller can add advice in its own terms.
type Reason string

// The reasons that callers distinguish.
const (
	NoWorkflow       Reason = "no-workflow"       // Error.Name; Error.Advice suggests a similar name, if any
	NoRuns           Reason = "no-runs"           // the project has no runs; Error.Names are projects that have some
	NoRun            Reason = "no-run"            // Error.Name; Error.Names are other projects with runs
	NoRunName        Reason = "no-run-name"       // the name of the run is empty
	AmbiguousRun     Reason = "ambiguous-run"     // Error.Names are the candidates
	NoTrigger        Reason = "no-trigger"        // Error.Name; Error.Names are the triggers that fit
	AmbiguousTrigger Reason = "ambiguous-trigger" // Error.Names are the candidates
	EventUnderWay    Reason = "event-under-way"   // another request delivers the same event
	NotOnDemand      Reason = "not-on-demand"     // the workflow must not be started by hand
	UnnamedInput     Reason = "unnamed-input"     // Error.Name is the value; Error.Names are the declared inputs
	InvalidInput     Reason = "invalid-input"     // of the workflow Error.Name; Error.Names has one line per mismatch
	UndeclaredInput  Reason = "undeclared-input"  // as InvalidInput; some inputs are not declared
	MissingSecret    Reason = "missing-secret"    // a secret in the input cannot be read
	AsksNoModel      Reason = "asks-no-model"     // the step has no request to a model
	InvalidScript    Reason = "invalid-script"    // the file of scripted replies has errors
	InvalidConfig    Reason = "invalid-config"    // Error.Diagnostics; Error.Name is the file
	MissingModels    Reason = "missing-models"    // Error.Missing
	MissingTools     Reason = "missing-tools"     // Error.Missing
	MissingBoth      Reason = "missing-both"      // Error.Missing
	MissingLabels    Reason = "missing-labels"    // Error.Names; Error.Name is the workflow
	NeedsConsent     Reason = "needs-consent"     // Error.Commands
	PythonSimulated  Reason = "python-simulated"  // a simulated run starts no python3
	NoSandbox        Reason = "no-sandbox"        // python3 cannot be confined
	NotResumable     Reason = "not-resumable"     // the workflow forbids it, or the run was imported
	NoEarlierStep    Reason = "no-earlier-step"   // "previous" of the first step
	InnerStep        Reason = "inner-step"        // Error.Name is the step of the main line that contains it
	AlreadyDecided   Reason = "already-decided"   // Error.Name is the gate
	GateApproved     Reason = "gate-approved"     // it would change what was approved at the step Error.Name
	OutcomeUnknown   Reason = "outcome-unknown"   // the decision does not fit the unknown outcome of step Error.Name
	ClaimedIdentity  Reason = "claimed-identity"  // the gate needs people with credentials of the server
	NotReached       Reason = "not-reached"       // the run has not come to the step
	RunFinished      Reason = "run-finished"      // the run accepts no more messages
	RunUnfinished    Reason = "run-unfinished"    // only finished runs can be removed
	NotFinished      Reason = "not-finished"      // variables are set only when a finished run is continued
	RunExists        Reason = "run-exists"        // the run id is taken
	RunOwned         Reason = "run-owned"         // another process drives the run
	NoTranscript     Reason = "no-transcript"     // the run has none
	GenerationFailed Reason = "generation-failed" // Error.Name is the folder of what was generated
	NoGeneration     Reason = "no-generation"     // nothing to continue or to promote
	NotPromotable    Reason = "not-promotable"    // the generation has not passed its checks
	WasEdited        Reason = "was-edited"        // the promoted workflow has been edited
	Incomplete       Reason = "incomplete"        // the generation lacks files
	NoScript         Reason = "no-script"         // the workflow's own script is missing or cannot run
	ScriptConsent    Reason = "script-consent"    // no person has consented to the workflow's own script
	NoDatabase       Reason = "no-database"       // no PostgreSQL database is configured
	NoWorker         Reason = "no-worker"         // Error.Name
	NotWorker        Reason = "not-worker"        // the process drives runs, but cannot be drained
	NotOffline       Reason = "not-offline"       // only people approve gates of a run that is not simulated
)

// Error is the one form of errors that operations return for reasons that a caller can act on.
type Error struct {
	Kind    ErrorKind
	Reason  Reason // empty when the kind says enough
	Message string // lower case, without a final period
	Advice  string // what to do; may be empty. Entry points add what depends on them, by Reason.

	Name  string   // what the error is about; see the reasons
	Names []string // candidates or details; see the reasons
	Run   journal.RunID

	Diagnostics diag.List
	Files       source.Set // for Diagnostics
	Missing     []MissingDependency
	Commands    []Command
	Changed     []string // files that have changed since a person approved Commands
	// Startable reports that the run could start without the missing models and fail where it needs them.
	Startable bool

	Err error // the cause, if any
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fail returns an Error with a formatted message.
func fail(kind ErrorKind, reason Reason, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// advise adds what to do, and returns the same error.
func (e *Error) advise(format string, args ...any) *Error {
	e.Advice = fmt.Sprintf(format, args...)
	return e
}

// AsError returns the *Error that an error is. An error of the store becomes one; nil is an unexpected error.
func AsError(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if kind := storeKind(err); kind != Internal {
		return &Error{Kind: kind, Message: err.Error(), Advice: storeAdvice(err), Err: err}
	}
	return nil
}

// runError converts an error of the engine or the store. An *Error stays as it is.
func (env *environment) runError(id journal.RunID, err error) error {
	var (
		own    *Error
		owned  *journal.OwnedError
		reason *plan.Refusal
		gone   *journal.GoneError
	)
	out := &Error{Kind: Internal, Run: id, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		about := *own // which other operations may share
		about.Run = cmp.Or(own.Run, id)
		return &about
	case errors.As(err, &owned):
		out.Kind, out.Reason = Conflict, RunOwned
		out.Message = "another process is driving this run"
		if owned.Owner == journal.Temporal && !env.OnTemporal() {
			out.Message = "Temporal drives this run"
			out.Advice = "Set \"engine: temporal\" in the configuration, as it was when the run started."
		}
		if owned.Place != "" {
			out.Message += fmt.Sprintf(", with the server, namespace and task queue %s of Temporal", owned.Place)
			out.Advice = "Use these, or stop that process to move the run to those of this project."
		}
		if driver := env.describeOwner(owned.Owner); !driver.Since.IsZero() {
			out.Message += ": " + driver.String()
		}
	case errors.As(err, &reason):
		out.Kind, out.Message = Refused, reason.Why
		if reason.Code == plan.Approved {
			out.Reason, out.Name = GateApproved, cmp.Or(reason.Step, "STEP")
		}
		if reason.Code == plan.OutcomeUnknown {
			out.Reason, out.Name = OutcomeUnknown, cmp.Or(reason.Step, "STEP")
		}
	case errors.Is(err, engine.ErrNotTemporal):
		out.Kind, out.Reason, out.Message = Conflict, RunOwned, err.Error()
		out.Advice = "Use the embedded engine for it, as when the run started: leave out \"engine: temporal\" in the " +
			"configuration, and do not set " + registry.TemporalVariable + "."
	case errors.Is(err, engine.ErrNotReached):
		out.Kind, out.Reason = InvalidRequest, NotReached
	case errors.Is(err, journal.ErrFinished):
		out.Kind, out.Reason, out.Message = Conflict, RunFinished, "the run has finished"
	case errors.Is(err, journal.ErrUnfinished):
		out.Kind, out.Reason, out.Message = Conflict, RunUnfinished, fmt.Sprintf("run %s has not finished", id.Short())
	case errors.Is(err, journal.ErrExists):
		out.Kind, out.Reason, out.Message = Conflict, RunExists, fmt.Sprintf("run %s already exists", id)
	case errors.Is(err, journal.ErrUnknownRun):
		out.Kind, out.Reason, out.Name = NotFound, NoRun, id.Short()
		out.Message = fmt.Sprintf("run %s does not exist: it may have been removed", id.Short())
	case errors.Is(err, engine.ErrClosed):
		out.Kind, out.Message = Interrupted, "interrupted"
	default:
		out.Kind = storeKind(err)
		if errors.As(err, &gone) {
			out.Message = gone.Error()
			out.Advice = "Restore the folder from a backup, or start a new run."
		}
		if remote, ok := errors.AsType[*engine.UnavailableError](err); ok {
			out.Advice = remote.Help
		}
		if out.Kind == StoreDamaged {
			out.Advice = storeAdvice(err)
		}
	}
	out.Message = cmp.Or(out.Message, err.Error())
	return out
}

// startError converts the error of a run that could not be started. It is not about a run if there is none.
func (env *environment) startError(ctx context.Context, id journal.RunID, err error) error {
	err = env.runError(id, err)
	own, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	if _, missing := env.Store.Entry(ctx, id); errors.Is(missing, journal.ErrUnknownRun) {
		about := *own
		about.Run = ""
		if storeKind(own.Err) != Internal {
			about.Advice = cmp.Or(own.Advice, storeAdvice(own.Err))
		}
		return &about
	}
	return err
}

// Outage returns what people learn about a server that cannot be used, without names of hosts and users, and what to do
// if it is not known already. It is empty for other errors.
func Outage(err error) (what, help string) {
	if remote, ok := errors.AsType[*engine.UnavailableError](err); ok {
		return remote.What, remote.Help
	}
	if store, ok := errors.AsType[*journal.UnavailableError](err); ok {
		return store.What, ""
	}
	return "", ""
}

// storeKind classifies an error of the store or of the server that drives runs; Internal if it is neither.
func storeKind(err error) ErrorKind {
	_, remote := errors.AsType[*engine.UnavailableError](err)
	switch {
	case remote:
		return EngineUnavailable
	case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrNotJournal), errors.Is(err, journal.ErrBusy):
		return StoreDamaged
	case errors.Is(err, journal.ErrNotKept):
		return StoreLost
	case errors.Is(err, journal.ErrFull), errors.Is(err, syscall.ENOSPC):
		return StoreFull
	case errors.Is(err, journal.ErrUnavailable), errors.Is(err, journal.ErrUnsuitable):
		return StoreUnavailable
	}
	return Internal
}

// storeAdvice returns what to do about a storage that cannot be used.
func storeAdvice(err error) string {
	if foreign, ok := errors.AsType[*private.Error](err); ok {
		return foreign.Help
	}
	if _, ok := errors.AsType[registry.StoreError](err); ok {
		return "" // the message has it
	}
	if remote, ok := errors.AsType[*engine.UnavailableError](err); ok {
		return cmp.Or(remote.Help,
			"Check that the Temporal server is running, and its address, namespace and credentials.")
	}
	var newer *journal.NewerError
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return "Something other than Espalier has changed the file, or the disk is failing. Restore the folder " +
			"from a backup; or move it away and start over: the transcripts in it can still be read."
	case errors.Is(err, journal.ErrNotKept):
		return "Check the disk first: its last writes may be lost. Then try again."
	case errors.Is(err, journal.ErrNotJournal):
		return "Move that file away, or restore the journal from a backup."
	case errors.Is(err, journal.ErrFull), errors.Is(err, syscall.ENOSPC):
		return "Free space on the disk first."
	case errors.Is(err, journal.ErrUnavailable):
		return "Check that the database server is running and that the URL of the store is right."
	case errors.Is(err, journal.ErrUnsuitable):
		return "Check the URL of the store: user, password, database and parameters. The role needs the rights that " +
			"docs/postgres.md lists."
	case errors.Is(err, journal.ErrBusy):
		return "Close the program that has the file open: a backup, or a database viewer."
	case errors.As(err, &newer):
		return "Use that version of Espalier, or a later one."
	}
	return "Check that it is a writable folder and that the disk has free space."
}

// MissingDependency is a model, a tool, a program or a secret that some steps need and that is not available.
type MissingDependency = registry.MissingDependency

// Command is a command that a workflow runs on this machine.
type Command = registry.Command
