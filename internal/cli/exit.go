package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/source"
)

// The exit codes, the same for every command; `espalier help exit-codes`.
const (
	exitOK       = 0
	exitFailed   = 1 // the workflow ran and did not end well
	exitUsage    = 2 // wrong usage, unknown file
	exitInvalid  = 3 // the workflow is invalid
	exitWaiting  = 4 // the run waits for a person, an event or a time
	exitBudget   = 5 // a budget or a deadline stopped it
	ExitNotReady = 6 // the machine is not ready: nothing was started

	ExitInterrupted = 130
	exitClosed      = 141 // the reader of the output is gone, as shells report it
)

const exitCodesHelp = `Every command ends with one of these codes:

  0    success
  1    the workflow ran and failed, was rejected at a gate or canceled;
       "audit verify" or "drift" found a fault
  2    wrong usage, unknown file or name, inputs that fail their schema
  3    the workflow is invalid
  4    the run is waiting for a person, an event or a time
  5    a budget or deadline stopped the run
  6    not ready: a file that cannot be written, a key or a tool that is
       missing; nothing was started
  130  interrupted; "espalier resume" continues the run
  141  the reader of the output closed it; a run continues to its end

An AWF workflow may choose its own exit status, which is passed on. With --json,
the object has "outcome", so that scripts need not guess; with --follow, it is
the last line. Warnings and notes do not change the code, unless --strict
turns them into errors.
`

// failure is an error that knows how the program ends and what to do next. message and help are for people; they are
// printed to stderr.
type failure struct {
	code    int
	message string // "" if the command has printed it already
	help    string
}

func (f *failure) Error() string { return f.message }

// fail returns the error of a command that ends with an exit code. help is what to do next, or "".
func fail(code int, help, message string, args ...any) error {
	return &failure{code: code, message: fmt.Sprintf(message, args...), help: help}
}

func usage(help, message string, args ...any) error { return fail(exitUsage, help, message, args...) }

// usageIf returns the error about wrong usage if something is wrong.
func usageIf(wrong bool, help, message string, args ...any) error {
	if !wrong {
		return nil
	}
	return usage(help, message, args...)
}

// oneOf returns an error with the message unless a value is one of a few words.
func oneOf(value string, words []string, message string) error {
	return usageIf(!slices.Contains(words, value), diag.DidYouMean(value, words), message, value)
}

// errInvalid ends a command that has shown what is wrong with a workflow.
var errInvalid = &failure{code: exitInvalid}

// exit prints what went wrong, and turns it into an exit code. Errors of unknown types have the code of a machine that
// is not ready. Secrets are removed from everything that is printed.
func (a *invocation) exit(err error) int {
	if err == nil {
		return exitOK
	}
	end := &failure{code: ExitNotReady, message: err.Error()}
	var ref *source.RefError
	var failed *app.Error
	switch {
	case errors.Is(err, errSignal):
		end = &failure{code: ExitInterrupted, message: "interrupted"}
	// A failure that a command has built. It replaces end only if there is one in the chain.
	case errors.As(err, &end):
	case errors.As(err, &failed):
		end = a.failure(failed)
	case errors.As(err, &ref):
		end = unreadableFile(ref)
	}
	a.message = a.redact(end.message)
	if end.message != "" {
		const name = "espalier:"
		text := a.wrapErr(name + " " + a.redact(sentence(end.message)))
		fmt.Fprintln(a.stderr, a.paint(a.colorErr, a.stderr, red, name)+strings.TrimPrefix(text, name))
	}
	if end.help != "" {
		fmt.Fprintln(a.stderr, a.wrapErr(a.redact(end.help)))
	}
	return end.code
}

// redact removes secrets from a text. Without an application, there are none.
func (a *invocation) redact(text string) string {
	if a.opened == nil {
		return text
	}
	return a.opened.Redact(text)
}

// writeFailure prints the JSON object of a command that failed before there was a result. It is called after exit,
// which sets message.
func (a *invocation) writeFailure(err error, code int) {
	out := api.Result{Outcome: map[int]string{
		exitUsage: api.InvalidRequest, exitInvalid: api.InvalidWorkflow,
		ExitInterrupted: string(journal.StateInterrupted),
	}[code]}
	out.Outcome = cmp.Or(out.Outcome, api.NotReady)
	var failed *app.Error
	if errors.As(err, &failed) {
		out.ID = string(failed.Run)
		if failed.Kind == app.StoreLost {
			out.Outcome = api.StoreLost
		}
	}
	if out.Error = a.message; failed != nil && len(failed.Missing) > 0 {
		out.Error = a.redact(app.Summary(failed))
	}
	_ = a.writeResult(out) // the exit code is that of the first error
}

// exitCodes are the exit codes of the kinds of errors.
var exitCodes = map[app.ErrorKind]int{
	app.Internal: ExitNotReady, app.InvalidRequest: exitUsage, app.NotFound: exitUsage,
	app.InvalidWorkflow: exitInvalid, app.NotReady: ExitNotReady, app.Refused: exitUsage, app.Conflict: exitUsage,
	app.StoreUnavailable: ExitNotReady, app.StoreDamaged: ExitNotReady, app.StoreFull: ExitNotReady,
	app.StoreLost: ExitNotReady, app.Interrupted: ExitInterrupted,
	app.EngineUnavailable: ExitNotReady,
}

// advice is what to type next, by the reason of an error; {run}, {name}, {names} and {dir} stand for what the error is
// about. It applies only if the error has no advice of its own. app does not give advice of this kind because it
// serves the API and the pages, too.
var advice = map[app.Reason]string{
	app.NoRunName: `"espalier runs" lists them.`,
	app.NoRun:     `"espalier runs" lists them.`,
	app.NoRuns: `"espalier run WORKFLOW" starts one. A run is kept in the project of its workflow: ` +
		"change to that folder to see it.",
	app.AsksNoModel:  "\"espalier show {name}\" says which steps ask a model.",
	app.NotOnDemand:  "Use --force to run it anyway.",
	app.InvalidInput: "Pass inputs with --input NAME=VALUE; \"espalier show {name}\" lists them.",
	app.UndeclaredInput: "Pass inputs with --input NAME=VALUE; \"espalier show {name}\" lists them.\nUse " +
		"--allow-undeclared to pass other inputs.",
	app.InvalidConfig:   "Nothing was started. Fix the problems above; \"espalier validate {name}\" checks it again.",
	app.PythonSimulated: "Leave out --python: the built-in interpreter runs the code without starting a program.",
	app.NoSandbox: "Nothing was started. Leave out --python, which most workflows do not need; or look at the " +
		"code, and use --python=unconfined if you trust it.",
	app.AmbiguousRun:     "Use a longer prefix of one of these IDs:\n  {names}",
	app.AmbiguousTrigger: "Use one of these IDs:\n  {names}",
	app.NotResumable:     "The run can still be read.",
	app.InnerStep:        "Go back to the step that contains it: espalier resume {run} --from {name}",
	app.AlreadyDecided:   "\"espalier audit {run}\" shows it.",
	app.GateApproved: "The gate opens again with \"espalier resume {run} --from {name}\". Edit the run while it " +
		"waits there;\nfor a run that has finished, add --set NAME=VALUE to that command.",
	app.NotReached: "\"espalier transcript {run} --pretty\" shows which steps it has reached.",
	app.RunFinished: "\"espalier output {run}\" prints its result; \"espalier resume {run} --from STEP\" " +
		"repeats a part of it in a new run.",
	app.RunUnfinished:   "Cancel it first: espalier cancel {run}",
	app.NotFinished:     "Use \"espalier edit {run} NAME=VALUE\" for a run that waits or is paused.",
	app.RunExists:       "Leave out --run-id to use a new one; \"espalier status {run}\" shows the existing run.",
	app.RunOwned:        "It continues by itself; \"espalier status {run}\" shows its status.",
	app.NoTranscript:    "The run was started with --no-transcript, or has no events yet.",
	app.NotPromotable:   "\"espalier create {name}\" continues and checks it; use --force to promote it anyway.",
	app.ClaimedIdentity: "Leave out --as, or let them decide on the server with their own token.",
	app.WasEdited:       "Copy the parts you need, then use --force to overwrite the workflow.",
	app.Incomplete:      "\"espalier create {name}\" continues it; or start over with a description.",
	app.NoScript:        "Nothing was started. Leave out --scripts: the workflow runs without.",
	app.ScriptConsent:   "Nothing was started. Review it; then use --allow-shell.",
	app.NoDatabase:      "Name one: espalier store migrate postgres://user@host/database",
	app.NoWorker:        "\"espalier workers\" lists all workers.",
	app.NotWorker: "Only \"espalier work\" and \"espalier serve\" can be drained. Interrupt the process " +
		"instead.",
	app.NotOffline: "Add \"otherwise: simulate\" to the script: then they are simulated. Or leave --auto-approve " +
		"out, and decide with \"espalier approve\".",
	app.GenerationFailed: "It is kept in {dir}. Fix it there and run \"espalier create {name}\" again, or start over.",
}

// kindAdvice is the advice for errors about a run without a reason of their own.
var kindAdvice = map[app.ErrorKind]string{
	app.Refused: "\"espalier status {run}\" shows the status of the run and its open gates.",
	app.StoreLost: "Check the disk first: its last writes may be lost. Then \"espalier resume {run}\" continues from " +
		"what was kept.",
	app.StoreFull: "What was done so far is kept. Free space on the disk; \"espalier resume {run}\" continues from " +
		"there.",
	app.StoreUnavailable: "What was done so far is kept. Check that the database server is running; " +
		"\"espalier resume {run}\" continues from there.",
	app.EngineUnavailable: "What was done so far is kept. Check that the Temporal server is running, and its " +
		"address, namespace and credentials; \"espalier resume {run}\" continues from there.",
	app.Internal: "What was done so far is kept; \"espalier resume {run}\" continues from there.",
}

// failure turns an error of the application into an exit code and advice in terms of the command line. It prints the
// diagnostics of the error. The table advice has most texts; the switch has those that depend on more than names.
func (a *invocation) failure(e *app.Error) *failure {
	if e.Kind == app.InvalidWorkflow && e.Reason == "" {
		return a.invalid(e)
	}
	a.notify(app.Notice{Diagnostics: e.Diagnostics, Files: e.Files})
	end := &failure{code: exitCodes[e.Kind], message: e.Message, help: e.Advice}
	text := advice[e.Reason]
	if e.Reason == "" && e.Run != "" {
		text = kindAdvice[e.Kind]
	}
	if text != "" && end.help == "" {
		dir := ""
		if len(e.Names) > 0 {
			dir = a.display(e.Names[0])
		}
		name := cmp.Or(e.Name, "WORKFLOW")
		end.help = strings.NewReplacer("{run}", e.Run.Short(), "{name}", name, "{names}", strings.Join(e.Names, "\n  "),
			"{dir}", dir).Replace(text)
	}
	switch e.Reason {
	case app.RunOwned:
		end.code = ExitNotReady
	case app.OutcomeUnknown:
		ask := report.AskOf(journal.AskOutcome, e.Run, e.Name, "")
		end.help = fmt.Sprintf("%s: %s   %s", ask.Aim, ask.Command, ask.Remark)
	case app.NoRun, app.NoRuns:
		if len(e.Names) > 0 {
			end.help += " Projects with runs of their own: " + strings.Join(e.Names, ", ") + "."
		}
	case app.NoTrigger:
		end.help = "No workflow here declares a matching one. Run \"espalier triggers list\" to see all triggers."
		if len(e.Names) > 0 {
			end.help = "Use one of these IDs:\n  " + strings.Join(e.Names, "\n  ")
		}
	case app.NoWorkflow:
		switch {
		case e.Name == "":
			end.help = `Run "espalier help formats" to see which files are workflows.`
		case end.help == "":
			end.help = fmt.Sprintf("There are no workflows in %s. Run \"espalier new %s\" to create one.",
				folder(e.Names[0]), e.Name)
		}
	case app.UnnamedInput:
		end.message = fmt.Sprintf("--input %q has no \"=\"", e.Name)
		end.help = unnamedHelp(e)
	case app.PythonSimulated:
		end.message = "--python runs python3, and a simulated run starts no programs"
	case app.NoSandbox:
		end.message = "--python requires a sandbox, which is unavailable: " + e.Message
	case app.InvalidConfig:
		if e.Kind == app.InvalidWorkflow {
			end.help = "Run \"espalier validate " + e.Name + "\" to see them."
		}
	case app.NoGeneration:
		end.help = fmt.Sprintf("Run \"espalier create %s\" to generate one.", e.Name)
		if e.Kind == app.InvalidRequest {
			end.help = fmt.Sprintf(`Run "espalier create %s" with a description in quotes to generate one.`, e.Name)
		}
	case app.MissingLabels:
		end.help = labelHelp(e)
	case app.NotOffline:
		end.message = "--auto-approve is for runs in which nothing is real, and " + e.Message
	case app.MissingModels, app.MissingTools, app.MissingBoth, app.NeedsConsent:
		end.help = a.remediesFor(e)
	}
	if e.Kind == app.StoreDamaged && e.Run != "" {
		end.help += "\nTo remove only this run: espalier runs rm " + e.Run.Short()
	}
	unavailable := e.Kind == app.StoreUnavailable || e.Kind == app.EngineUnavailable
	if unavailable && e.Run == "" || e.Reason == app.MissingSecret {
		end.help = strings.TrimSpace("Nothing was started. " + end.help)
	}
	return end
}

// unnamedHelp says how an input is written. What lacks "=" is often the name of an input.
func unnamedHelp(e *app.Error) string {
	name := cmp.Or(diag.Nearest(e.Name, e.Names), "NAME")
	if slices.Contains(e.Names, e.Name) {
		name = e.Name
	}
	return fmt.Sprintf("Write --input %s=VALUE. The workflow declares %s.", name,
		cmp.Or(diag.Enumerate(e.Names), "no inputs"))
}

// invalid shows why a workflow cannot be used: in JSON as validate does.
func (a *invocation) invalid(e *app.Error) *failure {
	if a.json {
		a.resulted = true
		if err := a.writeJSON(newReport([]string{e.Name}, e.Files, e.Diagnostics, nil)); err != nil {
			return &failure{code: ExitNotReady, message: err.Error()}
		}
		return errInvalid
	}
	a.notify(app.Notice{Diagnostics: e.Diagnostics, Files: e.Files})
	a.note("\n%s", e.Message)
	return errInvalid
}

// remedies are what a person can do about a run that is not ready.
type remedies struct{ still, instead, allow, unready string }

var (
	newGeneration = remedies{
		still: "Nothing was started.", instead: " Use --model NAME for a model that \"espalier doctor\" lists, " +
			"--simulate to simulate the replies, or --script FILE to play them from a file.",
		allow: "use --allow-shell, or run \"espalier trust\".",
	}
	newRun = remedies{
		newGeneration.still, newGeneration.instead, newGeneration.allow,
		" Use --unready to start anyway; steps that need them fail.",
	}
	newFiring = remedies{
		still:   newGeneration.still,
		instead: " Set simulate of the workflow under triggers in espalier.yaml to simulate the replies.",
		allow:   oldRun.allow,
	}
	oldRun = remedies{still: "The run was not continued.", allow: "run \"espalier trust\"."} // its options are pinned
)

// remediesFor lists what a run lacks, with what to do about it.
func (a *invocation) remediesFor(e *app.Error) string {
	can := a.remedies
	if e.Run != "" {
		can = oldRun
	}
	if e.Reason == app.NeedsConsent {
		return can.still + " Review them; then " + can.allow
	}
	if !e.Startable {
		can.unready = ""
	}
	var lines []string
	for _, l := range e.Missing {
		lines = append(lines, fmt.Sprintf("  %s\n    needed by: %s", sentence(upper(l.Message)),
			strings.Join(l.Steps, ", ")))
		if l.Help != "" {
			// What is to be pasted follows an empty line, as it is.
			say, paste, pastes := strings.Cut(strings.TrimRight(l.Help, "\n"), "\n\n")
			say = "    " + strings.ReplaceAll(say, "\n", "\n    ")
			if pastes {
				say += "\n\n" + paste + "\n"
			}
			lines = append(lines, say)
		}
	}
	return strings.Join(lines, "\n") + "\n" + can.still + can.instead + can.unready
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func unreadableFile(e *source.RefError) *failure {
	end := &failure{code: exitUsage, message: e.Error()}
	switch {
	case len(e.Near) > 0:
		end.help = fmt.Sprintf("Did you mean %q?", e.Near[0])
	case e.Problem == source.RefMissing:
		end.help = listsWorkflows
	case e.Problem == source.RefNotFile:
		end.help = "Pass the path of a file."
	case e.Problem == source.RefUnread:
		end.help = "Check that the file may be read and is UTF-8 text."
	}
	return end
}

// folder returns the name of a folder in a sentence.
func folder(dir string) string {
	if dir == "." {
		return "this folder"
	}
	return dir
}

// sentence ends a message with a full stop, unless it ends with a mark already
// or with a list.
func sentence(s string) string {
	last := s[strings.LastIndexByte(s, '\n')+1:]
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".?!:") || strings.HasPrefix(last, "  ") {
		return s
	}
	return s + "."
}

// valueForms say how to write the value of a flag, by its type. All fractions are dollars.
var valueForms = map[string]string{
	"duration": "a duration, such as 30s or 5m", "float64": "dollars, such as 2.50", "bool": "true or false",
	"int": "a whole number", "uint64": "a whole number that is not negative",
}

// flagError returns the error for a wrong flag: a hint instead of the whole usage, which would scroll the message away.
func flagError(cmd *cobra.Command, err error) error {
	help := fmt.Sprintf("%q lists the flags.", cmd.CommandPath()+" --help")
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if form := valueForms[value.GetFlag().Value.Type()]; form != "" {
			help = "Write " + form + "."
		}
		return usage(help, "invalid value %q for --%s", value.GetValue(), value.GetFlag().Name)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		add := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		// A wrong short flag has a single letter, to which every other one is equally near.
		if near := diag.Nearest(unknown.GetSpecifiedName(), names); near != "" &&
			unknown.GetSpecifiedShortnames() == "" {
			help = fmt.Sprintf("Did you mean \"--%s\"? %s", near, help)
		}
	}
	return usage(help, "%s", err)
}

// takes checks the number of arguments; what names them in the message. listed says where to find what is missing.
func takes(least, most int, what string, listed ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		help := "Usage: " + cmd.UseLine()
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") // the program has been named
		switch {
		case len(args) < least:
			return usage(strings.Join(append([]string{help}, listed...), "\n"), "%s needs %s", name, what)
		case most >= 0 && slices.Contains(args[least:], ""):
			return usage(help, "an argument of %s is empty", name) // an unset variable must not become the default
		case most < 0 || len(args) <= most:
			return nil
		case most == 0:
			return usage(help, "%s takes no arguments; %q is unexpected", name, args[0])
		default:
			return usage(help, "%s takes %s; %q is unexpected", name, what, args[most])
		}
	}
}

// optional returns the argument at an index, or "" if there are fewer.
func optional(args []string, at int) string {
	if at < len(args) {
		return args[at]
	}
	return ""
}

const listsWorkflows = `"espalier list" shows all workflows.`

// takesRun and takesWorkflow check the number of arguments, the first of which
// is a run or a workflow, and say where those are listed.
func takesRun(least, most int, what string) cobra.PositionalArgs {
	return takes(least, most, what, `"espalier runs" lists the runs.`)
}

func takesWorkflow(most int, what string) cobra.PositionalArgs {
	return takes(1, most, what, listsWorkflows)
}

// exclusive makes it wrong usage to give both flags. cobra's own check would end with a message of another form, so the
// arguments are checked with a wrapper; cobra's mark makes completion leave the other flag out. Call it after cmd.Args
// is set.
func exclusive(cmd *cobra.Command, one, other string) {
	cmd.MarkFlagsMutuallyExclusive(one, other)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if flags := cmd.Flags(); flags.Changed(one) && flags.Changed(other) {
			return usage("Choose one of the two.", "--%s and --%s exclude each other", one, other)
		}
		return args(cmd, given)
	}
}
