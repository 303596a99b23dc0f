package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/terminal"
	"github.com/espalier-run/espalier/internal/trust"
)

// storage is the name of a project's own folder.
const storage = ".espalier"

// runtime opens the storage of a project, and makes it if need be.
func (a *app) runtime(root string, o builtin.RuntimeOptions) (*builtin.Runtime, error) {
	if o.Config == nil {
		c, err := a.config(root, approvedOnly)
		if err != nil {
			return nil, err
		}
		o.Config = c
	}
	o.Getenv = a.Getenv
	o.Journal = a.Journal
	o.Notice = func(text string) { a.note("%s", text) }
	o.Version = func() string { return readVersion().Version }
	approvals := trust.Open(a.Getenv)
	o.Trust = &approvals
	r, err := builtin.OpenRuntime(filepath.Join(root, storage), o)
	if err != nil {
		return nil, &failure{
			code: exitNotReady, message: fmt.Sprintf("the storage in %s cannot be opened: %v", a.display(filepath.Join(root, storage)), err),
			help: "Nothing was started. " + storageHelp(err),
		}
	}
	a.secrets = r.Secrets
	// Whoever looks sees what is due by now, also when nobody was there to do it.
	if err := r.Engine.CatchUp(context.Background()); err != nil {
		r.Close()
		return nil, &failure{code: exitNotReady, message: err.Error(), help: storageHelp(err)}
	}
	return r, nil
}

// storageHelp says what to do about a storage that cannot be used.
func storageHelp(err error) string {
	var newer *journal.NewerError
	if foreign, ok := errors.AsType[*private.Error](err); ok {
		return foreign.Help
	}
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return "Something other than Espalier has changed the file, or the disk is failing. Put back a copy of the folder from a backup; or move it away and begin anew: the transcripts in it can still be read."
	case errors.Is(err, journal.ErrNotKept):
		return "Look at the disk first: its last writes may be lost. Then try again."
	case errors.Is(err, journal.ErrNotJournal):
		return "Move that file away, or put the journal back from a backup."
	case errors.Is(err, journal.ErrFull), errors.Is(err, syscall.ENOSPC):
		return "Make room on the disk first."
	case errors.Is(err, journal.ErrBusy):
		return "Close whatever has the file open: a backup, or a program that shows databases."
	case errors.As(err, &newer):
		return "Use that version of Espalier, or a later one."
	}
	return "Check that it is a folder that may be written to, and that there is room on the disk."
}

// damaged tells whether an error is about the journal itself, and not about a run.
func damaged(err error) bool {
	for _, one := range []error{journal.ErrCorrupt, journal.ErrNotJournal, journal.ErrBusy} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// existing opens the storage of the project around the working folder. It is
// an error if there is none: no run can be there.
func (a *app) existing() (*builtin.Runtime, error) { return a.openExisting(builtin.RuntimeOptions{}) }

// looking is existing for those who look and start nothing: a configuration
// that cannot be used is no reason to hide what has happened.
func (a *app) looking() (*builtin.Runtime, error) {
	return a.openExisting(builtin.RuntimeOptions{Config: &config.Config{}})
}

func (a *app) openExisting(o builtin.RuntimeOptions) (*builtin.Runtime, error) {
	space, err := a.workspace()
	if err != nil {
		return nil, err
	}
	here, err := space.Here()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(here.Root, storage, "espalier.db")); err != nil {
		return nil, usage(`"espalier run WORKFLOW" begins one. A run is kept in the project of its workflow: go there to see it.`+a.otherRuns(here.Root), "there are no runs in %s", a.folder(here.Root))
	}
	if o.Config != nil {
		if c, list, err := a.readConfig(here.Root, approvedOnly); err == nil && !list.Errors() {
			o.Config = c
		}
	}
	return a.runtime(here.Root, o)
}

func (a *app) display(path string) string {
	if a.opened != nil {
		return a.opened.Display(path)
	}
	return path
}

// folder names a folder within a sentence.
func (a *app) folder(path string) string {
	if shown := a.display(path); shown != "." {
		return shown
	}
	return "this folder"
}

// withRun looks at one run of the project.
func (a *app) withRun(name string, look func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error) error {
	r, err := a.looking()
	if err != nil {
		return err
	}
	defer r.Close()
	ctx := context.Background()
	entry, err := a.findRun(ctx, r, name)
	if err != nil {
		return err
	}
	return look(ctx, r, entry)
}

// findRun finds a run by its id, a unique beginning of it, or the time that its
// folder is called after.
func (a *app) findRun(ctx context.Context, r *builtin.Runtime, prefix string) (journal.Entry, error) {
	root := filepath.Dir(r.Dir())
	ids := byStamp(root, prefix)
	if len(ids) == 0 {
		ids = []string{prefix}
	}
	var found []journal.Entry
	for _, id := range ids {
		for entry, err := range r.Store.Runs(ctx, journal.Filter{Prefix: strings.ToLower(id), Children: true, Limit: 6}) {
			if err != nil {
				return journal.Entry{}, err
			}
			found = append(found, entry)
		}
	}
	switch {
	case prefix == "":
		return journal.Entry{}, usage(`"espalier runs" lists them.`, "a run is named by its id, or the beginning of it")
	case len(found) == 0:
		return journal.Entry{}, usage(`"espalier runs" lists them.`+a.otherRuns(root), "there is no run %q", prefix)
	case len(found) > 1:
		var ids []string
		for _, e := range found {
			ids = append(ids, "  "+string(e.ID)+"  "+e.Name)
		}
		return journal.Entry{}, usage("Write more of the id of one:\n"+strings.Join(ids, "\n"), "%q stands for several runs", prefix)
	}
	return found[0], nil
}

// otherRuns names the projects within this one that have runs of their own:
// each is known only there.
func (a *app) otherRuns(root string) string {
	found, err := a.discover()
	if err != nil {
		return ""
	}
	var dirs []string
	for _, w := range found.workflows {
		if w.Scope != project.OfProject {
			continue
		}
		other := project.FindRoot(filepath.Dir(w.analysis.file.Abs))
		if _, err := os.Stat(filepath.Join(other, storage, "espalier.db")); err == nil && other != root {
			dirs = append(dirs, a.display(other))
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	slices.Sort(dirs)
	return " Projects with runs of their own: " + strings.Join(slices.Compact(dirs), ", ") + "."
}

// actor is the user of the operating system, and whom they claim to be.
func actor(as string) journal.Actor {
	who := journal.Actor{As: as}
	if u, err := user.Current(); err == nil {
		who.User = u.Username
	}
	return who
}

// drive shows a run's progress until it has come to rest, and reports its
// state. begin starts the run, or sends it a message; if the message is refused
// and this process holds the run, the run is driven all the same.
func (a *app) drive(r *builtin.Runtime, id journal.RunID, begin func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done, err := r.Console(id, a.consoleForm(), a.consoleWriter(), a.colorErr && !a.json, func() (int, int) {
		if f, ok := a.Stderr.(*os.File); ok {
			if columns, rows, err := term.GetSize(int(f.Fd())); err == nil {
				return columns, rows
			}
		}
		return a.columns(), 24
	})
	if err != nil {
		return err
	}
	go r.Engine.Listen(ctx)
	signals, release := a.Signals.handle()
	defer release()
	rested := make(chan struct{})
	var entry journal.Entry
	go func() {
		defer close(rested)
		entry, err = r.Engine.Drive(ctx, id, begin)
	}()
	select {
	case <-rested:
		release()
		if flushed := done(); err == nil && flushed != nil && !readerGone(flushed) {
			a.note("The progress could not be shown to the end: %v", flushed)
		}
		if err != nil {
			return a.runTrouble(r, id, err)
		}
		return a.told(r, entry)
	case first := <-signals:
		a.park(r, first, signals)
	}
	<-rested
	release() // from here on a signal ends the program
	done()
	return a.interrupted(r, id, err)
}

// readerGone reports whether output failed because its reader or the terminal
// is gone.
func readerGone(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) }

// park stops the engine because of a signal. Tasks that may be done again are
// canceled at once. Others are waited for: after an interrupt from the keyboard
// until the next signal, after another signal for the grace period at most. It
// returns when the engine holds no run.
func (a *app) park(r *builtin.Runtime, first os.Signal, signals <-chan os.Signal) {
	var grace <-chan time.Time
	if first == os.Interrupt {
		a.note("\nStopping when the running steps have finished. Interrupt again to stop now.")
	} else {
		a.note("\nStopping. Running steps have %s to finish.", r.GracePeriod)
		timer := time.NewTimer(r.GracePeriod)
		defer timer.Stop()
		grace = timer.C
	}
	now, parked := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-grace:
		case <-parked:
			return
		}
		close(now)
	}()
	r.Engine.Close(now)
	close(parked)
}

// interrupted reports the state of a run after a signal, as the store has it:
// the run may have come to rest, or another process may drive it.
func (a *app) interrupted(r *builtin.Runtime, id journal.RunID, err error) error {
	entry, unknown := r.Store.Entry(context.Background(), id)
	if unknown != nil {
		return a.runTrouble(r, id, cmp.Or(err, unknown))
	}
	atRest, err := restsAnyway(r, entry)
	if err != nil {
		return err
	}
	if atRest || entry.Status == journal.Running && entry.Owner != "" && r.Process.Drives(entry.Owner) {
		return a.told(r, entry)
	}
	if a.json {
		if err := a.finalJSON(result{Run: id, Workflow: entry.Name, Outcome: "interrupted"}); err != nil {
			return err
		}
	}
	return &failure{code: exitInterrupted, message: fmt.Sprintf("run %s is parked", short(id)), help: parkedHelp(r, id)}
}

// restsAnyway reports whether a run has come to rest, and not only because it
// was interrupted: a task that was cut off is in doubt.
func restsAnyway(r *builtin.Runtime, entry journal.Entry) (bool, error) {
	if entry.Status != journal.Waiting {
		return entry.Status != journal.Running && entry.Status != journal.Sleeping, nil
	}
	state, _, _, err := r.Engine.Load(context.Background(), entry.ID)
	if err != nil {
		return false, err
	}
	doubt := func(f *plan.Frame) bool { return f.Gate.Kind == journal.GateInDoubt }
	return !slices.ContainsFunc(state.OpenGates(), doubt), nil
}

// parkedHelp says how to go on with a run that was interrupted: what was cut off
// may have to be decided on first.
func parkedHelp(r *builtin.Runtime, id journal.RunID) string {
	ctx := context.Background()
	if entry, err := r.Store.Entry(ctx, id); err == nil && entry.Status == journal.Waiting {
		if state, _, _, err := r.Engine.Load(ctx, id); err == nil {
			return waitingHelp(entry, state)
		}
	}
	return "To go on: espalier resume " + short(id)
}

func (a *app) consoleForm() builtin.ConsoleForm {
	switch {
	case a.json:
		return builtin.ConsoleJSON
	case a.IsTerminal(a.Stderr):
		return builtin.ConsoleLive
	}
	return builtin.ConsoleLines
}

func (a *app) consoleWriter() io.Writer {
	if a.json {
		return terminal.JSON(a.stdout)
	}
	return a.paintedErr()
}

// letGo gives the runs up at once: nothing of them is being done here.
func letGo(r *builtin.Runtime) {
	now := make(chan struct{})
	close(now)
	r.Engine.Close(now)
	r.Process.Wake("") // somebody may be there to go on with them
}

// short is as much of a run's id as people need.
func short(id journal.RunID) string { return string(id)[:8] }

// told prints what came of a run, and turns it into an exit code.
func (a *app) told(r *builtin.Runtime, entry journal.Entry) error {
	ctx := context.Background()
	if entry.Status == journal.Finished {
		return a.toldEnd(ctx, r, entry)
	}
	state, _, _, err := r.Engine.Load(ctx, entry.ID)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.finalJSON(result{Run: entry.ID, Workflow: entry.Name, Outcome: journal.Outcome(entry.Status), Waiting: entry.Waiting}); err != nil {
			return err
		}
	}
	switch entry.Status {
	case journal.Exceeded:
		return &failure{
			code: exitBudget, message: fmt.Sprintf("run %s has used up a budget (%s)", short(entry.ID), entry.Waiting),
			help: fmt.Sprintf("To go on with more: espalier resume %s --raise %s", short(entry.ID), raiseHint(state)),
		}
	case journal.Waiting, journal.PausedAt, journal.Sleeping:
		return &failure{code: exitWaiting, message: fmt.Sprintf("run %s is waiting (%s)", short(entry.ID), entry.Waiting), help: waitingHelp(entry, state)}
	}
	// It was said to the process that has the run.
	a.note("Recorded. Another process is working on run %s%s.", short(entry.ID), whose(r, entry.Owner))
	return nil
}

// toldEnd prints how a run ended.
func (a *app) toldEnd(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
	end, err := r.Engine.Ending(ctx, entry)
	if err != nil {
		return err
	}
	output, err := r.Engine.Raw(end.Output)
	if err != nil {
		return err
	}
	if a.json {
		err = a.finalJSON(result{Run: entry.ID, Workflow: entry.Name, Outcome: end.Outcome, Reason: end.Reason, Error: end.Error, Output: output})
	} else if end.Outcome == journal.OutcomeOK {
		err = a.printValue(output)
	}
	if err != nil || end.Outcome == journal.OutcomeOK {
		return err
	}
	code := exitFailed
	if end.Status > 0 && end.Status < 256 {
		code = end.Status
	}
	why := end.Error
	if why == "" {
		why = end.Reason
	}
	help := fmt.Sprintf("To see what happened: espalier transcript %s --pretty", short(entry.ID))
	if end.Outcome == journal.OutcomeFailed && end.Last != "" {
		state, program, _, err := r.Engine.Load(ctx, entry.ID)
		if err != nil {
			return err
		}
		step, err := goOnFrom(ctx, r, entry, state, program)
		if err != nil {
			return err
		}
		if step != "" {
			help += fmt.Sprintf("\nTo go on from there, with what was done and paid before: espalier resume %s --from %s", short(entry.ID), step)
		}
	}
	return &failure{code: code, message: runSentence(entry, end.Outcome, why), help: help}
}

// goOnFrom is the step by which somebody goes on with a run that failed: the one
// that came last, or the one that led there when that only ends the run or
// nobody wrote it. It is empty when there is none.
func goOnFrom(ctx context.Context, r *builtin.Runtime, entry journal.Entry, state *plan.State, program *plan.Program) (string, error) {
	last := state.Finished.Last
	step := program.Root().Step(ir.Body, last)
	if step == nil {
		return last, nil
	}
	if _, ends := step.Action.(ir.End); !ends && !step.Implied {
		return last, nil
	}
	way, failed, err := mainLine(ctx, r, entry.ID, program.Root())
	switch {
	case err != nil || len(way) == 0:
		return "", err
	case failed >= 0:
		return way[failed], nil
	}
	return way[len(way)-1], nil
}

func runSentence(entry journal.Entry, outcome journal.Outcome, why string) string {
	text := fmt.Sprintf("run %s of %s %s", short(entry.ID), entry.Name, map[journal.Outcome]string{
		journal.OutcomeFailed: "failed", journal.OutcomeRejected: "was rejected", journal.OutcomeCancelled: "was cancelled",
	}[outcome])
	if why = strings.TrimSpace(why); why != "" { // what commands say ends with a new line
		text += ": " + why
	}
	return text
}

// raiseHint is the budget that a run lacks, with a figure that would do for a while.
func raiseHint(s *plan.State) string {
	root := s.Root()
	budget := plan.BudgetDeadline
	if len(s.BudgetWaiters) > 0 {
		budget = s.BudgetWaiters[0].Budget
	}
	name := report.BudgetName(budget)
	if root == nil || root.Ledger.Limit(budget) == nil {
		return name + "=N"
	}
	enough := 2 * max(1, *root.Ledger.Limit(budget))
	if budget == plan.BudgetMoney {
		return fmt.Sprintf("%s=%s", name, strings.TrimPrefix(price.Dollars(enough), "$"))
	}
	return fmt.Sprintf("%s=%d", name, enough)
}

// waitingHelp says what somebody can do for a run that waits.
func waitingHelp(entry journal.Entry, s *plan.State) string {
	id := short(entry.ID)
	if s.Paused {
		return "To go on: espalier resume " + id
	}
	var lines []string
	doubts := false
	for _, f := range s.OpenGates() {
		switch f.Gate.Kind {
		case journal.GatePerson, journal.GateToolCall:
			lines = append(lines, fmt.Sprintf("To decide: espalier approve %s %s   (or reject; espalier status %s shows what is asked)", id, f.Place().Key(), id))
		case journal.GateEvent:
			lines = append(lines, fmt.Sprintf("To send the event: espalier signal %s %s", id, f.Gate.Event))
		case journal.GateInDoubt:
			lines = append(lines, fmt.Sprintf("Nobody knows whether %s was done. To decide: espalier resume %s --decide %s=rerun|skip|fail|result=JSON", f.Place().Key(), id, f.Place().Key()))
			doubts = true
		}
	}
	if doubts {
		lines = append(lines, fmt.Sprintf("To do again whatever is in doubt: espalier resume %s --from %s", id, fromCurrent))
	}
	return strings.Join(lines, "\n")
}

// result is the last line of a stream of events. The outcome of a run that is
// not over is its status, or that it was interrupted.
type result struct {
	Run      journal.RunID   `json:"run_id"`
	Workflow string          `json:"workflow"`
	Outcome  journal.Outcome `json:"outcome"`
	Reason   string          `json:"reason"`
	Error    string          `json:"error"`
	Output   json.RawMessage `json:"output"`
	Waiting  string          `json:"waiting,omitempty"` // for whom or what
}

// finalJSON says how a run stands, whatever became of it.
func (a *app) finalJSON(r result) error {
	line, err := json.Marshal(struct {
		Event string `json:"event"`
		result
	}{"result", r})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(terminal.JSON(a.stdout), "%s\n", line)
	return err
}

// printValue prints a result for people and pipes: text as it is, anything
// else as indented JSON.
func (a *app) printValue(raw json.RawMessage) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		_, err := fmt.Fprintln(a.stdout, strings.TrimSuffix(text, "\n"))
		return err
	}
	return a.writeJSON(readableJSON(raw))
}

// runTrouble turns what engines and stores say into what a person can act on.
func (a *app) runTrouble(r *builtin.Runtime, id journal.RunID, err error) error {
	var (
		owned  *journal.OwnedError
		said   *failure
		reason *plan.Refusal
	)
	switch {
	case errors.As(err, &said):
		return said
	case errors.As(err, &owned):
		return &failure{code: exitNotReady, message: "another process is working on this run" + whose(r, owned.Owner), help: fmt.Sprintf("It goes on by itself; \"espalier status %s\" shows how it stands.", short(id))}
	case errors.As(err, &reason):
		return &failure{code: exitUsage, message: reason.Why, help: fmt.Sprintf("\"espalier status %s\" shows how the run stands and what it asks.", short(id))}
	case errors.Is(err, engine.ErrNotReached):
		return &failure{code: exitUsage, message: err.Error(), help: fmt.Sprintf("\"espalier transcript %s --pretty\" shows which steps it has come to.", short(id))}
	case errors.Is(err, journal.ErrFinished):
		return &failure{code: exitUsage, message: "the run is over", help: fmt.Sprintf("\"espalier output %[1]s\" prints its result; \"espalier resume %[1]s --from STEP\" does a part of it again, in another run.", short(id))}
	case errors.Is(err, journal.ErrExists):
		return usage(fmt.Sprintf("Leave --run-id out to have one made; \"espalier status %s\" shows the run that there is.", short(id)), "there is a run %s already", id)
	case errors.Is(err, engine.ErrClosed):
		return &failure{code: exitInterrupted, message: "interrupted"}
	case damaged(err):
		return &failure{code: exitNotReady, message: err.Error(), help: storageHelp(err)}
	case errors.Is(err, journal.ErrNotKept):
		return &failure{code: exitNotReady, message: err.Error(), help: fmt.Sprintf("Look at the disk first: its last writes may be lost. Then \"espalier resume %s\" goes on from what it has kept.", short(id))}
	case errors.Is(err, journal.ErrFull):
		return &failure{code: exitNotReady, message: err.Error(), help: fmt.Sprintf("What was done so far is kept. Make room on the disk; \"espalier resume %s\" goes on from there.", short(id))}
	}
	return &failure{code: exitNotReady, message: err.Error(), help: fmt.Sprintf("What was done so far is kept; \"espalier resume %s\" goes on from there.", short(id))}
}

// whose says which process it is that owns a run, as far as it can be told.
func whose(r *builtin.Runtime, o journal.Owner) string {
	info, err := r.Process.Describe(o)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %s, process %d on %s, since %s", info.Command, info.PID, info.Host, info.Since.Local().Format(time.TimeOnly))
}

var stampForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}$`) })

// byStamp is the ids of Agentfile runs whose folders are called after the time
// at which they began, in either of the two layouts (G5). Runs of different
// workflows may have begun at one time.
func byStamp(root, stamp string) []string {
	if !stampForm().MatchString(stamp) {
		return nil
	}
	var ids []string
	const state = "execution-state.json"
	states, _ := filepath.Glob(filepath.Join(root, "outputs", "*", stamp, "execution", state)) // both patterns are good ones
	more, _ := filepath.Glob(filepath.Join(root, "workflows", "*", "outputs", stamp, state))
	for _, name := range append(states, more...) {
		raw, err := os.ReadFile(name)
		var state struct {
			Run string `json:"espalier_run"`
		}
		if err == nil && json.Unmarshal(raw, &state) == nil && state.Run != "" {
			ids = append(ids, state.Run)
		}
	}
	return ids
}
