package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	commits "github.com/espalier-run/espalier/internal/journal/queue"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/awfaudit"
	"github.com/espalier-run/espalier/internal/report/execution"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/transcript"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/artifact"
	"github.com/espalier-run/espalier/internal/trust"
)

// Runtime is a project's storage with everything that drives and records its runs.
type Runtime struct {
	Store   journal.Store
	Process Process
	Engine  engine.Engine
	// Transcripts and Audits write records. They follow the journal in the background.
	Transcripts *transcript.Writer
	Audits      *audit.Writer
	// Shown is the journal as people see it: redacted as the workflows of its runs ask for.
	Shown *report.RedactedJournal
	// Secrets has the values that are hidden in all records.
	Secrets *secret.Registry
	// GracePeriod is how long running commands may take to finish when the process is asked to stop.
	GracePeriod time.Duration
	// Clock is the time of the database, which all processes that share it agree on; nil if runs are on this machine.
	Clock func() time.Time

	dir      string
	own      journal.Tailer // appends of this process, if the store has them apart
	copied   string         // a copy of the folder, if that cannot be written
	copyLock *filelock.File // tells other processes that the copy is in use
	getenv   func(string) string
	states   *execution.Writer
	trail    *awfaudit.Writer // nil when it is switched off
	log      *slog.Logger
	tools    *Tools
	follow   *report.Follower
	locks    []*filelock.File
	spends   *spending // nil without limits

	concurrency *concurrency // nil without limits
	// telemetry is nil unless it is configured.
	telemetry *otel.Exporter
	notice    func(string)
}

// Commits wakes readers of a journal when something is committed. The zero value is ready for use.
type Commits = commits.Notifier

// RuntimeOptions configures a Runtime.
type RuntimeOptions struct {
	// Relaxed leaves out the fsync of each commit.
	Relaxed bool
	Log     *slog.Logger
	// Runners run kinds of leaf work besides those that ship.
	Runners []step.Runner
	// Config is the project's; nil is an empty configuration.
	Config *config.Config
	// Tools are the project's; nil creates them. The runtime closes them.
	Tools *Tools
	// Models are the project's, with their secrets; nil creates them.
	Models *Models
	// Getenv reads the environment; nil reads the process's own.
	Getenv func(string) string
	// Notice receives messages about the store and about telemetry for people; nil discards them. Several goroutines
	// may call it.
	Notice func(text string)
	// Version returns the version of this program; nil if it is unknown.
	Version func() string
	// Journal wraps the store before anything uses it; nil leaves it as it is.
	Journal func(journal.Store) journal.Store
	// Changes connects the runtimes of one process over the same storage: readers are woken by the commits of all. Nil
	// connects none.
	Changes *Commits
	// Labels are those of this process. It drives only runs that need no other labels.
	Labels []string
	// Trust signs the storage folder, and checks that this user has signed it;
	// nil does neither.
	Trust *trust.Store
}

// complete fills in the defaults of a project whose storage folder is dir.
func (o RuntimeOptions) complete(dir string) RuntimeOptions {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Config = cmp.Or(o.Config, &config.Config{})
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Models == nil {
		o.Models = NewModels(filepath.Dir(dir), o.Config, o.Getenv)
	}
	return o
}

// DefaultGrace is the grace period of projects that set none.
const DefaultGrace = 10 * time.Second

// EngineConfig returns the settings that every engine needs, for an engine that writes the files of steps below dir.
func EngineConfig(dir string, o RuntimeOptions) engine.Config {
	o = o.complete(dir)
	runners := Runners()
	for _, r := range o.Runners {
		runners[r.Name()] = r
	}
	secrets := o.Models.Secrets
	return engine.Config{
		Runners: runners, Kinds: catalog.Kinds(), Log: o.Log, Machine: machine(filepath.Dir(dir)), Secrets: secrets,
		Provisioner: newProvisioner(dir, o),
		CheckOutput: checkOutput(secrets), CheckVariable: checkVariable(secrets), FillInput: fillInput(secrets),
		Inherit: func(p *ir.Program, step string, was, now func(path string) json.RawMessage) error {
			c := artifact.Continued{Program: p, Root: filepath.Dir(dir), Step: step, Was: was, Now: now}
			return c.Inherit()
		},
	}
}

// OpenRuntime opens the storage folder of a project, and creates it if needed. The parts depend on each other in this
// order: folder, store and process, limits (which are registers of the store), engine, records. After an error
// everything that was opened is closed. The caller closes the result.
func OpenRuntime(dir string, o RuntimeOptions) (_ *Runtime, err error) {
	o = o.complete(dir)
	r := &Runtime{
		GracePeriod: cmp.Or(o.Config.GracePeriod, DefaultGrace), Secrets: o.Models.Secrets, dir: dir, log: o.Log,
		getenv: o.Getenv, notice: o.Notice,
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := makeStorage(dir, o.Trust); err != nil {
		return nil, err
	}
	now, err := r.openStore(o)
	if err != nil {
		return nil, err
	}
	r.Clock = now
	if o.Journal != nil {
		r.Store = o.Journal(r.Store)
	}
	common := EngineConfig(dir, o)
	provisioner := common.Provisioner.(*provisioner)
	// EngineConfig has no store, so the limits, which are registers of the store, are set here.
	if r.spends = newSpending(r.Store, o.Config, now); r.spends != nil {
		provisioner.spends = r.spends
	}
	r.concurrency = newConcurrency(r.Store, r.Process, o.Config, o.Labels)
	provisioner.concurrency = r.concurrency
	r.tools = provisioner.tools
	if onTemporal(o) {
		if err := r.useTemporal(common, o, now); err != nil {
			return nil, err
		}
	} else {
		c := embedded.Config{
			Config: common, Store: r.observed(r.Store, o), Process: r.Process, Now: now, Monotonic: monotonic(),
		}
		if r.concurrency.limitsRuns() {
			c.Slots = r.concurrency
		}
		r.Engine = embedded.New(c)
	}
	if err := r.record(); err != nil {
		return nil, err
	}
	return r, nil
}

// record starts the writers of records. They read the journal from the position up to which the slowest of them has
// written, and ignore what they have already.
//
// With a shared store, each process writes what it has appended itself; everything else can be derived when it is asked
// for. With a copy of a folder that cannot be written, transcripts and audit logs alone are written, into the copy.
func (r *Runtime) record() error {
	transcripts, lock, err := r.folder("transcripts")
	if err != nil {
		return err
	}
	r.Shown = report.NewRedactedJournal(r.Store, r.Program)
	r.Transcripts = transcript.New(transcript.Options{
		Dir: transcripts, Source: r.Store, Lock: lock, Log: r.log, Skip: withoutTranscript, Program: r.Program,
	})
	audits, lock, err := r.folder("audit")
	if err != nil {
		return err
	}
	r.Audits = audit.New(audit.Options{
		Dir: audits, Source: r.Store, Lock: lock, Log: r.log, Program: r.Program,
		Files: func(ctx context.Context, definition string) ([]ir.File, error) {
			def, err := r.Engine.Definition(ctx, definition)
			if err != nil {
				return nil, err
			}
			return def.Sources, nil
		},
	})
	transcribed, err := r.Transcripts.Position(context.Background())
	if err != nil {
		return err
	}
	audited, err := r.Audits.Position(context.Background())
	if err != nil {
		return err
	}
	// Sinks without a position of their own come first, so that they have received everything up to the positions of
	// the others.
	sinks, after := report.Sinks{r.Transcripts, r.Audits}, min(transcribed, audited)
	if r.copied != "" { // only the copy is written
		r.follow = report.Follow(r.Store, sinks, report.FollowOptions{After: after, Log: r.log})
		return nil
	}
	r.states = r.executions()
	sinks = append(report.Sinks{r.states}, sinks...)
	var source journal.Tailer = r.Store
	if r.own != nil {
		source, after = r.own, 0
	}
	trail, err := r.awfTrail()
	if err != nil {
		return err
	}
	if trail != nil {
		at, err := trail.At()
		if err != nil {
			return err
		}
		// First, because it reads the checkpoints of the audit logs, which end with their runs.
		sinks, after = append(report.Sinks{trail}, sinks...), min(after, at)
		r.trail = trail
	}
	r.follow = report.Follow(source, sinks, report.FollowOptions{After: after, Log: r.log})
	return nil
}

// awfAuditLog is the environment variable with the path of AWF's audit trail, or "off".
const awfAuditLog = "AWF_AUDIT_LOG"

// NoAWFAudit reports whether the environment disables AWF's audit trail.
func NoAWFAudit(getenv func(string) string) bool { return getenv(awfAuditLog) == "off" }

// awfTrail returns the writer of AWF's audit trail; nil if the environment disables it. The trail is one file for all
// runs, so all processes of the folder share a lock and a position.
func (r *Runtime) awfTrail() (*awfaudit.Writer, error) {
	if NoAWFAudit(r.getenv) {
		return nil, nil
	}
	path := r.getenv(awfAuditLog)
	dir := r.records()
	path = cmp.Or(path, filepath.Join(dir, "audit.jsonl"))
	lock, err := filelock.Open(filepath.Join(dir, ".awf-audit.lock"))
	if err != nil {
		return nil, err
	}
	r.locks = append(r.locks, lock)
	return awfaudit.New(awfaudit.Options{
		Path: path, Position: filepath.Join(dir, ".awf-audit.position"),
		Source: r.Store, Lock: lock, Skip: withoutAWFAudit,
		Checkpoint: r.Audits.Checkpoint,
	})
}

// folder creates a folder of records, with the lock of its writers. Close closes the lock.
func (r *Runtime) folder(name string) (string, *filelock.File, error) {
	dir := filepath.Join(r.records(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := filelock.Open(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", nil, err
	}
	r.locks = append(r.locks, lock)
	return dir, lock, nil
}

// Program returns the program of a definition, by the definition's hash.
func (r *Runtime) Program(ctx context.Context, definition string) (*ir.Program, error) {
	def, err := r.Engine.Definition(ctx, definition)
	if err != nil {
		return nil, err
	}
	return def.Program, nil
}

// Dir returns the storage folder.
func (r *Runtime) Dir() string { return r.dir }

// RunDir returns the folder of a run's files.
func (r *Runtime) RunDir(id journal.RunID) string { return filepath.Join(r.dir, "runs", string(id)) }

// RemoveFiles removes the records and files of runs that have been deleted from the store. It removes as much as it
// can, and can be repeated: files of a run that the store does not have are of no use.
func (r *Runtime) RemoveFiles(ids ...journal.RunID) error {
	var errs []error
	for _, id := range ids {
		errs = append(errs, r.Transcripts.Remove(id), r.Audits.Remove(id))
		otel.Forget(r.telemetryDir(), id)
		execution.Forget(r.executionDir(), id)
		errs = append(errs, os.RemoveAll(r.RunDir(id)))
	}
	return errors.Join(errs...)
}

// Flush waits until the records have everything that was appended so far.
func (r *Runtime) Flush(ctx context.Context) error { return r.follow.Flush(ctx) }

// Shared reports whether other processes write records in other folders, or in this one: the records here need not be
// complete, because each process writes what it has appended.
func (r *Runtime) Shared() bool { return r.own != nil }

// CompleteTranscript waits until the transcript of a run has everything that any process has appended so far.
func (r *Runtime) CompleteTranscript(ctx context.Context, root journal.RunID) error {
	if err := r.Flush(ctx); err != nil || r.own == nil {
		return err
	}
	return r.Transcripts.CatchUp(ctx, root)
}

// Close releases everything. Runs that the engine still holds are driven to their next resting point first; close the
// engine before to park them instead.
//
// The order matters: the engine appends last, then the writers of records catch up with its appends, then the store is
// closed. The process stays registered to the end, because other processes take over what a dead one has left. Close
// also works for a Runtime that was opened in part.
func (r *Runtime) Close() error {
	var errs []error
	if r.Engine != nil {
		r.Engine.Drain()
	}
	if r.tools != nil {
		r.tools.Close()
	}
	if r.follow != nil {
		errs = append(errs, r.follow.Flush(context.Background()))
		r.follow.Close()
	}
	if r.Transcripts != nil {
		errs = append(errs, r.Transcripts.Close())
	}
	if r.states != nil {
		errs = append(errs, r.states.Close())
	}
	if r.trail != nil {
		errs = append(errs, r.trail.Close())
	}
	if r.Audits != nil {
		errs = append(errs, r.Audits.Close())
	}
	r.endTelemetry()
	for _, lock := range r.locks {
		errs = append(errs, lock.Close())
	}
	if r.Store != nil {
		errs = append(errs, r.Store.Close())
	}
	if r.Process != nil {
		errs = append(errs, r.Process.Close())
	}
	if r.copied != "" {
		if r.copyLock != nil {
			errs = append(errs, r.copyLock.Close())
		}
		errs = append(errs, os.RemoveAll(r.copied))
	}
	return errors.Join(errs...)
}

// RunOptions are the options of a run; they are pinned with the run.
type RunOptions struct {
	// Simulate simulates models, and tools that nothing is bound to.
	Simulate bool   `json:"simulate,omitempty"`
	Seed     uint64 `json:"seed,omitempty"`
	// Script is the text of a file of replies, under its name.
	Script       string `json:"script,omitempty"`
	ScriptName   string `json:"script_name,omitempty"`
	NoTranscript bool   `json:"no_transcript,omitempty"`
	// RecordStream records replies and the output of commands as they arrive.
	RecordStream bool `json:"record_stream,omitempty"`
	// NoAWFAudit leaves a run out of AWF's audit trail.
	NoAWFAudit bool `json:"no_awf_audit,omitempty"`
	// Sandbox confines commands: of tools, and of the workflow itself.
	Sandbox bool `json:"sandbox,omitempty"`
	// Confinement describes the sandbox when the run started, and what it does not confine.
	Confinement string `json:"confinement,omitempty"`
	// Model replaces the models that steps name; DefaultModel is used by steps that name none, as configured when the
	// run started.
	Model        string `json:"model,omitempty"`
	DefaultModel string `json:"default_model,omitempty"`
	// AllowShell is a person's consent to all commands of the workflow.
	AllowShell bool `json:"allow_shell,omitempty"`
	// Approved are the files that commands name, if an approval of these contents is the consent. When one of them
	// changes, the consent ends.
	Approved []trust.File `json:"approved,omitempty"`
	// Named reports that a person has named the file, which is consent to its commands in formats that are lists of
	// commands, and to those of the files that it calls.
	Named bool `json:"named,omitempty"`
	// Untrusted reports that the input comes from outside of the project: an event, a webhook or a file.
	Untrusted bool `json:"untrusted,omitempty"`
	// Unready starts although models are missing: steps that need them fail.
	Unready bool `json:"unready,omitempty"`
	// CostConfirmed reports that a person at a terminal has agreed to what this run, or an earlier one of the workflow,
	// can cost. ConfirmedMicroDollars is how much; nil if that was not known.
	CostConfirmed         bool   `json:"cost_confirmed,omitempty"`
	ConfirmedMicroDollars *int64 `json:"confirmed_micro_dollars,omitempty"`
	// User has started the run. It is set if spending limits depend on it.
	User string `json:"user,omitempty"`
	// Token is the id of the server's token that has started the run. It is set if spending limits depend on it.
	Token string `json:"token,omitempty"`
	// Request identifies the request that has started the run, if the client may repeat it.
	Request string `json:"request,omitempty"`
	// TraceParent is the span that the run is linked to, in the W3C format.
	TraceParent string `json:"trace_parent,omitempty"`
}

// Pin completes the options with what the configuration decides. They stay the same for the run if the configuration
// changes later. sandbox is what the person who starts the run asks for, if not nil; confined returns how commands are
// confined on this machine. If commands cannot be confined, the run still has the sandbox: its commands then fail
// instead of running without one.
func (o *RunOptions) Pin(c *config.Config, m *Models, sandbox *bool, confined func() (process.Confinement, error)) {
	o.DefaultModel = m.Default()
	o.Sandbox = o.Sandbox || c.Sandbox
	if sandbox != nil {
		o.Sandbox = *sandbox
	}
	if o.Sandbox {
		if is, err := confined(); err == nil { // otherwise no command runs
			o.Confinement = is.String()
		}
	}
}

// Encode returns the options as JSON, for the journal.
func (o RunOptions) Encode() json.RawMessage {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	return raw
}

func withoutAWFAudit(s journal.RunStarted) bool {
	var o RunOptions
	return json.Unmarshal(s.Options, &o) == nil && o.NoAWFAudit
}

func withoutTranscript(s journal.RunStarted) bool {
	var o RunOptions
	return json.Unmarshal(s.Options, &o) == nil && o.NoTranscript
}

// CheckOutput checks a program's output against its schema. An error names the origin of each value that does not
// match.
func CheckOutput(p *ir.Program, output json.RawMessage, origin func(path string) string) error {
	if p.Output == nil || len(p.Output.Schema) == 0 {
		return nil
	}
	s, err := schema.Compile(p.Output.Schema)
	if err != nil {
		return err
	}
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	problems, err := s.Check(output)
	if err != nil || len(problems) == 0 {
		return err
	}
	for i, one := range problems {
		if from := origin(one.Path); from != "" {
			problems[i].Message += " (" + from + ")"
		}
	}
	return fmt.Errorf("the output does not match its schema: %s", joinProblems(problems))
}

// CheckVariable checks a new value of a variable against the schema that the program declares for it: that of the
// variable, or that of the output. A value for a part is wrapped into the whole, and only problems at or below that
// part count: other parts of the output may still be missing.
func CheckVariable(p *ir.Program, path string, value json.RawMessage) error {
	check := func(declared json.RawMessage, rest string) error {
		if len(declared) == 0 {
			return nil
		}
		s, err := schema.Compile(declared)
		if err != nil {
			return err
		}
		whole := value
		for _, name := range slices.Backward(strings.Split(rest, ".")) {
			if rest != "" {
				whole = step.JSON(map[string]json.RawMessage{name: whole})
			}
		}
		problems, err := s.Check(whole)
		if err != nil {
			return err
		}
		problems = slices.DeleteFunc(problems, func(one schema.Problem) bool {
			below, ok := strings.CutPrefix(one.Path, rest)
			return !ok || rest != "" && below != "" && below[0] != '.' && below[0] != '['
		})
		if len(problems) == 0 {
			return nil
		}
		return fmt.Errorf("the new value of %s does not match its schema: %s", path, joinProblems(problems))
	}
	for i := range p.Vars {
		if rest, ok := strings.CutPrefix(path+".", p.Vars[i].Path+"."); ok {
			if err := check(p.Vars[i].Schema, strings.TrimSuffix(rest, ".")); err != nil {
				return err
			}
		}
	}
	if rest, ok := strings.CutPrefix(path, "output."); ok && p.Output != nil {
		return check(p.Output.Schema, rest)
	}
	return nil
}

// FillInput fills defaults into the input of a child and checks it against its schema. It returns the input with the
// defaults.
func FillInput(p *ir.Program, input json.RawMessage) (json.RawMessage, error) {
	if p.Input == nil || len(p.Input.Schema) == 0 {
		return input, nil
	}
	s, err := schema.Compile(p.Input.Schema)
	if err != nil {
		return nil, err
	}
	input = s.Fill(input)
	problems, err := s.Check(input)
	if err != nil || len(problems) == 0 {
		return input, err
	}
	return nil, fmt.Errorf("the input of %q does not match its schema: %s", p.Name, joinProblems(problems))
}

// machine returns the initial values of variables that come from this machine, for a project.
func machine(root string) func(from string) (string, bool) {
	return func(from string) (string, bool) { return lookUp(root, from) }
}

// lookUp returns a value of this machine: "stamp:DIR" creates a folder named after the time, "env:NAME" is a variable,
// and "dir", "host" and "user" are what they say. It is called once, when the run starts, and the value is recorded.
func lookUp(root, from string) (string, bool) {
	if dir, ok := strings.CutPrefix(from, "stamp:"); ok {
		return Stamp(root, dir, time.Now())
	}
	if name, ok := strings.CutPrefix(from, "env:"); ok {
		return os.LookupEnv(name)
	}
	switch from {
	case "dir":
		dir, err := os.Getwd()
		return dir, err == nil
	case "host":
		name, err := os.Hostname()
		return name, err == nil
	case "user":
		u, err := user.Current()
		if err != nil {
			return "", false
		}
		return u.Username, true
	}
	return "", false
}
