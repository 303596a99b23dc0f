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
	"strings"
	"syscall"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// actor returns the user of the operating system, and whom they claim to be, as records have it. The claim is not
// verified.
func actor(as string) journal.Actor {
	who := journal.Actor{As: as}
	if u, err := user.Current(); err == nil {
		who.User = u.Username
	}
	return who
}

func (a *invocation) display(path string) string { return a.app().Display(path) }

// folder names a folder within a sentence.
func (a *invocation) folder(path string) string { return folder(a.display(path)) }

// find finds a run by its name, on the server that ESPALIER_SERVER names, if it names one.
func (a *invocation) find(name string) (*app.Run, error) {
	if err := a.connect(); err != nil {
		return nil, err
	}
	return a.runs().Find(context.Background(), name)
}

// rootRun finds a run by its name; for a child run, it returns the run that it is a part of.
func (a *invocation) rootRun(name string) (*app.Run, error) {
	found, err := a.find(name)
	if err != nil {
		return nil, err
	}
	run, err := a.runs().RootRun(context.Background(), found)
	if err == nil && run.ID != found.ID {
		a.note("%s is a part of run %s.", found.ID.Short(), run.ID.Short())
	}
	return run, err
}

// minPrefix is how much of a run's id a command needs that changes the run. A shorter prefix is too easily that of
// another run.
const minPrefix = 4

// changedRun is rootRun for commands that change the run.
func (a *invocation) changedRun(name string) (*app.Run, error) {
	if err := longEnough(name); err != nil {
		return nil, err
	}
	return a.rootRun(name)
}

func longEnough(name string) error {
	if name == "" || len(name) >= minPrefix {
		return nil
	}
	return usage("\"espalier runs\" lists the IDs.",
		"%q is too short: a command that changes a run needs at least %d characters of its ID", name, minPrefix)
}

// drive shows a run's progress until it is at rest, and reports its state. begin starts the run, or sends it a message;
// it is called after the progress is being followed, so that no event is missed. With a server, j is nil.
func (a *invocation) drive(j *app.Journal, id journal.RunID, begin func(ctx context.Context) error) error {
	a.showID(id)
	run, err := a.driveToRest(j, id, begin)
	if err != nil || run == nil {
		return err
	}
	return a.reportRest(run)
}

// showID shows a person at a terminal the id of a run before it continues.
func (a *invocation) showID(id journal.RunID) {
	if a.IsTerminal(a.Stderr) && !a.quiet {
		a.note("Run %s", id)
	}
}

// reportRest reports a run that has come to rest, to a person at a terminal with its id.
func (a *invocation) reportRest(run *app.Run) error {
	if a.IsTerminal(a.Stderr) && !a.quiet && run.Status == journal.Finished && run.Outcome == journal.OutcomeOK {
		a.note("Run %s: %s", run.ID, statusText(run)) // that of others is in the message at the end
	}
	return a.reportRun(run)
}

// driveToRest shows a run's progress until it is at rest. After a signal it reports the state of the run, and returns
// no run. The run is driven in a goroutine, and this one waits for signals: a signal parks the application, which makes
// Wait return.
func (a *invocation) driveToRest(j *app.Journal, id journal.RunID, begin func(ctx context.Context) error) (
	run *app.Run, err error,
) {
	if a.server != nil {
		return a.sendAndFollow(id, begin)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done, err := a.showProgress(j, id)
	if err != nil {
		return nil, err
	}
	signals, release := a.Signals.handle()
	defer release()
	// Closing rested publishes run and err to this goroutine.
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		if err = begin(ctx); err == nil {
			run, err = a.app().Wait(ctx, id)
		}
	}()
	select {
	case <-rested:
		release()
		if flushed := done(); err == nil && flushed != nil && !readerGone(flushed) {
			a.note("The progress could not be shown to the end: %v", flushed)
		}
		if run != nil {
			a.shown = run.Seq
		}
		return run, err
	case first := <-signals:
		a.park(first, signals)
	}
	<-rested
	release() // from here on a signal ends the program
	done()
	return nil, a.interrupted(id, err)
}

// readerGone reports whether output failed because its reader or the terminal is gone.
func readerGone(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) }

// park stops driving runs because of a signal. Running commands and calls of models and tools may finish: after an
// interrupt from the keyboard until the next signal, after another signal for the grace period at most. It returns when
// no run is held.
func (a *invocation) park(first os.Signal, signals <-chan os.Signal) {
	a.parkFor(first, signals, false)
}

// parkOrReload is park for commands that reload their configuration after SIGHUP. Further SIGHUP signals change
// nothing. It returns the signal that decides what follows: a signal to stop during a reload ends the command. Without
// a signal, the process was drained.
func (a *invocation) parkOrReload(first os.Signal, signals <-chan os.Signal) os.Signal {
	if first != nil {
		return a.parkFor(first, signals, true)
	}
	a.parkFor(os.Interrupt, signals, true)
	a.note("Drained; other workers continue the runs.")
	return nil
}

// parkFor implements park and parkOrReload. It returns the signal that decides what follows.
//
// Park stops new work first and then calls its callback: only from then on are further signals received and the grace
// period counted. A signal during the wait cancels what is running, except that SIGHUP is ignored in a reload, and the
// first other signal in a reload turns it into a stop. decisive is written before received is closed, and read after.
func (a *invocation) parkFor(first os.Signal, signals <-chan os.Signal, reloads bool) (decisive os.Signal) {
	period := a.app().GracePeriod()
	grace := time.NewTimer(period)
	defer grace.Stop()
	begin := func(sig os.Signal) {
		decisive = sig
		if sig == os.Interrupt {
			grace.Stop()
			a.note("\nWaiting for running commands and calls. Press Ctrl-C again to stop now.")
			return
		}
		grace.Reset(period)
		a.note("\nStopping. Running commands and calls have %s to finish.", period)
	}
	now, parked, received := make(chan struct{}), make(chan struct{}), make(chan struct{})
	receive := func() {
		defer close(received)
		for {
			select {
			case sig := <-signals:
				if reloads && sig == syscall.SIGHUP {
					continue
				}
				if reloads && decisive == syscall.SIGHUP {
					begin(sig)
					continue
				}
			case <-grace.C:
			case <-parked:
				return
			}
			close(now)
			return
		}
	}
	a.app().Park(now, func() { begin(first); go receive() })
	close(parked)
	<-received
	return decisive
}

// interrupted reports the state of a run after a signal, read from the store: the run may be at rest, or another
// process may drive it. err is the error of driving, which counts only if the state is not known.
func (a *invocation) interrupted(id journal.RunID, err error) error {
	ctx := context.Background()
	if a.server != nil {
		return a.leftRunning(id)
	}
	run, unknown := a.app().Get(ctx, id)
	if unknown != nil {
		return cmp.Or(err, unknown)
	}
	state, help, interrupted := "is interrupted", "To continue: espalier resume "+id.Short(), true
	atRest := run.Status.AtRest()
	if run.Status == journal.Waiting {
		status, err := a.runs().Status(ctx, id)
		if err != nil {
			return err
		}
		// The outcome of an interrupted task is unknown.
		state, help, interrupted = stateClause(run), waitingHelp(status), false
		atRest = !status.OutcomeUnknown()
	}
	if atRest || run.Driver != nil {
		return a.reportRun(run)
	}
	if err := a.writeInterrupted(run); err != nil {
		return err
	}
	if others, err := a.app().Workers(ctx); err == nil && interrupted {
		for _, w := range others {
			if w.Works && !w.Draining {
				state = "is left to another process"
				help = fmt.Sprintf("Process %d on %s continues it. To stop the run: espalier pause %s",
					w.PID, w.Host, id.Short())
			}
		}
	}
	help += a.outputLater(id, whenFinished)
	return fail(ExitInterrupted, help, "run %s %s", id.Short(), state)
}

// reportRun prints what came of a run, and turns it into an exit code. With --json it prints the one object of the
// command before it returns the failure, so that scripts get both.
func (a *invocation) reportRun(run *app.Run) error {
	ctx := context.Background()
	if run.Status == journal.Finished {
		return a.reportEnd(run)
	}
	status, err := a.runs().Status(ctx, run.ID)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.writeResult(api.NewResult(run, nil, status)); err != nil {
			return err
		}
	}
	switch run.Status {
	case journal.Exceeded:
		budget, err := a.runs().Exhausted(ctx, run.ID)
		if err != nil {
			return err
		}
		message := fmt.Sprintf("run %s has exhausted its %s", run.ID.Short(), run.Waiting.Words())
		if words := report.ShortfallWords(budget.Name, budget.Next, budget.Left); words != "" {
			message = fmt.Sprintf("run %s is paused: %s", run.ID.Short(), words)
		}
		return fail(exitBudget, raiseHelp(run.ID, budget)+a.outputLater(run.ID, whenFinished), "%s", message)
	case journal.Waiting, journal.PausedAt, journal.Sleeping:
		help := strings.TrimPrefix(waitingHelp(status)+a.outputLater(run.ID, whenFinished), "\n")
		return fail(exitWaiting, help, "run %s %s", run.ID.Short(), stateClause(run))
	}
	driver := ""
	if run.Driver != nil {
		driver = ": " + run.Driver.String()
	}
	a.note("Recorded. Another process is driving run %s%s.", run.ID.Short(), driver)
	return nil
}

const whenFinished = "When the run has finished"

// reportEnd prints how a run ended.
func (a *invocation) reportEnd(run *app.Run) error {
	end, err := a.runs().Ending(context.Background(), run)
	if err != nil {
		return err
	}
	if a.json {
		err = a.writeResult(api.NewResult(run, end, nil))
	}
	if err == nil && end.Outcome == journal.OutcomeOK && (!a.json || a.outputFile != "") {
		err = a.printValue(end.Output)
	}
	if failed := new(failure); a.outputFile != "" && errors.As(err, &failed) {
		failed.help = strings.TrimPrefix(a.outputLater(run.ID, "The run has finished"), "\n")
		return failed
	}
	if err != nil || end.Outcome == journal.OutcomeOK {
		return err
	}
	// AWF workflows choose their exit status; the others have 0 here.
	code := exitFailed
	if end.Status > 0 && end.Status < 256 {
		code = end.Status
	}
	help := fmt.Sprintf("To see what happened: espalier transcript %s --pretty", run.ID.Short())
	switch {
	case end.From == "":
	case a.scripted(run):
		help += "\nA run always uses the script that it was started with. To try again, correct the script and " +
			"start a new run."
	default:
		help += fmt.Sprintf(
			"\nTo retry from this step and keep earlier results: espalier resume %s --from %s",
			run.ID.Short(), end.From)
	}
	return fail(code, help, "%s", runSentence(run, end))
}

// scripted reports whether the replies of a run are those of a script.
func (a *invocation) scripted(run *app.Run) bool {
	status, err := a.runs().Status(context.Background(), run.ID)
	return err == nil && status.Offline == journal.OfflineScripted
}

func runSentence(run *app.Run, end *app.Ending) string {
	how := journal.OutcomeWord(end.Outcome)
	if end.Outcome != journal.OutcomeFailed {
		how = "was " + how
	}
	text := fmt.Sprintf("run %s of %s %s", run.ID.Short(), run.Name, how)
	// What commands print ends with a new line.
	why := strings.TrimSpace(cmp.Or(end.Error, report.ReasonWords(end.Reason)))
	if why != "" {
		text += ": " + why
	}
	return text
}

// raiseHelp returns the command that raises the budget that a run waits for.
func raiseHelp(run journal.RunID, b app.Exhausted) string {
	return fmt.Sprintf("To continue with more: espalier resume %s --raise %s", run.Short(), raiseHint(b))
}

// raiseHint suggests a value for a budget with which the run can continue.
func raiseHint(b app.Exhausted) string {
	name := journal.BudgetName(b.Name)
	if b.Limit == nil {
		return name + "=N"
	}
	if b.Name == ir.BudgetMoney {
		return fmt.Sprintf("%s=%s", name, strings.TrimPrefix(price.Dollars(b.Enough), "$"))
	}
	return fmt.Sprintf("%s=%d", name, b.Enough)
}

// waitingHelp returns what a person can do for a run that waits.
func waitingHelp(s *app.Status) string {
	id, evidence := s.ID.Short(), ""
	var lines []string
	if s.Paused {
		lines = append(lines, "To continue: espalier resume "+id)
	}
	for _, g := range s.Gates {
		ask := askOf(s, &g)
		switch g.Kind {
		case journal.AskApproval, journal.AskToolApproval:
			if len(s.Decisions("")) <= 1 { // the step need not be named
				ask = report.AskOf(g.Kind, s.ID, "", "")
			}
			lines = append(lines, ask.Aim+": "+ask.Command+"   or   "+ask.Other)
			evidence = "To see what is asked: espalier status " + id
		case journal.AskInput:
			lines = append(lines, ask.Aim+": "+ask.Command+
				"\n  or espalier resume "+id+"   (without a text, the conversation ends)")
		case journal.AskEvent:
			lines = append(lines, ask.Aim+": "+ask.Command)
		case journal.AskOutcome:
			lines = append(lines, fmt.Sprintf("It is unknown whether %s was done. %s:\n  %s   %s", s.GateName(&g),
				ask.Aim, ask.Command, ask.Remark))
		}
	}
	if s.OutcomeUnknown() {
		lines = append(lines, "To repeat every step with an unknown outcome:",
			fmt.Sprintf("  espalier resume %s --from %s", id, app.FromCurrent))
	}
	if evidence != "" {
		lines = append(lines, evidence)
	}
	return strings.Join(lines, "\n")
}

// writeInterrupted prints the result of a run that this process stops to drive or to watch, with --json.
func (a *invocation) writeInterrupted(run *app.Run) error {
	if !a.json {
		return nil
	}
	last := api.NewResult(run, nil, nil)
	last.Outcome = string(journal.StateInterrupted)
	return a.writeResult(last)
}

// writeResult prints the one JSON object of a command that acts on a run.
func (a *invocation) writeResult(r api.Result) error {
	a.resulted = true
	if !a.follow {
		return a.writeJSON(r)
	}
	type line struct {
		Event string `json:"event"`
		api.Result
	}
	return writeLines(a, []line{{"result", r}}, func(l *line) *line { return l })
}

// printValue prints a result for people and pipes: text as it is, anything else as indented JSON.
func (a *invocation) printValue(raw json.RawMessage) error {
	text := strings.TrimSuffix(valueText(raw), "\n") + "\n"
	if a.outputFile != "" {
		return a.writeOutputFile(text)
	}
	_, err := io.WriteString(a.stdout, text)
	return err
}

// checkOutputFile returns an error if the file of --output cannot be written, before there is something to lose. It
// opens the file without truncating it, and removes it again if it has created it.
func (a *invocation) checkOutputFile() error {
	if a.outputFile == "" {
		return nil
	}
	full, err := a.target(a.outputFile)
	if err != nil {
		return err
	}
	info, missing := os.Stat(full)
	if missing == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // opening a pipe and closing it would end the work of its reader
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return cannotWrite(a.outputFile, err)
	}
	if err := f.Close(); err != nil {
		return cannotWrite(a.outputFile, err)
	}
	if missing != nil {
		return os.Remove(full) // the run writes it when it has finished
	}
	return nil
}

// outputLater says how to get the output of a run that has not been written to the file of --output.
func (a *invocation) outputLater(id journal.RunID, when string) string {
	if a.outputFile == "" {
		return ""
	}
	return fmt.Sprintf("\n%s was not written. %s: espalier output %s > %s", a.outputFile, when, id.Short(),
		shellWord(a.outputFile))
}

// writeOutputFile writes the output of a run to the file of --output.
func (a *invocation) writeOutputFile(text string) error {
	full, err := a.target(a.outputFile)
	if err != nil {
		return err
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		return cannotWrite(a.outputFile, err)
	}
	return nil
}
