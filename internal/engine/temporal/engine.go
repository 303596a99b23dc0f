package temporal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Store is the part of a journal.Store that an Engine uses. Its processes announce themselves in registers.
type Store interface {
	engine.Store
	journal.Registers
}

// Config configures an Engine.
type Config struct {
	engine.Config
	Store     Store
	Address   string
	Namespace string // empty is "default"
	TaskQueue string
	// Heartbeat is after how long without a heartbeat a task is lost; 0 is 10 s.
	Heartbeat time.Duration
	// Now is the clock of events that the engine records itself; nil is time.Now.
	Now func() time.Time
	// ContinueAfter is the number of events after which a workflow continues as a
	// new one; 0 leaves that to the server.
	ContinueAfter int
	// Version is the version of the workflow's code; 0 is that of this build. Only
	// tests set another one.
	Version int
	// Process is this process among those that share the journal; nil shares it
	// with none.
	Process Process
	// Needs are the labels that a process needs to run tasks, by workflow, and Labels are those of this process.
	Needs  map[string][]string
	Labels []string
	// Notice receives messages for people; nil discards them.
	Notice func(text string)
	// Client sets the credentials of the connection; nil uses none.
	Client func(context.Context, *client.Options) error
}

// Process is this process among those that share a journal.
type Process interface {
	ID() journal.Owner
	// Dead reports whether another process has certainly ended.
	Dead(journal.Owner) bool
}

// Engine drives the runs of one journal on Temporal. It connects to the server
// when it first needs it: reading runs needs only the journal. It implements
// engine.Engine.
type Engine struct {
	*engine.Core
	c        Config
	store    Store
	identity string // of this engine among the workers of the task queue

	connecting sync.Mutex // guards client, attributes and cluster until client is set
	client     client.Client
	conn       client.Client // that of client, for workers
	payloads   converter.DataConverter
	attributes bool   // the namespace has the search attributes
	cluster    string // identifies the server
	outage     *outage

	mu          sync.Mutex // guards everything below
	jobs        map[*job]bool
	mine        map[journal.RunID]bool      // runs that this process has started or continued
	claimed     map[journal.RunID]bool      // runs of which the log says that this process runs their tasks
	left        map[journal.RunID]bool      // runs of which the log says that another process may drive them elsewhere
	active      map[journal.RunID]time.Time // when this process last did something for the workflow of a run
	unknownRuns map[journal.RunID]bool      // runs for which the log has the warning of unknownRunError
	all         bool                        // run the tasks of all runs, not only of mine
	skip        func(journal.RunID) bool    // runs whose tasks this process does not run; nil for none
	sending     int                         // messages that have been sent and not answered
	held        bool
	closed      bool
	workers     []worker.Worker // the last one appends facts

	stopping sync.WaitGroup // workers that poll no more and whose tasks are still running
	polls    atomic.Int64   // requests for workflow tasks that the server has not answered

	scheduling sync.Mutex // guards schedules
	schedules  scheduleState

	announcing sync.Mutex // guards announced
	announced  journal.Register
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine.
func New(c Config) *Engine {
	c.Namespace = cmp.Or(c.Namespace, client.DefaultNamespace)
	c.Heartbeat = cmp.Or(c.Heartbeat, 10*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Version = cmp.Or(c.Version, workflowVersion)
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	host, _ := os.Hostname() // only for people to read
	e := &Engine{
		Core: engine.NewCore(c.Config, c.Store), c: c, store: c.Store, jobs: map[*job]bool{},
		mine: map[journal.RunID]bool{}, claimed: map[journal.RunID]bool{}, left: map[journal.RunID]bool{},
		unknownRuns: map[journal.RunID]bool{}, active: map[journal.RunID]time.Time{}, outage: outageOf(c.Address),
		identity: fmt.Sprintf("%d@%s %s", os.Getpid(), host, rand.Text()[:8]),
	}
	e.Launch = e.start
	return e
}

// externalStorage makes the SDK store large payloads as blobs of the journal.
func (e *Engine) externalStorage() converter.ExternalStorage {
	return converter.ExternalStorage{
		Drivers: []converter.StorageDriver{blobDriver{e.store}}, PayloadSizeThreshold: largePayload,
	}
}

// connect connects to the server, once.
func (e *Engine) connect(ctx context.Context) error {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if e.client != nil {
		return nil
	}
	options := client.Options{
		HostPort: e.c.Address, Namespace: e.c.Namespace, DataConverter: dataConverter(), Logger: logger{e.Log},
		Identity: e.identity, ExternalStorage: e.externalStorage(),
	}
	if e.c.Client != nil {
		if err := e.c.Client(ctx, &options); err != nil {
			return &engine.UnavailableError{What: "the connection to the Temporal server cannot be set up", Err: err}
		}
	}
	// The engine itself reads payloads with errors; workflows panic instead (see retrying).
	e.payloads = options.DataConverter
	options.DataConverter = retryingConverter{options.DataConverter}
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(e.countPolls, e.watch))
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return e.unreachable(err)
	}
	e.attributes = e.registerAttributes(ctx, c)
	e.cluster = e.c.Address // without the permission to ask for it
	if info, err := c.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{}); err == nil {
		e.cluster = cmp.Or(info.GetClusterId(), e.cluster)
	}
	// Workers need the client of the SDK itself.
	e.conn, e.client = c, explaining{c, e}
	return nil
}

// Reach connects to a server and returns its version, and what does not work although runs do. It is an error if the
// namespace does not exist.
func Reach(ctx context.Context, options client.Options) (version, limited string, err error) {
	options.Logger = logger{slog.New(slog.DiscardHandler)}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	server, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return "", "", err
	}
	namespace := cmp.Or(options.Namespace, client.DefaultNamespace)
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return "", "", err
	}
	_, limited, _ = listAttributes(ctx, c, namespace) // without the permission, runs have none
	return server.GetServerVersion(), limited, nil
}

// logger passes messages of Temporal's library on. What it reports as an error is
// tried again, so it is a warning here.
type logger struct{ log *slog.Logger }

func (l logger) Debug(msg string, keyvals ...any) { l.log.Debug("temporal: "+msg, keyvals...) }
func (l logger) Info(msg string, keyvals ...any)  { l.log.Debug("temporal: "+msg, keyvals...) }
func (l logger) Warn(msg string, keyvals ...any)  { l.log.Warn("temporal: "+msg, keyvals...) }
func (l logger) Error(msg string, keyvals ...any) { l.log.Warn("temporal: "+msg, keyvals...) }

var _ tlog.Logger = logger{}

// publishQueue is the task queue of appends. Engines that run no tasks serve it,
// too.
func (e *Engine) publishQueue() string { return e.queue() + "-publish" }

// serve starts the workers of this process, if they do not run. Those of a held
// engine decide and append, and run no tasks.
func (e *Engine) serve(ctx context.Context) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return engine.ErrClosed
	}
	if len(e.workers) > 0 {
		return nil
	}
	w := e.newWorker(e.held)
	if !e.held {
		w.RegisterActivityWithOptions(e.taskActivity, activity.RegisterOptions{Name: taskName})
	}
	common := e.workerOptions()
	common.DisableWorkflowWorker = true
	p := worker.New(e.conn, e.publishQueue(), common)
	p.RegisterActivityWithOptions(e.publishActivity, activity.RegisterOptions{Name: publishName})
	p.RegisterActivityWithOptions(e.recoverActivity, activity.RegisterOptions{Name: recoverName})
	all := []worker.Worker{p, w}
	if !e.held {
		for _, labels := range e.served() {
			l := worker.New(e.conn, e.labelQueue(labels), common)
			l.RegisterActivityWithOptions(e.taskActivity, activity.RegisterOptions{Name: taskName})
			all = append(all, l)
		}
	}
	// The worker for appends starts first and is last in e.workers, so that it stops last: the ends of tasks still have
	// to get into the journal.
	for _, one := range all {
		if err := one.Start(); err != nil {
			return e.explain(ctx, err)
		}
		e.workers = append([]worker.Worker{one}, e.workers...)
	}
	return nil
}

// workerOptions returns what all workers have in common. A workflow task goes to a process that has ended for two
// seconds at most before another one gets it. Workflows read blobs of the journal while they decide, so a decision may
// take longer than the SDK's default of one second before it counts as a deadlock. Stop waits for running tasks without
// limit.
func (e *Engine) workerOptions() worker.Options {
	return worker.Options{
		WorkerStopTimeout: forever, StickyScheduleToStartTimeout: 2 * time.Second,
		DeadlockDetectionTimeout: 5 * time.Second, DisableRegistrationAliasing: true,
	}
}

// newWorker returns a worker that decides in workflows. If it only decides, it runs no tasks.
func (e *Engine) newWorker(onlyDecides bool) worker.Worker {
	o := e.workerOptions()
	o.LocalActivityWorkerOnly = onlyDecides
	w := worker.New(e.conn, e.queue(), o)
	w.RegisterWorkflowWithOptions(e.runWorkflow, workflow.RegisterOptions{Name: workflowName})
	return w
}

// drives makes this process run the tasks of a run.
func (e *Engine) drives(ctx context.Context, id journal.RunID) {
	e.mu.Lock()
	known := e.mine[id]
	e.mine[id] = true
	e.mu.Unlock()
	if !known {
		e.announce(ctx)
	}
}

// enter counts a task that starts. It returns why this process does not run it,
// or "", and the labels that the task needs if this process does not have them.
// A process that does not work for all runs declines the others: it ends
// when its own run rests, and a person may have consented to that one only.
func (e *Engine) enter(j *job) (declined string, labels []string) {
	// Labels first: a task that needs others must be declined with them, so that the workflow moves it to their task
	// queue.
	if len(e.c.Needs) > 0 {
		entry, err := e.store.Entry(j.ctx, j.in.Run)
		if err != nil {
			return err.Error(), nil
		}
		if labels := e.c.Needs[entry.Name]; !hasAll(e.c.Labels, labels) {
			return "this process does not have the labels of the workflow", labels
		}
	}
	e.mu.Lock()
	skip, mine, all := e.skip, e.mine[j.in.Run], e.all
	e.mu.Unlock()
	if !all && !mine {
		return "this process drives other runs", nil
	}
	if !mine && skip != nil && skip(j.in.Run) {
		return "this worker cannot run tasks of the run", nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return engine.ErrClosed.Error(), nil
	}
	e.jobs[j] = true
	if addFirst(e.claimed, j.in.Run) {
		e.Log.Info("run claimed", "run_id", j.in.Run)
	}
	return "", nil
}

// isFirst reports whether a run is not in a set of runs of which something was logged, and adds it.
func (e *Engine) isFirst(logged map[journal.RunID]bool, id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return addFirst(logged, id)
}

// addFirst is isFirst if e.mu is held.
func addFirst(logged map[journal.RunID]bool, id journal.RunID) bool {
	if logged[id] {
		return false
	}
	if len(logged) == maxRememberedRuns {
		clear(logged)
	}
	logged[id] = true
	return true
}

// maxRememberedRuns bounds the memory of what was logged.
const maxRememberedRuns = 10_000

// leave ends what enter has begun.
func (e *Engine) leave(j *job) {
	e.markActive(j.in.Run)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, j)
}

// start records that a run has started and starts its workflow. If the process
// dies in between, Resume and Work recover the run.
func (e *Engine) start(ctx context.Context, id journal.RunID, b *engine.RunStart) error {
	if err := e.serve(ctx); err != nil {
		return err
	}
	e.drives(ctx, id)
	now := journal.MillisOf(e.c.Now())
	// The workflow decides the same first events, with the same time: appendFacts compares them byte for byte.
	events := []journal.Event{{Seq: 1, At: now, Fact: b.Started}}
	for i, edit := range b.Edits {
		events = append(events, journal.Event{Seq: journal.Seq(i) + 2, At: now, Fact: journal.StateEdited{
			Path: edit.Path, Value: journal.Value{JSON: edit.Value}, By: edit.By,
		}})
	}
	err := journal.Append(ctx, e.store, journal.Batch{
		Run: id, Fence: journal.FirstFence, Owner: journal.Temporal, Events: events, Blobs: b.Blobs,
		Index: &journal.Index{Status: journal.Running},
	})
	if err != nil {
		return err
	}
	return e.startWorkflow(ctx, id, events[0], b.Edits)
}

// workflowID returns the id of the workflow of a run. Projects may share a
// namespace, and ids of scheduled runs are derived from names in the project.
func (e *Engine) workflowID(id journal.RunID) string { return e.c.TaskQueue + "/" + string(id) }

// startWorkflow starts the workflow of a run that has just been recorded. If there is an open one, it belongs to an
// earlier run of the same id that was removed.
func (e *Engine) startWorkflow(ctx context.Context, id journal.RunID, first journal.Event, edits []plan.Edit) error {
	line, err := journal.Encode(nil, []journal.Event{first})
	if err != nil {
		return err
	}
	in := e.newInput(id)
	in.Started, in.Edits = string(line), edits
	name := first.Fact.(journal.RunStarted).Name
	err = e.execute(ctx, in, name, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		in = e.newInput(id)
		in.Recover = true // it may have been started by a worker
		return e.execute(ctx, in, name, enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING)
	}
	return err
}

// entry returns the index row of a run that Temporal drives.
func (e *Engine) entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	entry, err := e.store.Entry(ctx, id)
	switch {
	case err != nil:
		return entry, err
	case entry.Root != "":
		return entry, &journal.ChildError{Root: entry.Root}
	case entry.Status != journal.Finished && entry.Owner != journal.Temporal:
		return entry, engine.ErrNotTemporal
	}
	return entry, nil
}

// Resume implements engine.Driver. Temporal continues runs by itself: Resume
// makes sure that the workflow exists and that this process can drive it.
func (e *Engine) Resume(ctx context.Context, id journal.RunID) error { return e.resume(ctx, id, false) }

// resume implements Resume and ResumeAgain. A run that another living process drives is refused, unless this process
// has started it or continued it before.
func (e *Engine) resume(ctx context.Context, id journal.RunID, rerun bool) error {
	entry, err := e.entry(ctx, id)
	if err != nil {
		return err
	}
	if entry.Status == journal.Finished {
		return journal.ErrFinished
	}
	if err := e.connect(ctx); err != nil {
		return err
	}
	state, _, err := e.findWorkflow(ctx, id)
	if err != nil {
		return err
	}
	if state == workflowOpen && entry.Status == journal.Running && !e.isMine(id) && e.Driven(ctx, entry) {
		return &journal.OwnedError{Owner: journal.Temporal}
	}
	e.drives(ctx, id)
	if err := e.serve(ctx); err != nil {
		return err
	}
	// Without an open workflow, a new one recovers the run. An open one of an earlier version is asked to hand the run
	// over and, with rerun, to run lost tasks again.
	if state != workflowOpen {
		return e.recoverRun(ctx, id, rerun)
	}
	if err := e.takeOver(ctx, id); err != nil || !rerun {
		return err
	}
	return e.update(ctx, id, rerunLostName, nil)
}

// ResumeAgain implements engine.Driver.
func (e *Engine) ResumeAgain(ctx context.Context, id journal.RunID) error {
	return e.resume(ctx, id, true)
}

// Send implements engine.Driver.
func (e *Engine) Send(ctx context.Context, id journal.RunID, in plan.Input, ref string) error {
	in, err := e.Hide(in)
	if err != nil {
		return err
	}
	entry, err := e.entry(ctx, id)
	if err != nil {
		return err
	}
	if entry.Status == journal.Finished {
		return e.Check(ctx, id, in)
	}
	// This process must be able to run what follows: there may be no other worker.
	e.drives(ctx, id)
	if err := e.serve(ctx); err != nil {
		return err
	}
	if err := e.takeOver(ctx, id); err != nil {
		return err
	}
	m, err := engine.EncodeMessage(in, ref, journal.MillisOf(e.c.Now()))
	if err != nil {
		return err
	}
	// Once sent, it has an effect, also if the person does not wait for it.
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return engine.ErrClosed
	}
	e.sending++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.sending--
		e.mu.Unlock()
	}()
	ctx, stop := lingering(ctx, quiescenceTimeout)
	defer stop()
	var refused *plan.Refusal
	for range 3 {
		if err = e.update(ctx, id, sendName, &refused, m); !errors.Is(err, errEnded) {
			break
		}
		// The run has finished since, or Temporal has lost its workflow.
		if err := e.Check(ctx, id, in); err != nil {
			return err
		}
		if err := e.recoverRun(ctx, id, false); err != nil {
			return err
		}
	}
	if err == nil && refused != nil {
		return refused
	}
	return err
}

// pause waits, and reports false if the context ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// lingering returns a context that ends some time after another one.
func lingering(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(after, func() { cancel(context.Cause(ctx)) })
	})
	return later, func() {
		stop()
		cancel(nil)
	}
}

// errEnded means that there is no workflow that could be updated.
var errEnded = errors.New("the workflow of this run was ended in Temporal")

// update sends an update to the workflow of a run and waits for its answer. While
// the workflow continues as a new one, the update is sent again.
func (e *Engine) update(ctx context.Context, id journal.RunID, name string, answer any, args ...any) error {
	for began := time.Now(); ; {
		options := client.UpdateWorkflowOptions{
			WorkflowID: e.workflowID(id), UpdateName: name, Args: args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		}
		handle, err := e.client.UpdateWorkflow(withRun(ctx, id), options)
		if err == nil {
			err = handle.Get(ctx, answer)
		}
		var refused *temporal.ApplicationError
		var failing *serviceerror.WorkflowNotReady
		switch {
		// The workflow task fails, for example because its code panics.
		case errors.As(err, &failing) && time.Since(began) < failingTime:
			if pause(ctx, time.Second) {
				continue
			}
		case errors.As(err, &refused) && refused.Type() == endedType:
			return errEnded
		case errors.As(err, &refused) && refused.Type() == refusalType:
			var code string
			if err := refused.Details(&code); err != nil {
				return err
			}
			return &plan.Refusal{Code: plan.RefusalCode(code), Why: refused.Message()}
		// The workflow is about to be replaced by another one.
		case errors.As(err, &refused) && refused.Type() == stoppedType:
			continue
		// The workflow may be continuing as a new one; then it counts as running, and the update was not accepted.
		case isNotFound(err):
			state, err := e.client.DescribeWorkflowExecution(ctx, e.workflowID(id), "")
			if err != nil || state.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				return errEnded
			}
			continue
		}
		return err
	}
}

const (
	// failingTime is how long a message waits for a workflow that fails to decide: what was wrong may have been
	// corrected, and the server tries again after a while.
	failingTime = 30 * time.Second
	// endedType is the type of the error of a message that the workflow had accepted when it was ended.
	endedType = "AcceptedUpdateCompletedWorkflow"
)

// pollInterval is how often Wait reads the journal if appends of other processes
// do not wake it.
const pollInterval = 50 * time.Millisecond

// Wait implements engine.Driver.
func (e *Engine) Wait(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	looked := time.Now() // at the workflow
	for {
		changed := e.store.Changed() // before reading, so that no append is missed
		entry, err := e.entry(ctx, id)
		if err != nil {
			return entry, err
		}
		rests := entry.Status.AtRest()
		if entry.Status == journal.Finished {
			e.mu.Lock()
			delete(e.mine, id)
			e.mu.Unlock()
			return entry, nil
		}
		// The journal follows the workflow. A run rests only if the workflow has nothing left to append; reading the
		// entry again shows whether it appended something between the two looks.
		if rests && !e.hasUnpublishedFacts(ctx, id) {
			if now, err := e.entry(ctx, id); err != nil || now.Seq == entry.Seq {
				return now, err
			}
			continue // it has caught up in the meantime
		}
		e.mu.Lock()
		idle := e.closed || e.held
		e.mu.Unlock()
		if idle {
			return entry, nil
		}
		e.drives(ctx, id)
		if err := e.serve(ctx); err != nil {
			return entry, err
		}
		if time.Since(looked) > lookInterval {
			looked = time.Now()
			if err := e.look(ctx, id); err != nil {
				return entry, err
			}
		}
		select {
		case <-changed:
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return entry, context.Cause(ctx)
		}
	}
}

// hasUnpublishedFacts reports whether the workflow of a run that is at rest in the journal still has decisions to make
// or activities to finish: it has accepted a message whose facts are not in the journal yet. A workflow whose decisions
// fail does not count, because it cannot proceed.
func (e *Engine) hasUnpublishedFacts(ctx context.Context, id journal.RunID) bool {
	if err := e.connect(ctx); err != nil {
		return false
	}
	found, err := e.client.DescribeWorkflowExecution(ctx, e.workflowID(id), "")
	if err != nil {
		return false
	}
	task := found.GetPendingWorkflowTask()
	return len(found.GetPendingActivities()) > 0 || task != nil && task.GetAttempt() <= failedAttempts
}

// failedAttempts is after how many attempts at a decision a workflow counts as one that cannot proceed.
const failedAttempts = 3

// lookInterval is how often Wait looks at the workflow itself.
const lookInterval = 5 * time.Second

// look recovers a run that has not finished if Temporal has lost its workflow, and warns if the workflow cannot
// proceed.
func (e *Engine) look(ctx context.Context, id journal.RunID) error {
	state, task, err := e.findWorkflow(ctx, id)
	if task.GetAttempt() > failedAttempts {
		e.Log.Warn("the Temporal workflow keeps failing: see its history in Temporal", "run_id", id,
			"attempt", task.GetAttempt())
	}
	if err != nil || state == workflowOpen {
		return nil //nolint:nilerr // the server may come back
	}
	entry, err := e.entry(ctx, id) // after the workflow has ended, the journal is complete
	if err != nil || entry.Status == journal.Finished {
		return err
	}
	return e.recoverRun(ctx, id, false)
}

// Listen implements engine.Driver. Temporal delivers messages.
func (e *Engine) Listen(ctx context.Context) { <-ctx.Done() }

// Work implements engine.Driver.
func (e *Engine) Work(ctx context.Context, skip func(journal.RunID) bool) error {
	e.mu.Lock()
	e.all, e.skip = true, skip
	e.mu.Unlock()
	e.announce(ctx)
	for {
		err := e.serve(ctx)
		if err == nil {
			err = e.recoverLost(ctx, justStarted, skip)
		}
		if err == nil {
			break
		}
		if down, ok := errors.AsType[*engine.UnavailableError](err); !ok || !down.Temporary {
			return err
		}
		e.outage.begin(e.Log, e.c.Address, err)
		if !pause(ctx, time.Second) {
			return nil
		}
	}
	e.announce(ctx) // with the identity of the server
	go e.announceBusy(ctx)
	go e.keepRunsAlive(ctx)
	e.takeOverAll(ctx)
	return nil
}

// CatchUp implements engine.Driver. If a run is due, this process decides what
// follows, since no other worker may be running.
func (e *Engine) CatchUp(ctx context.Context) error {
	limit, stop := context.WithTimeout(ctx, catchUpTime)
	defer stop()
	looked := false // whether Temporal has lost one of them
	for {
		now := journal.MillisOf(e.c.Now())
		ids, _, err := e.store.Due(limit, now)
		if err != nil && limit.Err() == nil {
			return err
		}
		// Only runs on Temporal. The others belong to the embedded engine.
		ids = slices.DeleteFunc(ids, func(id journal.RunID) bool {
			entry, err := e.store.Entry(limit, id)
			return err != nil || entry.Owner != journal.Temporal
		})
		if len(ids) == 0 {
			return context.Cause(ctx)
		}
		if err := e.serve(ctx); err != nil {
			return nil //nolint:nilerr // runs can be read without the server
		}
		for ; !looked && len(ids) > 0; ids = ids[1:] {
			if err := e.recoverIfLost(limit, ids[0]); err != nil {
				e.Log.Debug("run not recovered", "run_id", ids[0], "error", err)
			}
		}
		looked = true
		select {
		case <-e.store.Changed():
		case <-time.After(pollInterval):
		case <-limit.Done():
			return context.Cause(ctx)
		}
	}
}

// catchUpTime bounds how long a command waits for what is due.
const catchUpTime = 5 * time.Second

// Hold implements engine.Driver.
func (e *Engine) Hold() {
	e.mu.Lock()
	e.held = true
	e.mu.Unlock()
}

// Owns implements engine.Driver: it reports whether a task of the run is running
// in this process.
func (e *Engine) Owns(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := range e.jobs {
		if j.in.Run == id {
			return true
		}
	}
	return false
}

// Drain implements engine.Driver. Running tasks end; Temporal continues the runs
// in other processes.
func (e *Engine) Drain() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.awaitQuiescence()
	e.stop()
}

// Park implements engine.Driver. Tasks that start later are declined.
func (e *Engine) Park() {
	e.mu.Lock()
	parked := e.closed
	e.closed = true
	e.mu.Unlock()
	if !parked {
		e.awaitAnswers()
		e.stopPolling()
		e.cancelJobs(func(j *job) bool { return j.recovery() == journal.RecoveryRerun })
	}
}

// Close implements engine.Driver.
func (e *Engine) Close(now <-chan struct{}) {
	e.Park()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-now:
			e.cancelJobs(func(*job) bool { return true })
		case <-ended:
		}
	}()
	e.onlyDecide()
	e.record(now)
	e.awaitQuiescence()
	e.stop()
}

// record waits until the running tasks have ended, and a moment longer until the journal has their ends: no other
// worker may be there to append them.
func (e *Engine) record(now <-chan struct{}) {
	// Remember where the journal of each run ends while its tasks are running.
	before := map[journal.RunID]journal.Seq{}
	running := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.jobs) > 0
	}
	e.mu.Lock()
	for j := range e.jobs {
		before[j.in.Run] = 0
	}
	e.mu.Unlock()
	for id := range before {
		if entry, err := e.store.Entry(context.Background(), id); err == nil {
			before[id] = entry.Seq
		}
	}
	// First the tasks end, then their ends reach the journal.
	for running() {
		select {
		case <-time.After(pollInterval):
		case <-now:
			return
		}
	}
	limit := time.After(recordTime)
	for id, seq := range before {
		for {
			entry, err := e.store.Entry(context.Background(), id)
			if err != nil || entry.Seq > seq {
				break
			}
			select {
			case <-time.After(pollInterval):
			case <-limit:
				return
			case <-now:
				return
			}
		}
	}
}

// recordTime is how long an engine that stops waits for the ends of its tasks in the journal.
const recordTime = 2 * time.Second

// cancelJobs cancels the running tasks that match.
func (e *Engine) cancelJobs(match func(*job) bool) {
	e.mu.Lock()
	jobs := slices.Collect(maps.Keys(e.jobs))
	e.mu.Unlock()
	for _, j := range jobs {
		if match(j) {
			j.cancel(engine.ErrParked)
		}
	}
}

// stop ends the workers, which waits for running tasks, and the connection.
func (e *Engine) stop() {
	e.stopSchedules()
	e.mu.Lock()
	workers := e.workers
	e.workers = nil
	e.mu.Unlock()
	for _, w := range workers {
		w.Stop()
	}
	e.stopping.Wait()
	e.announce(context.Background())
	e.connecting.Lock()
	defer e.connecting.Unlock()
	if e.client != nil {
		e.client.Close()
	}
}
