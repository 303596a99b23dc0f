package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/terminal"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

var statuses = []string{
	string(journal.Running), string(journal.Waiting), string(journal.Sleeping), string(journal.PausedAt),
	string(journal.Exceeded), string(journal.Finished),
}

func (a *app) runsCommand() *cobra.Command {
	var (
		status, name string
		open, all    bool
		most         int
	)
	cmd := &cobra.Command{
		Use:   "runs [--status STATUS] [--workflow NAME] [--open]",
		Short: "List the runs of this project, the newest first",
		Long: `List the runs of this project, the newest first: the beginning of the id, when
it began, of which workflow, and how it stands or why it ended. That beginning
of the id is enough for all other commands.`,
		Example: `  espalier runs --open
  espalier runs --status waiting --workflow contract-review`,
		Args: takes(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if status != "" && !slices.Contains(statuses, status) {
				return usage(diag.DidYouMean(status, statuses), "there is no status %q", status)
			}
			if most < 0 {
				return usage("0 is all of them.", "--limit cannot be %d", most)
			}
			r, err := a.looking()
			if err != nil {
				return err
			}
			defer r.Close()
			ctx := context.Background()
			list := []listed{}
			filter := journal.Filter{Status: journal.Status(status), Name: name, Unfinished: open, Children: all, Limit: most}
			for entry, err := range r.Store.Runs(ctx, filter) {
				if err != nil {
					return err
				}
				list = append(list, listed{Entry: entry, Idle: idle(r, &entry)})
			}
			for i := range list {
				if err := list[i].lookUpEnd(ctx, r); err != nil {
					return err
				}
			}
			if a.json {
				return a.writeJSON(list)
			}
			if len(list) == 0 {
				a.note("No runs.")
				return nil
			}
			for _, e := range list {
				how, why := standing(e.Entry), cmp.Or(e.Error, e.Reason) // words before their code
				if e.Idle {
					why = "nobody is at work on it"
				}
				if why != "" {
					how += " (" + fit(diag.Printable(why), whyColumns) + ")"
				}
				fmt.Fprintf(a.stdout, "%s  %s  %-24s  %s\n", short(e.ID), e.Started.Time().Local().Format(time.DateTime), e.Name, how)
			}
			return nil
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&status, "status", "", "only runs that are "+strings.Join(statuses, ", "))
	flags.StringVar(&name, "workflow", "", "only runs of this workflow")
	flags.BoolVar(&open, "open", false, "only runs that are not over")
	flags.BoolVar(&all, "children", false, "also runs that are part of others")
	flags.IntVar(&most, "limit", 50, "how many at most; 0 is all")
	cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(a.removeCommand())
	return cmd
}

// whyColumns is how much of a reason fits into a list.
const whyColumns = 60

// listed is a run in a list, with why it ended as it did.
type listed struct {
	journal.Entry
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	Idle   bool   `json:"idle,omitempty"`
}

// idle tells that a run could go on, and that no process is at work on it.
func idle(r *builtin.Runtime, e *journal.Entry) bool {
	return e.Status == journal.Running && (e.Owner == "" || r.Process.Dead(e.Owner))
}

// lookUpEnd finds out how a run ended.
func (l *listed) lookUpEnd(ctx context.Context, r *builtin.Runtime) error {
	if l.Status != journal.Finished || l.Root != "" {
		return nil
	}
	end, err := r.Engine.Ending(ctx, l.Entry)
	if err != nil {
		return err
	}
	l.Reason, l.Error = end.Reason, end.Error
	return nil
}

func (a *app) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm RUN…",
		Short:             "Remove runs that are over, with their records and files",
		Args:              takesRun(1, -1, "at least one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.looking()
			if err != nil {
				return err
			}
			defer r.Close()
			ctx := context.Background()
			for _, arg := range args {
				entry, err := a.findRun(ctx, r, arg)
				if err != nil {
					return err
				}
				if err := r.Delete(ctx, entry.ID); err != nil {
					if errors.Is(err, journal.ErrUnfinished) {
						return usage(fmt.Sprintf("Cancel it first: espalier cancel %s", short(entry.ID)), "run %s is not over", short(entry.ID))
					}
					return err
				}
				a.note("Run %s is removed.", short(entry.ID))
			}
			return nil
		},
	}
}

// status is what `espalier status --json` prints.
type status struct {
	journal.Entry
	Step    []string       `json:"steps,omitempty"` // being done
	Gates   []gate         `json:"gates,omitempty"`
	Used    journal.Usage  `json:"used"`
	Held    journal.Usage  `json:"held,omitzero"` // for what is under way
	Limits  journal.Limits `json:"limits,omitzero"`
	Paused  bool           `json:"paused,omitempty"`
	Idle    bool           `json:"idle,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Error   string         `json:"error,omitempty"`
	Offline string         `json:"offline,omitempty"` // simulated or scripted
}

// gate is a question that is open, with exactly what it shows.
type gate struct {
	Step        string                     `json:"step"`
	Kind        journal.GateKind           `json:"kind"`
	Description string                     `json:"description,omitempty"`
	Event       string                     `json:"event,omitempty"`
	Key         string                     `json:"key,omitempty"` // of the task in doubt, as the outside world saw it
	Shows       map[string]json.RawMessage `json:"shows,omitempty"`
	Digest      string                     `json:"digest,omitempty"`
	Until       string                     `json:"until,omitempty"`
}

func (a *app) statusCommand() *cobra.Command {
	var step string
	cmd := &cobra.Command{
		Use:   "status RUN [--step STEP]",
		Short: "Show how a run stands and what it asks",
		Long: `Show how a run stands, and what it asks: exactly what a decision is about, with
its digest. With --step, show what a step was given, what came of it and who
decided, and the state of the run behind it.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.lookAt(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				if step != "" {
					return a.stepStatus(ctx, r, entry, step)
				}
				state, program, _, err := r.Engine.Load(ctx, entry.ID)
				if err != nil {
					return err
				}
				s := statusOf(state, program, entry)
				s.Idle = idle(r, &entry)
				if a.json {
					return a.writeJSON(s)
				}
				a.printStatus(s)
				return nil
			})
		},
	}
	a.jsonFlag(cmd).Flags().StringVar(&step, "step", "", "show this `STEP`: its id, or with its frame as transcripts have it")
	return cmd
}

func statusOf(state *plan.State, program *plan.Program, entry journal.Entry) status {
	s := status{Entry: entry, Paused: state.Paused}
	var o builtin.RunOptions
	if json.Unmarshal(state.Options, &o) == nil {
		switch {
		case o.ScriptName != "":
			s.Offline = "scripted"
		case o.Simulate:
			s.Offline = "simulated"
		}
	}
	if state.Finished != nil {
		s.Used, s.Limits = state.Spent.Used, state.Spent.Limits
		s.Reason, s.Error = state.Finished.Reason, state.Finished.Error
		return s
	}
	s.Used, s.Held, s.Limits = state.Root().Ledger.Used, state.Root().Ledger.Held, state.Root().Ledger.Limits
	for _, t := range state.OpenTasks() {
		s.Step = append(s.Step, t.Place.Key())
	}
	for _, f := range state.OpenGates() {
		g := gate{Step: f.Place().Key(), Kind: f.Gate.Kind, Event: f.Gate.Event, Description: state.StepOf(program, f).Description}
		switch f.Gate.Kind {
		case journal.GatePerson, journal.GateToolCall:
			g.Shows, g.Digest = state.Shown(program, f)
		case journal.GateInDoubt:
			g.Key = string(cmp.Or(entry.Root, entry.ID)) + "/" + f.Work().Key() // as the world outside got it
		}
		if f.Due != 0 {
			g.Until = f.Due.Time().Format(time.RFC3339)
		}
		s.Gates = append(s.Gates, g)
	}
	return s
}

func (a *app) printStatus(s status) {
	w := a.stdout
	fmt.Fprintf(w, "%s  %s\n", a.paint(a.colorOut, a.screen, bold, string(s.ID)), s.Name)
	fmt.Fprintf(w, "  %s", standing(s.Entry))
	if s.Reason != "" && s.Outcome == journal.OutcomeOK {
		fmt.Fprintf(w, " (%s)", s.Reason) // that of others is in the error
	}
	if s.Offline != "" {
		fmt.Fprintf(w, ", %s", s.Offline)
	}
	fmt.Fprintf(w, "\n  begun %s\n", s.Started.Time().Local().Format(time.DateTime))
	if s.Error != "" {
		fmt.Fprintf(w, "  %s\n", s.Error)
	}
	fmt.Fprintf(w, "  used: %s\n", usedWords(s.Used, s.Limits))
	if calls := s.Held.ModelCalls; calls > 0 {
		then := "are set aside"
		if s.Idle {
			then = "may have been spent, and are charged when the run goes on"
		}
		fmt.Fprintf(w, "  under way: %s, for which up to %s %s\n", plural(int(calls), "model call"), report.TokensAndMoney(s.Held.InputTokens+s.Held.OutputTokens, s.Held.MicroDollars), then)
	}
	if s.Idle {
		fmt.Fprintf(w, "  nobody is at work on it; to go on: espalier resume %s\n", short(s.ID))
	}
	for _, step := range s.Step {
		fmt.Fprintf(w, "  doing %s\n", step)
	}
	for _, g := range s.Gates {
		fmt.Fprintln(w)
		switch g.Kind {
		case journal.GatePerson, journal.GateToolCall:
			if g.Kind == journal.GateToolCall {
				fmt.Fprintf(w, "%s asks for approval of one call of a tool, with exactly these arguments\n", g.Step)
			} else {
				fmt.Fprintf(w, "%s asks for approval: %s\n", g.Step, g.Description)
			}
			for _, name := range slices.Sorted(maps.Keys(g.Shows)) {
				fmt.Fprintf(w, "  %s:\n%s\n", name, indented(g.Shows[name], "    "))
			}
			fmt.Fprintf(w, "  digest %s\n", g.Digest)
			if g.Until != "" {
				fmt.Fprintf(w, "  until %s\n", g.Until)
			}
			fmt.Fprintf(w, "  espalier approve %s %s    espalier reject %s %s\n", short(s.ID), g.Step, short(s.ID), g.Step)
		case journal.GateEvent:
			fmt.Fprintf(w, "%s waits for the event %s: %s\n  espalier signal %s %s\n", g.Step, g.Event, g.Description, short(s.ID), g.Event)
		case journal.GateInDoubt:
			fmt.Fprintf(w, "%s is in doubt: it was begun and nobody knows how it ended\n  key %s\n  espalier resume %s --decide %s=rerun|skip|fail|result=JSON\n", g.Step, g.Key, short(s.ID), g.Step)
		}
	}
}

func usedWords(u journal.Usage, l journal.Limits) string {
	of := func(n int64, limit *int64, one string) string {
		switch {
		case limit != nil:
			return fmt.Sprintf("%s of %s %ss", report.Number(n), report.Number(*limit), one)
		case n == 1:
			return "1 " + one
		}
		return report.Number(n) + " " + one + "s"
	}
	parts := []string{
		of(u.Steps, l.Steps, "step"), of(u.InputTokens+u.OutputTokens, l.Tokens, "token"), of(u.ToolCalls, l.ToolCalls, "tool call"),
	}
	switch {
	case l.MicroDollars != nil:
		parts = append(parts, fmt.Sprintf("%s of %s", price.Dollars(u.MicroDollars), price.Dollars(*l.MicroDollars)))
	case u.MicroDollars > 0:
		parts = append(parts, price.Dollars(u.MicroDollars))
	}
	return strings.Join(parts, ", ") + report.LostWords(u.Lost)
}

// indented is a value as people read it, each line with a margin.
// readableJSON is a value as people read it: >> instead of \u003e\u003e, and
// numbers with all their digits.
func readableJSON(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	return value
}

func indented(raw json.RawMessage, margin string) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var pretty bytes.Buffer
		if encode(&pretty, readableJSON(raw)) == nil {
			text = pretty.String()
		}
	}
	return margin + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+margin)
}

func (a *app) outputCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "output RUN [KEY]",
		Short: "Print what a run has given, or one part of it",
		Long: `Print what a run has given: text as it is, anything else as JSON. KEY picks one
part of it. Ends with 4 when the run is not over, and with 1 when it did not end
well and has given nothing.`,
		Example: `  espalier output 5ff07bf3
  espalier output 5ff07bf3 summary > summary.txt`,
		Args:              takesRun(1, 2, "a run, and a key"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.lookAt(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				state, program, _, err := r.Engine.Load(ctx, entry.ID)
				if err != nil {
					return err
				}
				if state.Finished == nil {
					return &failure{code: exitWaiting, message: fmt.Sprintf("run %s is not over: %s", short(entry.ID), standing(entry)), help: waitingHelp(entry, state)}
				}
				raw, err := program.Raw(state.Finished.Output)
				if err != nil {
					return err
				}
				if end := state.Finished; end.Outcome != journal.OutcomeOK && string(raw) == "null" {
					return &failure{
						code: exitFailed, message: runSentence(entry, end.Outcome, cmp.Or(end.Error, end.Reason)),
						help: fmt.Sprintf("It has given nothing. To see what happened: espalier transcript %s --pretty", short(entry.ID)),
					}
				}
				if len(args) > 1 {
					var object map[string]json.RawMessage
					if json.Unmarshal(raw, &object) != nil || object[args[1]] == nil {
						return usage(diag.DidYouMean(args[1], slices.Collect(maps.Keys(object))), "the output has no %q", args[1])
					}
					raw = object[args[1]]
				}
				if a.json {
					var value any
					if err := json.Unmarshal(raw, &value); err != nil {
						return err
					}
					return a.writeJSON(value)
				}
				return a.printValue(raw)
			})
		},
	}
	return a.jsonFlag(cmd)
}

func (a *app) transcriptCommand() *cobra.Command {
	var follow, pretty, trace bool
	cmd := &cobra.Command{
		Use:   "transcript RUN|FILE [--follow] [--pretty] [--trace]",
		Short: "Print the record of a run: every step, message and tool call",
		Long: `Print the transcript of a run, one JSON object in a line. It is made from the
journal: a file that was deleted or damaged is written again.

A FILE is a transcript from elsewhere, also one that AWF has written; --pretty
writes it for people.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
				return a.transcriptFile(args[0], pretty, follow || trace)
			}
			return a.withRun(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				if trace {
					if entry.Format != "aiflow" {
						return usage("Leave --trace out.", "--trace is for runs of AIFLOW files, and this one is of %s", entry.Format)
					}
					document, err := r.FlowTrace(ctx, entry)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(a.stdout, "%s\n", document)
					return err
				}
				signals, release := a.Signals.handle()
				defer release()
				to := terminal.JSON(a.stdout)
				if pretty {
					to = a.painted()
				}
				err := r.Transcript(ctx, entry, builtin.TranscriptOptions{
					Follow: follow, Pretty: pretty, Colour: a.colorOut, Stop: signals,
				}, to)
				if errors.Is(err, os.ErrNotExist) {
					return usage("It was run with --no-transcript, or nothing has happened yet.", "run %s has no transcript", short(entry.ID))
				}
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&a.json, "json", false, "print one JSON object in a line, which it does anyway")
	flags.BoolVar(&follow, "follow", false, "go on as the run does, until it is over")
	flags.BoolVar(&pretty, "pretty", false, "write it for people")
	flags.BoolVar(&trace, "trace", false, "of an AIFLOW run: the document that the format's trace viewer reads")
	exclusive(cmd, "json", "pretty")
	return cmd
}

// transcriptFile prints a transcript that is a file and no run of the project.
func (a *app) transcriptFile(path string, pretty, ofRuns bool) error {
	if ofRuns {
		return usage("Leave them out, or name a run.", "--follow and --trace are for runs, and %q is a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if pretty {
		return builtin.TranscriptFile(a.painted(), f, a.colorOut)
	}
	_, err = io.Copy(terminal.JSON(a.stdout), f)
	return err
}

// completeRun completes ids of runs.
func (a *app) completeRun(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := a.looking()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer r.Close()
	var out []string
	for e, err := range r.Store.Runs(context.Background(), journal.Filter{Prefix: prefix, Limit: 30}) {
		if err != nil {
			break
		}
		out = append(out, fmt.Sprintf("%s\t%s, %s", short(e.ID), e.Name, standing(e)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
