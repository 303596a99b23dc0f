package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// The exit codes, the same for every command; `espalier help exit-codes`.
const (
	exitOK       = 0
	exitFailed   = 1 // the workflow ran and did not end well
	exitUsage    = 2 // wrong usage, unknown file
	exitInvalid  = 3 // the workflow is invalid
	exitWaiting  = 4 // the run waits for somebody or something
	exitBudget   = 5 // a budget or a deadline stopped it
	exitNotReady = 6 // the machine is not ready: nothing was started

	exitInterrupted = 130
	exitClosed      = 141 // nobody reads what is written any more; what shells say of it
)

const exitCodesHelp = `Every command ends with one of these codes:

  0    success
  1    the workflow ran and failed, was rejected at a gate or cancelled;
       "audit verify" or "drift" found a fault
  2    wrong usage, unknown file or name, inputs that fail their schema
  3    the workflow is invalid
  4    the run is waiting for somebody or something
  5    a budget or deadline stopped the run
  6    not ready: a file that cannot be written, a key or a tool that is
       missing; nothing was started
  130  interrupted; the run is parked, and "espalier resume" goes on
  141  whoever read the output closed it; a run goes on to its end all the same

A workflow of AWF may end with a status of its author's choice, which is passed
on. With --json the last line carries "outcome", so that scripts need not guess.
Warnings and notes do not change the code, unless --strict makes errors of
them.
`

// failure is an error that knows how the program ends and what to do next.
type failure struct {
	code    int
	message string // "" when everything has been said already
	help    string
}

func (f *failure) Error() string { return f.message }

func usage(help, message string, args ...any) error {
	return &failure{code: exitUsage, message: fmt.Sprintf(message, args...), help: help}
}

// errInvalid ends a command that has shown what is wrong with a workflow.
var errInvalid = &failure{code: exitInvalid}

// exit says what went wrong, and turns it into an exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	end := &failure{code: exitNotReady, message: err.Error()}
	var ref *source.RefError
	switch {
	case errors.As(err, &end):
	case errors.As(err, &ref):
		end = unreadableFile(ref)
	}
	if end.message != "" {
		fmt.Fprintln(a.stderr, a.paint(a.colorErr, a.stderr, red, "espalier:"), a.secrets.Show(sentence(end.message)))
	}
	if end.help != "" {
		fmt.Fprintln(a.stderr, a.secrets.Show(end.help))
	}
	return end.code
}

func unreadableFile(e *source.RefError) *failure {
	end := &failure{code: exitUsage, message: e.Error()}
	switch {
	case len(e.Near) > 0:
		end.help = fmt.Sprintf("Did you mean %q?", e.Near[0])
	case e.Problem == source.RefMissing:
		end.help = listsWorkflows
	case e.Problem == source.RefNotFile:
		end.help = "Name a file."
	case e.Problem == source.RefUnread:
		end.help = "Check that the file may be read and is UTF-8 text."
	}
	return end
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

// flagError is what a wrong flag leads to: a hint instead of the whole usage.
func flagError(cmd *cobra.Command, err error) error {
	help := fmt.Sprintf("%q lists the flags.", cmd.CommandPath()+" --help")
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return usage(help, "%q cannot be the value of --%s", value.GetValue(), value.GetFlag().Name)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		add := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		if near := diag.Nearest(unknown.GetSpecifiedName(), names); near != "" && unknown.GetSpecifiedShortnames() == "" {
			help = fmt.Sprintf("Did you mean \"--%s\"? %s", near, help)
		}
	}
	return usage(help, "%s", err)
}

// takes checks the number of arguments; what names them in the message.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		help := fmt.Sprintf("Usage: %s", cmd.UseLine())
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ") // the program has been named
		switch {
		case len(args) < least:
			return usage(help, "%s needs %s", name, what)
		case most >= 0 && len(args) > most && most == 0:
			return usage(help, "%s takes no arguments, but there is %q", name, args[0])
		case most >= 0 && len(args) > most:
			return usage(help, "%s takes %s, and %q is too much", name, what, args[most])
		}
		return nil
	}
}

const listsWorkflows = `"espalier list" shows the workflows that there are.`

// takesRun and takesWorkflow check the number of arguments, the first of which
// is a run or a workflow, and say where those are listed.
func takesRun(least, most int, what string) cobra.PositionalArgs {
	return listedBy(`"espalier runs" lists the runs.`, least, takes(least, most, what))
}

func takesWorkflow(most int, what string) cobra.PositionalArgs {
	return listedBy(listsWorkflows, 1, takes(1, most, what))
}

func listedBy(hint string, least int, check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var wrong *failure
		if len(args) < least && errors.As(err, &wrong) {
			wrong.help += "\n" + hint
		}
		return err
	}
}

// exclusive makes it wrong usage to give both flags. Completion leaves the
// other one out as well.
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
