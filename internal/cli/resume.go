package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// resumeFlags are the flags of resume.
type resumeFlags struct {
	raise, decide, set []string
	from               string
	script             string // refused: a run keeps its script
}

func (a *invocation) resumeCommand() *cobra.Command {
	var f resumeFlags
	cmd := &cobra.Command{
		Use: "resume RUN [--raise BUDGET=N]… [--decide STEP=rerun|skip|fail|result=JSON]… [--from " +
			"STEP|current|previous [--set NAME=VALUE]…]",
		Short: "Resume a run",
		Long: `Resume a run where it stopped: after a crash, an interruption or a pause, with a
higher budget, or after you resolve a step whose outcome is unknown. The run
continues with the workflow, the options and the script of replies as they were
when it started; files that have changed since are listed.

--from goes back to an earlier step of the run's main line: what earlier steps
wrote is kept, and the rest is repeated. "current" is the step that the run is
at or failed at, "previous" the one before. A finished run stays as it is; a new
run starts at that step with its values.

--set edits a variable of that new run before its first step, so that a failed
run can be corrected and retried at once. VALUE is JSON, or else text. The
workflow has to allow it (human_in_the_loop), and the change is recorded.`,
		Example: `  espalier resume 3f2a
  espalier resume 3f2a --raise tokens=200000
  espalier resume 3f2a --from send --set state.contact=desk@example.org`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.tryServerFirst(func() error { return a.resume(args[0], &f) })
		},
	}
	flags := a.driveFlags(cmd).Flags()
	flags.StringArrayVar(&f.raise, "raise", nil, "raise a budget: `BUDGET=N`, with one of "+strings.Join(raisable(),
		", ")+", or by its name in the workflow, such as max_tokens")
	flags.StringVar(&f.from, "from", "",
		"go back to this `STEP`, with the values that the run had when it reached the step")
	flags.StringArrayVar(&f.set, "set", nil, "with --from: edit a variable of the new run: `NAME=VALUE`")
	flags.StringArrayVar(&f.decide, "decide", nil, "resolve a step whose outcome is unknown: `STEP=ANSWER`")
	flags.StringVar(&f.script, "script", "", "")
	flags.MarkHidden("script") // people try it, because run has it
	cmd.RegisterFlagCompletionFunc("from", offer(a.placesOfRun))
	cmd.RegisterFlagCompletionFunc("decide", offerPrefixes(a.unknownOutcomes))
	cmd.RegisterFlagCompletionFunc("raise", offerPrefixes(budgetsToRaise))
	return cmd
}

// resume resumes a run, on the server of the project if one is running. A run that has finished meanwhile is reported
// as it is.
func (a *invocation) resume(name string, f *resumeFlags) error {
	if f.script != "" {
		return usage("Start a new run to play another script: espalier run WORKFLOW --script "+shellWord(f.script),
			"the script of a run cannot be changed")
	}
	messages, err := f.messages()
	if err != nil {
		return err
	}
	set, err := parseEdits(f.set)
	if err != nil {
		return err
	}
	if len(set) > 0 && f.from == "" {
		return usage("Name the step with --from, or use \"espalier edit\" for a run that waits.", "--set needs --from")
	}
	run, err := a.changedRun(name)
	if err != nil {
		return err
	}
	request := app.ResumeRequest{Run: run.ID, Messages: messages, From: f.from, Set: set, By: actor("")}
	if a.server != nil {
		err = a.resumeOnServer(run, request)
	} else {
		err = a.resumeHere(run, request)
	}
	if known, ok := errors.AsType[*app.Error](err); ok && known.Reason == app.RunFinished && len(messages) == 0 {
		a.note("Run %s has finished.", run.ID.Short())
		if run, err = a.rootRun(string(run.ID)); err != nil { // it may have been waiting when it was read
			return err
		}
		return a.reportRun(run)
	}
	return err
}

// resumeHere resumes a run in this process. r.Run is the run to drive: the same one, or a new one that continues a
// finished run.
func (a *invocation) resumeHere(run *app.Run, request app.ResumeRequest) error {
	ctx, project := context.Background(), a.app()
	r, err := project.PrepareResume(ctx, request)
	if err != nil {
		return err
	}
	a.noteChanged(r.Changed)
	j, err := project.Journal(ctx, run.ID)
	if err != nil {
		return err
	}
	return a.converse(j, r.Run, func(ctx context.Context) error {
		err := project.Resume(ctx, r)
		if err == nil && r.Step != "" {
			a.note("Run %s has finished and stays as it is; run %s continues from %s.", r.Of.Short(), r.Run.Short(),
				journal.PlaceName(r.Step))
		}
		return err
	})
}

// noteChanged prints which files of a run have changed since it started.
func (a *invocation) noteChanged(files []app.ChangedFile) {
	for _, file := range files {
		if file.Gone {
			a.note("%s no longer exists; the run continues with the version that it started with.", file.Path)
		} else {
			a.note("%s has changed since the run started; the run continues with the version that it started with.",
				file.Path)
		}
	}
}

// messages parses the flags.
func (f *resumeFlags) messages() ([]app.Message, error) {
	var out []app.Message
	for _, one := range f.raise {
		m, err := parseRaise(one)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	for _, one := range f.decide {
		m, err := parseDecide(one)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// parseRaise parses BUDGET=N.
func parseRaise(text string) (app.Message, error) {
	name, limit, ok := strings.Cut(text, "=")
	if !ok {
		return nil, usage("Write --raise tokens=200000.", "--raise %q is not BUDGET=N", text)
	}
	return app.ParseRaise(name, limit)
}

// parseDecide parses STEP=ANSWER.
func parseDecide(text string) (app.Message, error) {
	step, answer, ok := strings.Cut(text, "=")
	answer, value, _ := strings.Cut(answer, "=")
	m := app.Resolve{Step: step, Answer: journal.Answer(answer)}
	switch {
	case !ok:
		return nil, usage("Write --decide STEP=rerun, skip, fail, or result=JSON.", "--decide %q has no \"=\"", text)
	case m.Answer == journal.AnswerResult && json.Valid([]byte(value)):
		m.Value = json.RawMessage(value)
	case m.Answer == journal.AnswerResult:
		return nil, usage(`Write the result as JSON, as in --decide send='result={"sent": true}'.`,
			"the result in --decide %q is not JSON", text)
	case !slices.Contains(journal.OutcomeAnswers, m.Answer):
		return nil, usage("Write rerun, skip, fail, or result=JSON.", "unknown answer %q", answer)
	}
	return m, nil
}

// raisable returns the budgets, with that of money in dollars.
func raisable() []string {
	out := app.Budgets()
	for i := range out {
		out[i] = journal.BudgetName(out[i])
	}
	return out
}

// decisionCommand returns approve or reject. Both confirm what the gate shows first, and send the digest of that with
// the decision.
func (a *invocation) decisionCommand(
	verb, about string, decide func(step, note, digest, value string) app.Message,
) *cobra.Command {
	var (
		note, as, digest, value string
		leave                   bool
	)
	cmd := &cobra.Command{
		Use:   verb + " RUN [STEP] [--note TEXT] [--as NAME] [--digest DIGEST] [--no-continue]",
		Short: about,
		Long: about + `, and continue the run.

The decision applies to exactly what the command prints; if the gate changes
first, the decision is refused. Use --digest to decide on what "espalier status
RUN" showed. --json prints the full digest.

On a terminal, "approve" asks: y approves, n rejects, and Enter leaves the gate
undecided. "reject" asks for the reason, unless --note gives it. The decision is
recorded with the user of this machine, and with the name given with --as.`,
		Example: "  espalier " + verb + " 5ff07bf3\n  espalier " + verb +
			` 5ff07bf3 sign_off --note "read with the team"`,
		Args:              takesRun(1, 2, "a run, and a step when several wait"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			step := ""
			if len(args) > 1 {
				step = args[1]
			}
			return a.tryServerFirst(func() error {
				if leave && a.server == nil {
					a.app(recordOnly)
				}
				answer, err := a.confirm(verb, args[0], step, digest, note)
				if errors.Is(err, errSignal) {
					return &failure{code: ExitInterrupted, message: "nothing was decided"}
				}
				if err != nil {
					return err
				}
				// "approve" asks on a terminal, and the person may answer no.
				if rejected, ok := answer.message.(app.Reject); ok && verb != "reject" {
					return a.send(args[0], leave, actor(as), rejected)
				}
				if approved, ok := answer.message.(app.Approve); ok && value == "" {
					value = string(approved.Value)
				}
				return a.send(args[0], leave, actor(as), decide(step, cmp.Or(note, answer.note), answer.digest, value))
			})
		},
	}
	flags := a.driveFlags(cmd).Flags()
	flags.StringVar(&note, "note", "",
		"the reason for the decision, as `TEXT`; recorded as evidence. --reason is the same")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "reason" {
			name = "note"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(&as, "as", "", "the `NAME` of the person you act for; recorded as a claim")
	flags.StringVar(&digest, "digest", "",
		"refuse the decision unless the gate still has this `DIGEST`, as printed by \"espalier status\"")
	flags.BoolVar(&leave, "no-continue", false, "record the decision and leave the run to another process")
	exclusive(cmd, "no-continue", "output")
	if verb == "approve" {
		cmd.Use = "approve RUN [STEP] [--value JSON] [--note TEXT] [--as NAME] [--digest DIGEST] [--no-continue]"
		cmd.Long += "\n\nA tool of an MCP server can ask a question. Answer it with --value, in JSON that\n" +
			"fits the schema that the gate shows."
		flags.StringVar(&value, "value", "", "the answer to a question of a tool, as `JSON`")
	}
	return cmd
}

// errNotApproved ends an approval that the person does not confirm.
var errNotApproved = &failure{code: exitWaiting, message: "nothing was decided"}

// confirmed is the decision of a person at a terminal about a gate.
type confirmed struct {
	digest  string // of what they have seen
	message app.Message
	note    string
}

// confirm shows what a decision is about, and returns its digest, so that the decision is about exactly what was shown.
// A person at a terminal is asked for the decision, or for the reason of a rejection. If it is not clear which gate is
// meant, confirm shows nothing: the decision is refused when it is sent. A digest of --digest may be a prefix; the
// decision is sent with the whole one.
func (a *invocation) confirm(verb, name, step, digest, note string) (confirmed, error) {
	if digest != "" && len(digest) < report.DigestDigits {
		return confirmed{}, usage("\"espalier status RUN\" prints it.",
			"--digest needs at least %d digits", report.DigestDigits)
	}
	run, err := a.changedRun(name)
	if err != nil || run.Status == journal.Finished {
		return confirmed{digest: digest}, err
	}
	status, err := a.runs().Status(context.Background(), run.ID)
	if err != nil {
		return confirmed{}, err
	}
	found := status.Decisions(step)
	if len(found) != 1 {
		return confirmed{digest: digest}, nil
	}
	gate := found[0]
	out := confirmed{digest: gate.Digest}
	switch {
	// With --digest the person has seen the gate before; with --json a program decides.
	case digest != "" && strings.HasPrefix(gate.Digest, digest) || a.json && digest == "":
		return out, nil
	case digest != "":
		return confirmed{digest: digest}, nil // the decision is refused
	case !a.interactive():
		a.noteGate(status, gate)
		return out, nil
	case verb == "reject":
		writeGate(a.stderr, status, gate)
		if note == "" {
			out.note, err = a.ask(askReason)
		}
		return out, err
	}
	if out.message, err = a.decide(status, gate, note); out.message == nil && err == nil {
		err = errNotApproved
	}
	if approved, ok := out.message.(app.Approve); ok {
		out.note = approved.Note
	}
	return out, err
}

// noteGate prints what a decision is about: short values in one line.
func (a *invocation) noteGate(s *app.Status, g *app.Gate) {
	const columns = 100
	if g.Description == "" || g.Kind == journal.AskToolApproval {
		a.note("%s shows:", s.GateName(g))
	} else {
		a.note("%s: %s", s.GateName(g), g.Description)
	}
	for _, name := range g.Names() {
		shown := shownValue(g.Shows[name])
		value := strings.Join(strings.Fields(indented(shown, "")), " ")
		if utf8.RuneCountInString(value) <= columns {
			a.note("  %s: %s", name, value)
			continue
		}
		a.note("  %s:", name)
		for line := range strings.Lines(indented(shown, "    ")) {
			a.note("%s", strings.TrimRight(line, "\n"))
		}
	}
	a.note("  digest %s", report.ShortDigest(g.Digest))
}

// send sends a message to a run and, unless other processes are to drive the run, drives it to its next resting point.
// If this process lacks what the run needs, nothing is recorded.
func (a *invocation) send(name string, leave bool, by journal.Actor, messages ...app.Message) error {
	if leave {
		run, err := a.record(name, by, messages...)
		if err == nil && a.json {
			return a.reportState(run)
		}
		return err
	}
	run, err := a.changedRun(name)
	if err != nil {
		return err
	}
	var j *app.Journal
	if a.server == nil {
		if j, err = a.app().Journal(context.Background(), run.ID); err != nil {
			return err
		}
	}
	err = a.drive(j, run.ID, func(ctx context.Context) error {
		sent, err := a.runs().Send(ctx, run.ID, by, messages...)
		a.noteEdited(sent)
		return err
	})
	var missing *app.Error
	if errors.As(err, &missing) && missing.Kind == app.NotReady && missing.Reason != app.InvalidConfig &&
		(a.server == nil || a.elsewhere) {
		a.note("Nothing was recorded. Use --no-continue to record it and leave the run to another process.")
	}
	return err
}

// record sends a message to a run and leaves the run to other processes. It opens the application with recordOnly,
// which takes effect only if the command has not opened it before.
func (a *invocation) record(name string, by journal.Actor, messages ...app.Message) (*app.Run, error) {
	if a.server == nil {
		a.app(recordOnly)
	}
	run, err := a.changedRun(name)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	sent, err := a.runs().Send(ctx, run.ID, by, messages...)
	a.noteEdited(sent)
	if err != nil {
		return nil, err
	}
	if a.server == nil {
		a.app().Release()
	}
	if run, err = a.runs().Get(ctx, run.ID); err != nil {
		return nil, err
	}
	if _, pause := messages[0].(app.Pause); pause && run.Status == journal.Running && !a.json {
		return run, a.reportPausing(run)
	}
	a.note("Recorded.")
	if a.json {
		return run, nil // the caller prints the one object
	}
	return run, a.reportState(run)
}

func (a *invocation) noteEdited(sent *app.Sent) {
	if sent == nil {
		return
	}
	for _, variable := range sent.Edited {
		a.note("The file of %s was edited. The approval applies to its current content.", variable)
	}
}

// reportPausing reports which steps finish before a run pauses.
func (a *invocation) reportPausing(run *app.Run) error {
	effect, steps, err := a.pauseEffect(run)
	if err != nil {
		return err
	}
	if effect == api.AfterSteps {
		for i := range steps {
			steps[i] = journal.PlaceName(steps[i])
		}
		a.note("Pausing run %s after %s finishes.", run.ID.Short(), strings.Join(steps, ", "))
		return nil
	}
	a.note("Pausing run %s before its next step.", run.ID.Short())
	return nil
}

// pauseEffect returns when the pause of a run takes effect, and the steps that finish before.
func (a *invocation) pauseEffect(run *app.Run) (effect string, steps []string, err error) {
	if run.Status != journal.Running {
		return api.Now, nil, nil
	}
	status, err := a.runs().Status(context.Background(), run.ID)
	switch {
	case err != nil:
		return "", nil, err
	case len(status.Step) == 0:
		return api.BeforeNextStep, nil, nil
	}
	return api.AfterSteps, status.Step, nil
}

// reportState prints the state of a run that is left to other processes.
func (a *invocation) reportState(run *app.Run) error {
	if a.json {
		return a.writeResult(api.NewResult(run, nil, nil))
	}
	a.note("Run %s: %s.", run.ID.Short(), statusText(run))
	return nil
}

// signalCommand sends an event. A text is sent as a JSON string.
func (a *invocation) signalCommand() *cobra.Command {
	var data, text, step string
	var leave bool
	cmd := &cobra.Command{
		Use:   "signal RUN EVENT [--step STEP] [--data JSON|--text TEXT]",
		Short: "Send an event to a run",
		Long: `Send an event to a run that waits for it, or that will wait for it later, and
continue the run. "espalier status RUN" shows the name of the event. The data of
the event becomes the result of the step.

Every step that waits for the event receives it. --step limits it to one step,
which must be waiting: a reply to a conversation that has moved on is refused.
If no step waits for it yet, the event is kept for the next one.`,
		Example: `  espalier signal 5ff07bf3 papers_received --data '{"pages": 12}'
  espalier signal 5ff07bf3 chat --text "Make it shorter"`,
		Args:              takesRun(2, 2, "a run and an event"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if data != "" && !json.Valid([]byte(data)) {
				return usage(`Write it as JSON, as in --data '{"n": 1}'.`, "--data is not JSON")
			}
			if cmd.Flags().Changed("text") {
				raw, err := json.Marshal(text)
				if err != nil {
					return err
				}
				data = string(raw)
			}
			return a.tryServerFirst(func() error {
				return a.send(args[0], leave, actor(""), app.Signal{
					Event: args[1], Step: step, Data: json.RawMessage(data),
				})
			})
		},
	}
	flags := a.driveFlags(cmd).Flags()
	flags.StringVar(&data, "data", "", "the data of the event, as `JSON`")
	flags.StringVar(&text, "text", "", "the data of the event, as `TEXT`")
	flags.StringVar(&step, "step", "", "the only `STEP` that receives the event, as \"espalier status\" shows it")
	cmd.RegisterFlagCompletionFunc("step", offer(a.waitingSteps))
	flags.BoolVar(&leave, "no-continue", false, "record the event and leave the run to another process")
	exclusive(cmd, "no-continue", "output")
	exclusive(cmd, "data", "text")
	return cmd
}

func (a *invocation) interveneCommand(verb, about, more string, message app.Message) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " RUN",
		Short:             about,
		Long:              about + ". " + more,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tryServerFirst(func() error { return a.intervene(args[0], message) })
		},
	}
	return a.resultFlag(cmd)
}

// intervene pauses or cancels a run.
func (a *invocation) intervene(name string, message app.Message) error {
	run, err := a.record(name, actor(""), message)
	if err != nil {
		return err
	}
	if _, canceled := message.(app.Cancel); canceled && run.Status != journal.Finished {
		return a.cleanUp(run)
	}
	if !a.json {
		return nil
	}
	result := api.NewResult(run, nil, nil)
	if _, pause := message.(app.Pause); pause {
		if result.TakesEffect, result.Steps, err = a.pauseEffect(run); err != nil {
			return err
		}
	}
	return a.writeResult(result)
}

// cleanUp does what a run that was canceled still has to do, unless another process drives it. The application that
// recorded the message executes nothing, so it is closed and another one is opened.
func (a *invocation) cleanUp(run *app.Run) error {
	if a.server != nil { // it does so
		ended, err := a.server.Follow(context.Background(), run.ID, run.Seq, client.Progress{})
		if err != nil {
			return err
		}
		return a.reportState(ended)
	}
	a.close()
	a.opened = nil // to drive the run, with another application
	ended, err := a.app().Finish(context.Background(), run.ID)
	switch {
	case err != nil:
		return err
	case ended != nil:
		run = ended
	case !a.json:
		return nil // its state is printed already
	}
	return a.reportState(run)
}

func (a *invocation) editCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit RUN NAME=VALUE…",
		Short: "Edit variables of a waiting run",
		Long: `Edit variables of a run between its steps. VALUE is JSON, or else text. The
workflow has to allow it (human_in_the_loop), and the change is recorded.`,
		Example:           `  espalier edit 3f2a state.draft="Dear Ms Brown, …"`,
		Args:              takesRun(2, 100, "a run and what to change"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			edits, err := parseEdits(args[1:])
			if err != nil {
				return err
			}
			messages := make([]app.Message, len(edits))
			for i, edit := range edits {
				messages[i] = edit
			}
			return a.tryServerFirst(func() error {
				run, err := a.record(args[0], actor(""), messages...)
				if err == nil && a.json {
					return a.reportState(run)
				}
				return err
			})
		},
	}
	return a.resultFlag(cmd)
}

// parseEdits parses NAME=VALUE. A value that is not JSON is text.
func parseEdits(args []string) ([]app.Edit, error) {
	var edits []app.Edit
	for _, one := range args {
		name, text, ok := strings.Cut(one, "=")
		if !ok {
			return nil, usage("Write NAME=VALUE.", "%q has no \"=\"", one)
		}
		edits = append(edits, app.Edit{Variable: name, Value: app.ValueOfText(text)})
	}
	return edits, nil
}

// workCommand drives all runs until a signal, with one application for each version of the configuration. The first
// configuration has to be valid; with a later one that is not, the command waits for the next change.
func (a *invocation) workCommand() *cobra.Command {
	var noTriggers bool
	var labels []string
	var logging logFlags
	cmd := &cobra.Command{
		Use:   "work [--label LABEL]... [--no-triggers] [--log-format FORMAT] [--log-level LEVEL]",
		Short: "Drive every run of the project until interrupted",
		Long: `Stay in the foreground and drive every run of the project: runs whose process
has ended, timers, approvals, runs that were started with --detach. Triggers of
workflows start runs, unless --no-triggers is set. A run that lacks a key, a
tool or the permission to run its commands is reported and skipped. A run
whose workflow needs labels (needs in espalier.yaml) is left to workers that
have them: see --label.

Interrupt it to stop: running steps finish first, and the next "espalier work"
or "espalier resume" continues the runs. SIGTERM gives running steps the grace
period (grace_period in espalier.yaml, 10s by default). The configuration is
reloaded when its files change and on SIGHUP.

The log on stderr says which runs are driven and how they rest or end; with
--log-level debug, also their steps. With --log-format json, each line of the
log is a JSON object.`,
		Args: takes(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := a.logger(&logging)
			if err != nil {
				return err
			}
			worker, err := a.worker(labels)
			if err != nil {
				return err
			}
			_, release := a.Signals.handle() // also between two configurations
			defer release()
			for first := true; ; first = false {
				a.app(worker, func(o *app.Options) { o.NoTriggers, o.Log = noTriggers, log })
				watch := a.watchConfig()
				reload, err := a.work(log, logging.format == "json", watch)
				if !reload && (first || err == nil || !a.waitForConfig(err, watch, a.note)) {
					watch.Stop()
					return err
				}
				watch.Stop()
				a.close()
				a.opened = nil // to read the configuration again
			}
		},
	}
	flags := cmd.Flags()
	addLabels(flags, &labels)
	flags.BoolVar(&noTriggers, "no-triggers", false, "do not start runs for triggers")
	logging.add(cmd)
	return cmd
}

// work drives every run of a project until a signal. It reports whether to start again with the configuration as it is
// now: after SIGHUP or a change of the watched files, if the configuration is valid. To reload means to close the
// application and open another one: running steps finish first, as in a stop.
func (a *invocation) work(log *slog.Logger, structured bool, watch *configWatch) (reload bool, err error) {
	skipped := a.skipped
	if structured {
		skipped = func(run *app.Run, missing *app.Error) {
			log.Warn("run skipped", "run_id", run.ID, "error", a.app().Redact(a.failure(missing).message))
		}
	}
	signals, release := a.Signals.handle()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	worked := make(chan error, 1)
	go func() {
		worked <- a.app().Work(ctx, func(root string) {
			a.note("Working in %s. Interrupt to stop.", a.folder(root))
		}, skipped)
	}()
	sig, ended, err := a.waitForStop(signals, watch, worked, nil)
	if ended != nil {
		return false, err
	}
	cancel()
	if sig = a.parkOrReload(sig, signals); sig == nil {
		return false, nil
	}
	if err := <-worked; err != nil && !errors.Is(err, context.Canceled) {
		return false, err
	}
	if sig == syscall.SIGHUP {
		return true, nil
	}
	return false, &failure{
		code:    ExitInterrupted,
		message: "stopped; the runs continue with the next \"espalier work\"",
	}
}

// waitForStop waits until the work or the server ends, and returns its channel and its error; until a signal, or until
// the process is drained, which has no signal. A change of the watched files is like SIGHUP, which counts only if the
// configuration is valid: with a mistake in it, the process continues as it is. served may be nil.
func (a *invocation) waitForStop(
	signals <-chan os.Signal, watch *configWatch, worked, served <-chan error,
) (sig os.Signal, ended <-chan error, err error) {
	for {
		sig = syscall.SIGHUP
		select {
		case err := <-worked:
			return nil, worked, err
		case err := <-served:
			return nil, served, err
		case <-a.app().Drained():
			return nil, nil, nil
		case <-watch.C:
			if !watch.changed() {
				continue
			}
		case sig = <-signals:
		}
		if sig != syscall.SIGHUP {
			return sig, nil, nil
		}
		// Before the configuration is checked: a change during the check is found by the next look.
		watch.accept()
		if a.mayReload(a.note) {
			return sig, nil, nil
		}
	}
}

// mayReload reports whether the configuration can be reloaded, and prints the result.
func (a *invocation) mayReload(say func(format string, args ...any)) bool {
	if err := a.app().CheckConfig(); err != nil {
		a.notifyError(err)
		say("The configuration was not reloaded: %v", err)
		return false
	}
	say("Reloading the configuration.")
	return true
}

// notifyError prints the diagnostics of an error.
func (a *invocation) notifyError(err error) {
	if known, ok := errors.AsType[*app.Error](err); ok {
		a.notify(app.Notice{Diagnostics: known.Diagnostics, Files: known.Files})
	}
}

// skipped prints why a worker does not drive a run.
func (a *invocation) skipped(run *app.Run, missing *app.Error) {
	f, redact := a.failure(missing), a.app().Redact
	fmt.Fprintf(a.stderr,
		"Skipping run %s: %s\n%s\nA worker retries it at its next start. Run \"espalier cancel %s\" to cancel it.\n",
		run.ID.Short(), redact(f.message), redact(f.help), run.ID.Short())
}

// statusText returns the status of a run in a few words. The order of the cases matters: a queued run is Running in the
// store, and the reason why it waits says more.
func statusText(run *app.Run) string {
	e := run.Entry
	state, queue := run.State(), run.Queue
	switch {
	case queue != nil && queue.Provider != "":
		return fmt.Sprintf("%s (call %d in the queue of %s)", state, queue.Position, queue.Provider)
	case queue != nil && len(queue.Labels) > 0:
		return fmt.Sprintf("%s (no worker has %s)", state, app.LabelWords(queue.Labels))
	case queue != nil:
		return fmt.Sprintf("%s (position %d)", state, queue.Position)
	case state == journal.StateQueued || state == journal.StateInterrupted:
		return string(state)
	case state == journal.StateUnknown:
		return e.Waiting.Words()
	case state == journal.StateBudget:
		return fmt.Sprintf("%s (%s)", strings.ToLower(state.Word()), e.Waiting.Words())
	case state == journal.StateFinished:
		return statusWord(string(e.Outcome))
	case state == journal.StateSleeping && e.Wake != 0:
		return fmt.Sprintf("%s until %s (%s)", e.Status, e.Wake.Time().Local().Format(time.DateTime), e.Waiting.Words())
	case run.Driver != nil:
		return fmt.Sprintf("%s (%s)", e.Status, run.Driver)
	case e.Waiting.Name != "":
		return fmt.Sprintf("%s (%s)", e.Status, e.Waiting.Words())
	}
	return string(e.Status)
}

// stateClause returns the status of a run that is not over as the rest of a sentence about it.
func stateClause(run *app.Run) string {
	if run.State() == journal.StateUnknown {
		return "has an " + statusText(run) // unknown outcome
	}
	return "is " + statusText(run)
}
