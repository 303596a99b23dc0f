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

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/report/transcript"
	"github.com/espalier-run/espalier/internal/terminal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// statuses are the values of --status: the words that the column STATUS begins with, and finished for all outcomes.
var statuses = xslices.Map(
	slices.DeleteFunc(slices.Clone(app.StateFilters), func(s app.StateFilter) bool { return s == app.Unfinished }),
	func(s app.StateFilter) string { return statusWord(string(s)) })

// statusWord returns a state or an outcome as people read and write it.
func statusWord(s string) string { return journal.OutcomeWord(journal.Outcome(s)) }

// stateFilter returns the filter that a status selects. Earlier releases called the state of an exhausted budget
// exceeded.
func stateFilter(status string) app.StateFilter {
	switch status {
	case journal.OutcomeWord(journal.OutcomeCanceled):
		return app.StateFilter(journal.OutcomeCanceled)
	case string(journal.Exceeded):
		return app.StateFilter(journal.StateBudget)
	}
	return app.StateFilter(status)
}

func (a *invocation) runsCommand() *cobra.Command {
	var (
		status, name string
		open, all    bool
		most         int
	)
	cmd := &cobra.Command{
		Use:   "runs [--status STATUS] [--workflow NAME] [--open]",
		Short: "List the runs of this project, the newest first",
		Long: `List the runs of this project, the newest first: short ID, start time, duration,
cost, workflow, and status. The short ID is enough for all other commands.

The duration of a run that waits ends where the wait began. That of an
interrupted run is not known. The cost of a run without real models is
"simulated" or "scripted": nothing was paid.`,
		Example: `  espalier runs --open
  espalier runs --status waiting --workflow contract-review`,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := stateFilter(status)
			err := cmp.Or(
				oneOf(statusWord(string(cmp.Or(filter, app.StateFilters[0]))), statuses, "unknown status %q"),
				usageIf(most < 0, "Use 0 to list all runs.", "invalid value %d for --limit", most),
				a.connect(),
			)
			if err != nil {
				return err
			}
			list, err := a.runs().RunsIn(context.Background(), filter,
				app.Filter{Name: name, Unfinished: open, Children: all, Limit: most})
			if none, ok := errors.AsType[*app.Error](err); ok && none.Reason == app.NoRuns {
				if !a.json {
					end := a.failure(none)
					message := sentence(end.message)
					a.note("%s\n%s", strings.ToUpper(message[:1])+message[1:], end.help)
				}
				return nil
			}
			if err != nil {
				return err
			}
			if a.json {
				return writeLines(a, list, a.listed)
			}
			if len(list) == 0 {
				a.note("No runs.")
			}
			a.printRuns(list)
			return nil
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&status, "status", "", "only runs that are "+strings.Join(statuses, ", "))
	flags.StringVar(&name, "workflow", "", "only runs of this workflow")
	cmd.RegisterFlagCompletionFunc("workflow", offer(a.workflowNames))
	flags.BoolVar(&open, "open", false, "only unfinished runs")
	flags.BoolVar(&all, "children", false, "also runs that other runs have started")
	flags.IntVar(&most, "limit", 50, "list at most this many runs; 0 lists all")
	completeWords(cmd, "status", statuses)
	cmd.AddCommand(a.removeCommand(), a.exportCommand(), a.importCommand())
	return cmd
}

func (a *invocation) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export RUN FILE",
		Short: "Write a finished run to a file for another project",
		Long: `Write a finished run with its child runs to FILE, a ZIP archive: the journal
with its hash chain, the values that it refers to, the audit logs and the
transcripts. FILE must not exist yet. Files that the run has written to its own
folder are not part of the archive.

The command prints the hash of the journal. "espalier runs import" prints the
same hash: if both are equal, the run is the one that was exported.`,
		Example:           "  espalier runs export 5ff07bf3 review.zip",
		Args:              takesRun(2, 2, "a run and a file"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx := context.Background()
			run, err := a.app().Find(ctx, args[0])
			if err != nil {
				return err
			}
			file, err := a.target(args[1])
			if err != nil {
				return err
			}
			head, err := a.app().Export(ctx, run, file)
			if err != nil {
				return err
			}
			a.note("Run %s is exported to %s.", run.ID.Short(), args[1])
			fmt.Fprintf(a.stdout, "%s  journal head %s\n", run.ID, head)
			return nil
		},
	}
}

func (a *invocation) importCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Add a run that was exported from another project",
		Long: `Add the run in FILE, which "espalier runs export" has written, to this project.
The archive is verified first, as "espalier audit verify" verifies a run. If it
was changed, or if the project already has the run, nothing is added. The store
of either project can be a file or PostgreSQL.

Verification does not detect an archive that was forged as a whole. Compare the
hash that is printed with the one that the export has printed. An imported run
can be read and verified; no run continues from it, because its commands have no
consent on this machine.`,
		Example: "  espalier runs import review.zip",
		Args:    takes(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			run, head, err := a.app().Import(context.Background(), a.inDir(args[0]))
			if err != nil {
				return err
			}
			a.note("Run %s is imported.", run.ID.Short())
			fmt.Fprintf(a.stdout, "%s  journal head %s\n", run.ID, head)
			return nil
		},
	}
}

// listedRun is a run in a list, with what it has used.
type listedRun struct{ api.ListedRun }

// listed adds to a run of a list what it has used. A child run shares the budget of its root run.
func (a *invocation) listed(run *app.Run) listedRun {
	status, err := a.runs().Status(context.Background(), cmp.Or(run.Root, run.ID))
	if err != nil {
		status = nil // the run is listed without what it has used
	}
	return listedRun{api.NewListedRun(run, status, a.Now())}
}

// duration returns how long a run took so far, or "-" if it is not known.
func (r *listedRun) duration() string {
	if r.Millis == nil {
		return "-"
	}
	return report.Duration(time.Duration(*r.Millis) * time.Millisecond)
}

// cost returns what a run has cost so far, that nothing was paid for it, or "-" if it is not known.
func (r *listedRun) cost() string {
	if r.MicroDollars == nil {
		return cmp.Or(string(r.Simulated), "-")
	}
	return cmp.Or(string(r.Simulated), price.Spent(*r.MicroDollars))
}

// whyColumns is how much of a reason fits into a list.
const whyColumns = 60

// printRuns prints runs as a table, one line each. If it is too wide for a terminal, times of the start are shorter,
// and names and statuses are cut: "espalier status RUN" shows them, and so does --json. Pipes get full lines, however
// long.
func (a *invocation) printRuns(list []app.Run) {
	const started, name, status = 1, 4, 5
	t := table{header: []string{"ID", "STARTED", "DURATION", "COST", "WORKFLOW", "STATUS"}, right: []int{2, 3}}
	for _, e := range list {
		how := statusText(&e)
		if why := cmp.Or(e.Error, report.ReasonWords(e.Reason)); why != "" {
			how += " (" + fit(diag.Printable(why), whyColumns) + ")"
		}
		run := a.listed(&e)
		t.add(e.ID.Short(), e.Started.Time().Local().Format(time.DateTime), run.duration(), run.cost(), e.Name, how)
	}
	if room := a.columns(); (isTerminal(a.Stdout) || a.Getenv("COLUMNS") != "") && t.naturalWidth() > room {
		for i, row := range t.rows {
			row[started] = a.shortTime(list[i].Started.Time())
		}
		widths := t.widths(t.filled(), t.naturalWidth())
		room -= t.naturalWidth() - widths[name] - widths[status]
		names := min(widths[name], max(room-widths[status], room/2, minCell)) // each gets at least half
		for _, row := range t.rows {
			row[name] = fit(row[name], names)
			row[status] = report.Shorten(row[status], max(room-names, minCell))
		}
	}
	t.paint = a.dim
	fmt.Fprint(a.stdout, t.text(t.naturalWidth(), ""))
}

// shortTime formats a time in the style of ls -l: without seconds, and with the year instead of the time if it is long
// ago.
func (a *invocation) shortTime(at time.Time) string {
	if a.Now().Sub(at) > 180*24*time.Hour {
		return at.Local().Format("Jan _2  2006")
	}
	return at.Local().Format("Jan _2 15:04")
}

// removeFlags are the flags of runs rm.
type removeFlags struct {
	as, why, olderThan, status string
	request                    app.PruneRequest
}

// removable are the values of --status: only finished runs can be removed.
var removable = slices.DeleteFunc(slices.Clone(statuses), func(status string) bool {
	return status != string(journal.StateFinished) && stateFilter(status).Outcome() == ""
})

func (a *invocation) removeCommand() *cobra.Command {
	var f removeFlags
	cmd := &cobra.Command{
		Use:   "rm RUN… | rm [--older-than AGE] [--status STATUS] [--workflow NAME] [--keep N] [--dry-run]",
		Short: "Remove finished runs with their records and files",
		Long: `Remove finished runs with their records and files: those that are named, or all
that the flags select. Their space is returned to the file system once a quarter
of the store is free; until then, new runs use it. A record of the removal
remains in the journal: the ID of the run, the hash of its last append, who
removed it, when and why. "espalier audit verify --anchor" uses it to tell a run
that was removed by this command from one that was removed in another way.

A run whose journal is damaged is removed as far as it exists, even if it has
not finished: the command and the record of the removal say so, and the exit
code is 0. The exit code is 6 if files or the database cannot be changed.

AGE is the time since the end of a run: 30d, 2w or 12h. With "retention" in
espalier.yaml, "espalier work" and "espalier serve" remove old runs by
themselves.`,
		Example: `  espalier runs rm 5ff07bf3
  espalier runs rm --older-than 30d --status finished --keep 100 --dry-run`,
		ValidArgsFunction: a.completeRun,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.as, "as", "", "the `NAME` of the person you act for; recorded as a claim")
	flags.StringVar(&f.why, "reason", "", "record this `TEXT` as the reason")
	flags.StringVar(&f.olderThan, "older-than", "", "runs that ended at least this `AGE` ago")
	flags.StringVar(&f.status, "status", "", "runs that are "+strings.Join(removable, ", "))
	flags.StringVar(&f.request.Workflow, "workflow", "", "runs of this workflow")
	flags.IntVar(&f.request.Keep, "keep", 0, "keep the newest `N` of the selected runs")
	flags.BoolVar(&f.request.DryRun, "dry-run", false, "list the runs, and remove nothing")
	selects := func() bool {
		return slices.ContainsFunc([]string{"older-than", "status", "workflow", "keep"}, flags.Changed)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if selects() || len(args) == 0 && f.request.DryRun {
			return takes(0, 0, "nothing besides flags that select runs")(cmd, args)
		}
		return takesRun(1, -1, "at least one run")(cmd, args)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		removal := journal.Removal{By: actor(f.as), At: journal.MillisOf(a.Now()), Why: f.why}
		if len(args) == 0 {
			return a.prune(&f, removal)
		}
		return a.removeRuns(args, f.request.DryRun, removal)
	}
	return a.jsonFlag(cmd)
}

// removeRuns removes the runs that are named. Those before one that cannot be removed are gone.
func (a *invocation) removeRuns(names []string, dryRun bool, removal journal.Removal) error {
	ctx := context.Background()
	for _, name := range names {
		if err := longEnough(name); err != nil {
			return err
		}
		run, err := a.app().Find(ctx, name)
		if err != nil {
			return err
		}
		if dryRun {
			if err := a.app().CheckRemoval(ctx, run); err != nil {
				return err
			}
			a.note("Run %s would be removed.", run.ID.Short())
		} else {
			if err := a.app().Remove(ctx, run.ID, removal); err != nil {
				return err
			}
			a.note("Run %s was removed.", run.ID.Short())
		}
		if a.json {
			if err := writeLines(a, []app.Run{*run}, a.listed); err != nil {
				return err
			}
		}
	}
	return nil
}

// prune removes the runs that flags select.
func (a *invocation) prune(f *removeFlags, removal journal.Removal) error {
	req := f.request
	if f.olderThan != "" {
		var err error
		if req.OlderThan, err = config.ParseAge(f.olderThan); err != nil {
			return usage("Write a number and its unit: 30d, 2w or 12h.", "invalid age %q for --older-than", f.olderThan)
		}
	}
	err := cmp.Or(
		oneOf(cmp.Or(f.status, removable[0]), removable, "runs that are %q cannot be removed"),
		usageIf(req.Keep < 0, "Use 0 to keep none.", "invalid value %d for --keep", req.Keep),
	)
	if err != nil {
		return err
	}
	req.Outcome = stateFilter(f.status).Outcome()
	pruned, err := a.app().Prune(context.Background(), req, removal)
	if err != nil {
		return err
	}
	if a.json {
		return writeLines(a, pruned.Runs, a.listed)
	}
	for i := range pruned.Runs {
		r := &pruned.Runs[i]
		fmt.Fprintf(a.stdout, "%s  %s  %-24s  %s\n", r.ID.Short(),
			r.Started.Time().Local().Format(time.DateTime), r.Name, statusText(r))
	}
	if req.DryRun {
		a.note("%s would be removed.", upper(plural(len(pruned.Runs), "run")))
		return nil
	}
	a.note("Removed %s.", plural(len(pruned.Runs), "run"))
	return nil
}

func (a *invocation) statusCommand() *cobra.Command {
	var step string
	cmd := &cobra.Command{
		Use:   "status RUN [--step STEP]",
		Short: "Show the status of a run and its open gates",
		Long: `Show the status of a run and its open gates: exactly what a decision is about,
with its digest. With --step, show what a step read, its result, who decided,
and the state of the run after it.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := a.rootRun(args[0])
			if err != nil {
				return err
			}
			if step != "" {
				return a.stepStatus(run.ID, step)
			}
			s, err := a.runs().Status(context.Background(), run.ID)
			if err != nil {
				return err
			}
			a.resulted = a.json
			return a.print(api.NewStatus(s), func() { a.printStatus(s) })
		},
	}
	a.resultFlag(cmd).Flags().StringVar(&step, "step", "",
		"show this `STEP`: its ID, or with its frame as transcripts have it")
	cmd.RegisterFlagCompletionFunc("step", offer(a.stepsOfRun))
	return cmd
}

// printStatus prints a status for people. Each open gate has the commands that move the run on, ready to paste.
func (a *invocation) printStatus(s *app.Status) {
	w := a.stdout
	fmt.Fprintf(w, "%s  %s\n", a.bold(string(s.ID)), s.Name)
	status, raise := statusText(&s.Run), ""
	if s.Status == journal.Exceeded {
		// What cannot be read is left out: the rest of the status is worth more than an error.
		if b, err := a.runs().Exhausted(context.Background(), cmp.Or(s.Root, s.ID)); err == nil {
			raise = raiseHelp(cmp.Or(s.Root, s.ID), b)
			if words := report.ShortfallWords(b.Name, b.Next, b.Left); words != "" {
				status = "paused: " + words
			}
		}
	}
	fmt.Fprintf(w, "  %s", status)
	if words := report.ReasonWords(s.Reason); words != "" && s.Outcome == journal.OutcomeOK {
		fmt.Fprintf(w, " (%s)", words) // that of others is in the error
	}
	if s.Untrusted {
		fmt.Fprint(w, ", untrusted input")
	}
	if s.Offline != "" {
		fmt.Fprintf(w, ", %s", s.Offline)
	}
	fmt.Fprintf(w, "\n  started %s\n", s.Started.Time().Local().Format(time.DateTime))
	if s.Error != "" {
		fmt.Fprintf(w, "  %s\n", s.Error)
	}
	if d := s.Rejected; d != nil {
		fmt.Fprintf(w, "  rejected by %s\n", diag.Printable(app.DescribeActor(d.By, d.Method, d.Note)))
	}
	fmt.Fprintf(w, "  used: %s\n", usedWords(s.Used, s.Limits))
	printActivity(w, s)
	if raise != "" {
		fmt.Fprintf(w, "  %s%s\n", strings.ToLower(raise[:1]), raise[1:])
	}
	for _, g := range s.Gates {
		fmt.Fprintln(w)
		printGate(w, s, &g)
	}
}

// printActivity prints what a run is doing, or was doing when its process ended: calls, and steps.
func printActivity(w io.Writer, s *app.Status) {
	if calls := s.Held.ModelCalls; calls > 0 {
		what, then := "in progress", "reserved"
		if s.Idle {
			what, then = "interrupted", "charged on resume"
		}
		fmt.Fprintf(w, "  %s: %s, up to %s %s\n", what, plural(int(calls), "model call"),
			report.TokensAndMoney(s.Held.InputTokens+s.Held.OutputTokens, s.Held.MicroDollars), then)
	}
	if s.Idle && s.Queue == nil {
		fmt.Fprintf(w, "  no process is driving it; to continue: espalier resume %s\n", s.ID.Short())
	}
	if s.Queue != nil && len(s.Queue.Labels) > 0 {
		fmt.Fprintf(w, "  no worker has %s; to start one: espalier work --label %s\n", app.LabelWords(s.Queue.Labels),
			strings.Join(s.Queue.Labels, " --label "))
	}
	doing := "running"
	switch {
	case s.Idle:
		doing = "was running"
	case s.Status == journal.Exceeded: // what did not wait has finished
		doing = "paused at"
	}
	for _, step := range s.Step {
		fmt.Fprintf(w, "  %s %s\n", doing, journal.PlaceName(step))
	}
}

// printGate prints what an open gate waits for, and the commands that answer it.
func printGate(w io.Writer, s *app.Status, g *app.Gate) {
	name, ask := s.GateName(g), askOf(s, g)
	switch g.Kind {
	case journal.AskApproval, journal.AskToolApproval:
		writeGate(w, s, g)
		answer := ""
		if len(g.Shows[app.AnswerSchema]) > 0 {
			answer = " --value JSON"
		}
		fmt.Fprintf(w, "  %s%s    %s\n", ask.Command, answer, ask.Other)
	case journal.AskInput:
		fmt.Fprintf(w, "%s waits for text: %s\n", name, g.Description)
		for _, name := range slices.Sorted(maps.Keys(g.Shows)) {
			fmt.Fprintf(w, "  %s:\n%s\n", name, indented(shownValue(g.Shows[name]), "    "))
		}
		fmt.Fprintf(w, "  %s\n", ask.Command)
	case journal.AskEvent:
		fmt.Fprintf(w, "%s waits for the event %s: %s\n  %s\n", name, g.Event, g.Description, ask.Command)
	case journal.AskOutcome:
		fmt.Fprintf(w,
			"%s has an unknown outcome: it was started, and no result was recorded\n  key %s\n  %s   %s\n",
			name, g.Key, ask.Command, ask.Remark)
		if g.Doing != "" {
			fmt.Fprintf(w, "  it was running %s\n", diag.Printable(g.Doing))
		}
	}
}

// printApprovers prints who may decide a gate and who has approved it.
func printApprovers(w io.Writer, a *app.Approvers) {
	who := "anyone who may decide gates"
	if len(a.Roles) > 0 {
		who = "the role " + strings.Join(a.Roles, " or ")
	}
	if a.FourEyes {
		who += ", not the person who started the run"
	}
	fmt.Fprintf(w, "  approvers: %s\n", who)
	fmt.Fprintf(w, "  approvals: %d of %d, %d missing\n", len(a.Approvals), a.Required, a.Missing())
	for _, one := range a.Approvals {
		at := one.At.Time().Local().Format(time.DateTime)
		fmt.Fprintf(w, "    %s  %s\n", at, app.DescribeActor(one.By, "", one.Note))
	}
	switch roles := strings.Join(a.EscalatesTo, " or "); {
	case a.Escalated:
		fmt.Fprintf(w, "  escalated to the role %s\n", roles)
	case a.Escalates != 0:
		fmt.Fprintf(w, "  escalates %s to the role %s\n", a.Escalates.Time().Local().Format(time.DateTime), roles)
	}
}

// writeGate writes what a gate for a person asks and shows. Values of an untrusted input are marked.
func writeGate(w io.Writer, s *app.Status, g *app.Gate) {
	name, untrusted := s.GateName(g), s.Untrusted
	if g.Kind == journal.AskToolApproval && len(g.Shows[app.AnswerSchema]) > 0 {
		fmt.Fprintf(w, "%s asks a question on behalf of a tool\n", name)
	} else if g.Kind == journal.AskToolApproval {
		fmt.Fprintf(w, "%s asks for approval of one call of a tool, with exactly these arguments\n", name)
	} else {
		fmt.Fprintf(w, "%s asks for approval: %s\n", name, g.Description)
	}
	for _, name := range g.Names() {
		from := ""
		if file := g.Files[name]; file != "" {
			from = " (file " + file + ")"
		}
		if untrusted && app.FromInput(name) {
			from += " (untrusted)"
		}
		fmt.Fprintf(w, "  %s%s:\n%s\n", name, from, indented(shownValue(g.Shows[name]), "    "))
	}
	if untrusted {
		fmt.Fprintln(w, "  The input of the run comes from outside of the project and is untrusted.")
	}
	fmt.Fprintf(w, "  digest %s\n", report.ShortDigest(g.Digest))
	if g.Approvers != nil {
		printApprovers(w, g.Approvers)
	}
	if g.Until != "" {
		fmt.Fprintf(w, "  until %s\n", g.Until)
	}
}

// askOf returns the words for what a gate asks for. The command names the step if several wait for the same text.
func askOf(s *app.Status, g *app.Gate) report.Ask {
	name, event := s.GateName(g), g.Event
	if g.Kind == journal.AskInput && slices.ContainsFunc(s.Gates, func(other app.Gate) bool {
		return other.Event == g.Event && other.Step != g.Step
	}) {
		event += " --step " + shellWord(name)
	}
	return report.AskOf(g.Kind, s.ID, name, event)
}

// usedWords describes what a run has used, with the limits that it has.
func usedWords(u journal.Usage, l journal.Limits) string {
	of := func(n int64, limit *int64, one string) string {
		if limit != nil {
			return fmt.Sprintf("%s of %s %ss", report.Number(n), report.Number(*limit), one)
		}
		return report.Plural(n, one)
	}
	parts := []string{
		of(u.Steps, l.Steps, "step"), of(u.InputTokens+u.OutputTokens, l.Tokens, "token"),
		of(u.ToolCalls, l.ToolCalls, "tool call"),
	}
	switch {
	case l.MicroDollars != nil:
		parts = append(parts, fmt.Sprintf("%s of %s", price.Spent(u.MicroDollars), price.Dollars(*l.MicroDollars)))
	case u.MicroDollars > 0:
		parts = append(parts, price.Spent(u.MicroDollars))
	}
	return strings.Join(parts, ", ") + report.LostWords(u.Lost)
}

// readableJSON returns a value as people read it: >> instead of \u003e\u003e, and numbers with all their digits, which
// float64 would round. It returns the text itself if that is not JSON.
func readableJSON(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	return value
}

// shownValue returns a value that a gate shows; if there is none, the text that says so.
func shownValue(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return json.RawMessage(`"` + app.NoValue + `"`)
	}
	return raw
}

// valueText returns a value as people read it: text as it is, anything else as indented JSON.
func valueText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var pretty strings.Builder
	if encode(&pretty, readableJSON(raw)) != nil {
		return "" // it is no JSON
	}
	return pretty.String()
}

// indented returns the text of a value, each line with a margin.
func indented(raw json.RawMessage, margin string) string {
	return margin + strings.ReplaceAll(strings.TrimRight(valueText(raw), "\n"), "\n", "\n"+margin)
}

func (a *invocation) outputCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "output RUN [KEY]",
		Short: "Print the output of a run, or one part of it",
		Long: `Print the output of a run: text as it is, anything else as JSON. KEY selects one
part of it. The exit code is 4 if the run has not finished, and 1 if it did not
succeed and has no output.`,
		Example: `  espalier output 5ff07bf3
  espalier output 5ff07bf3 summary > summary.txt`,
		Args:              takesRun(1, 2, "a run, and optionally a key"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.printOutput(args[0], optional(args, 1))
		},
	}
	return a.jsonFlag(cmd)
}

// printOutput prints what a run has returned, or the part of it that has a key.
func (a *invocation) printOutput(name, key string) error {
	ctx := context.Background()
	run, err := a.rootRun(name)
	if err != nil {
		return err
	}
	if run.Status != journal.Finished {
		status, err := a.runs().Status(ctx, run.ID)
		if err != nil {
			return err
		}
		return fail(exitWaiting, waitingHelp(status), "run %s has not finished: %s", run.ID.Short(), statusText(run))
	}
	end, err := a.runs().Ending(ctx, run)
	if err != nil {
		return err
	}
	raw := end.Output
	if end.Outcome != journal.OutcomeOK && string(raw) == "null" {
		help := fmt.Sprintf("It has no output. To see what happened: espalier transcript %s --pretty", run.ID.Short())
		return fail(exitFailed, help, "%s", runSentence(run, end))
	}
	if key != "" {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object[key] == nil {
			return usage(diag.DidYouMean(key, slices.Collect(maps.Keys(object))), "the output has no %q", key)
		}
		raw = object[key]
	}
	if a.json {
		return a.writeJSON(raw) // decoded, numbers would lose digits
	}
	return a.printValue(raw)
}

func (a *invocation) transcriptCommand() *cobra.Command {
	var follow, pretty, trace bool
	cmd := &cobra.Command{
		Use:   "transcript RUN|FILE [--follow] [--pretty] [--trace]",
		Short: "Print the transcript of a run: every step, message and tool call",
		Long: `Print the transcript of a run, one JSON object per line. It is derived from the
journal: a deleted or damaged file is regenerated.

FILE is a transcript from elsewhere, such as one that AWF has written; --pretty
formats it for people.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
				return a.transcriptFile(args[0], pretty, follow || trace)
			}
			run, err := a.find(args[0])
			if err != nil {
				return err
			}
			if trace && a.server != nil {
				return usage("Leave it out.", "--trace does not work with a server")
			}
			if trace {
				return a.printTrace(run)
			}
			return a.printTranscript(run, follow, pretty)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&a.json, "json", false, "print one JSON object per line; this is the default")
	flags.BoolVar(&follow, "follow", false, "follow the run until it has finished")
	flags.BoolVar(&pretty, "pretty", false, "format it for people")
	flags.BoolVar(&trace, "trace", false, "of an AIFLOW run: the document that the format's trace viewer reads")
	exclusive(cmd, "json", "pretty")
	return cmd
}

// printTrace prints an AIFLOW run as the format's viewer reads it.
func (a *invocation) printTrace(run *app.Run) error {
	if !catalog.Formats().Conventions(run.Format).Traced {
		return usage("Leave --trace out.", "--trace is for runs of AIFLOW files, and this one is of %s", run.Format)
	}
	document, err := a.app().FlowTrace(context.Background(), run)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", document)
	return err
}

// printTranscript prints the transcript of a run, as it is or as it grows. For people, notices of the journal are
// inserted between the events: pause is called while the transcript has no new event, and prints the notices that are
// known by then. It is replaced after the reader has been opened, and called by the goroutine that reads.
func (a *invocation) printTranscript(run *app.Run, follow, pretty bool) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals, release := a.Signals.handle()
	defer release()
	go func() {
		select {
		case <-signals:
			stop()
		case <-ctx.Done():
		}
	}()
	pause := func() {}
	var following func()
	if follow {
		following = func() { pause() }
	}
	in, err := a.runs().Transcript(ctx, run, following)
	if err != nil {
		return err
	}
	defer in.Close()
	if !pretty {
		_, err = io.Copy(terminal.JSON(a.stdout), in)
		return err
	}
	more, titles, err := a.notesOn(ctx, run)
	if err != nil {
		return err
	}
	more.live = follow
	printer := transcript.NewPrinter(a.painted(), transcript.PrettyOptions{
		Color: a.colorOut, Remarks: more.notesAround, Titles: titles, Live: follow,
	})
	pause = func() { printer.Pause(more.now()) }
	err = printer.Print(transcript.Read(in))
	return errors.Join(err, more.err)
}

// notesOn returns what is known of a run besides its transcript, and the titles of its steps. With a server, both
// come from the progress of the run, from the last notice that was seen.
func (a *invocation) notesOn(ctx context.Context, run *app.Run) (*journalNotes, map[string]string, error) {
	root := cmp.Or(run.Root, run.ID)
	more := &journalNotes{run: run.ID, style: console.Style{Color: a.colorOut}}
	if a.server == nil {
		program, err := a.app().Program(ctx, run)
		if err != nil {
			return nil, nil, err
		}
		j, err := a.app().Journal(ctx, run.ID)
		if err != nil {
			return nil, nil, err
		}
		more.follow(j, root)
		return more, program.Labels(), nil
	}
	titles := map[string]string{}
	var seen journal.Seq
	more.fetch = func() error {
		_, err := a.server.Follow(ctx, root, seen, client.Progress{
			Now: true, Titles: func(t map[string]string) { maps.Copy(titles, t) },
			Notice: func(n *console.Notice) error {
				seen = n.Seq
				more.add(n)
				return nil
			},
		})
		return err
	}
	more.load() // for the titles
	return more, titles, nil
}

// transcriptFile prints a transcript that is a file and no run of the project.
func (a *invocation) transcriptFile(path string, pretty, ofRuns bool) error {
	if ofRuns {
		return usage("Leave them out, or name a run.", "--follow and --trace are for runs, and %q is a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if pretty {
		return transcript.Pretty(a.painted(), transcript.Read(f), transcript.PrettyOptions{Color: a.colorOut})
	}
	_, err = io.Copy(terminal.JSON(a.stdout), f)
	return err
}
