package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/terminal"
)

// Environment is everything outside the program that commands touch.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Dir            string // the working folder
	// Now is what time it is; nil asks the machine.
	Now func() time.Time
	// Signals asks commands to stop; nil never does.
	Signals *Signals
	// Journal wraps the journal of every project that is opened; nil leaves
	// it as it is.
	Journal func(journal.Store) journal.Store
	// Confined returns how commands are confined here, or why they cannot be; nil asks the machine.
	Confined func() (process.Confinement, error)
	// IsTerminal reports whether a person looks at what is written; nil asks the
	// machine.
	IsTerminal func(io.Writer) bool
	// NewServer returns the HTTP server of the serve command.
	NewServer func(ServerOptions) HTTPServer
	// ServeMCP serves one client of the mcp command on Stdin and Stdout.
	ServeMCP func(ctx context.Context, a *app.App, by journal.Actor, version string, in io.Reader, out io.Writer) error
}

// Main runs one command line and returns the exit code. It never exits the process itself.
func Main(e Environment, args []string) int {
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Confined == nil {
		e.Confined = process.Confined
	}
	if e.IsTerminal == nil {
		e.IsTerminal = func(w io.Writer) bool { return isTerminal(w) }
	}
	// Two layers: screen makes control characters of content inert, results keeps the first error of a write.
	screen := terminal.New(e.Stdout, e.IsTerminal(e.Stdout))
	out := &results{to: screen}
	a := &invocation{
		Environment: e, stdout: out, stderr: terminal.New(e.Stderr, e.IsTerminal(e.Stderr)),
		screen: screen, remedies: newRun,
	}
	a.colorOut, a.colorErr = a.wantsColor(e.Stdout), a.wantsColor(e.Stderr)
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	a.close()
	// The reader of stdout is gone, as with "| head": shells report that as 128+SIGPIPE, and a message about it would
	// help no person. An error of the command itself wins.
	if errors.Is(out.failed, syscall.EPIPE) && (err == nil || errors.Is(err, syscall.EPIPE)) {
		return exitClosed
	}
	err = cmp.Or(err, out.failed)
	code := a.exit(err)
	if a.json && !a.resulted && cmd.Annotations[oneResult] != "" && err != nil {
		a.writeFailure(err, code)
	}
	return code
}

// Commands returns the tree of commands, for documentation. Its commands cannot run.
func Commands() *cobra.Command {
	return (&invocation{stdout: io.Discard, stderr: terminal.New(io.Discard, false)}).root()
}

// results writes the result of a command. It keeps the first error, so that callers need not check each line.
type results struct {
	to     io.Writer
	mu     sync.Mutex
	failed error
}

func (r *results) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = cmp.Or(r.failed, err)
	return n, err
}

// err returns the first error.
func (r *results) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// invocation is one command line that is being executed. Its fields are set by flags and by the command's goroutine.
// Other goroutines only use what guards itself: notices go to stderr and live, and results to stdout, behind mutexes.
type invocation struct {
	Environment
	stdout             io.Writer
	stderr             *terminal.Writer
	screen             *terminal.Writer // behind stdout
	colorOut, colorErr bool
	json               bool
	follow             bool   // print events as JSON, too
	message            string // of the error that ended the command
	resulted           bool   // the JSON object of a command that acts on a run is printed
	reading            catalog.ReadOptions
	remedies           remedies                     // for a run that is not ready
	opened             *app.App                     // nil until a command needs it
	lines              *bufio.Reader                // of stdin; nil until a command reads them
	quiet, verbose     bool                         // how much progress is shown
	shown              journal.Seq                  // the last event of the run whose progress is shown
	stdinEnded         bool                         // the last line of stdin was read
	autoApprove        bool                         // gates of a simulated run are approved
	wait               bool                         // a run that waits is watched until it has finished
	outputFile         string                       // for the output of a run; empty means stdout
	live               atomic.Pointer[console.Live] // the status area on the terminal; nil if none is shown
	// server is used instead of the store; nil for the store.
	server    *client.Client
	elsewhere bool // ESPALIER_SERVER names the server
}

// app returns the application, which is created when a command first needs it. set changes its options, and has an
// effect only in the call that creates the application: a command that needs other options calls app with them first.
func (a *invocation) app(set ...func(*app.Options)) *app.App {
	if a.opened != nil {
		return a.opened
	}
	home := a.Getenv("HOME")
	if home == "" {
		home, _ = os.UserHomeDir() // without one there are no skills of the user
	}
	o := app.Options{
		Dir: a.Dir, Home: home, Getenv: a.Getenv, Now: a.Now, Journal: a.Journal, Confined: a.Confined,
		Version: func() string { return readVersion().Version }, Notify: a.notify,
	}
	o.Labels = labelsOf(a.Getenv)
	for _, one := range set {
		one(&o)
	}
	a.opened = app.New(o)
	return a.opened
}

// recordOnly makes an application leave runs to other processes.
func recordOnly(o *app.Options) { o.RecordOnly = true }

// close closes the application. Runs that it drives come to rest first. It does not reset opened: commands that
// continue with another application do.
func (a *invocation) close() {
	if a.opened != nil {
		a.opened.Close() // records that could not be written are completed by the next process
	}
}

// notify prints a notice of the application. Several goroutines may call it.
func (a *invocation) notify(n app.Notice) {
	if len(n.Diagnostics) > 0 {
		// A closed stderr does not stop the command.
		_ = diag.Printer{Files: n.Files, Color: a.colorErr}.Print(a.paintedErr(), n.Diagnostics)
	}
	if n.Text != "" {
		a.note("%s", n.Text)
	}
}

const (
	groupRun   = "run"
	groupCheck = "check"
	groupFind  = "find"
	groupHelp  = "help"
)

// root returns the tree of commands. Its commands write to the fields of this invocation, so each invocation has a tree
// of its own.
func (a *invocation) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "espalier",
		Short: "Read, check, draw and run workflows of LLM agents",
		Long: `Espalier validates workflows of LLM agents, computes their worst-case cost,
draws them, and runs them durably. A workflow is named by its path, by its
folder, or by its name as "espalier list" shows it.`,
		Example: `  espalier new invoice-check --pattern pipeline   create a workflow
  espalier validate .                             check every workflow here
  espalier show invoice-check                     what it does, on one page
  espalier graph invoice-check -o flow.svg        a picture
  espalier run invoice-check --simulate           run it without a real model
  espalier runs                                   list the runs
  espalier explain AF001                          what a code means`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // an unknown command arrives as an argument
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case version:
				return a.printVersion()
			case a.interactive():
				return a.greet()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "like the command version")
	// Applied while flags are parsed, because errors about later flags are colored, too.
	root.PersistentFlags().BoolFunc("no-color", "print no colors", func(string) error {
		a.colorOut, a.colorErr = false, false
		return nil
	})
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetIn(a.Stdin)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd == root && len(args) > 0 {
			return unknownCommand(root, args[0]) // whose flags cannot be known
		}
		return flagError(cmd, err)
	})
	// The command completion replaces the one of cobra.
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run workflows:"},
		&cobra.Group{ID: groupCheck, Title: "Inspect a workflow:"},
		&cobra.Group{ID: groupFind, Title: "Find and create workflows:"},
		&cobra.Group{ID: groupHelp, Title: "Reference:"},
	)
	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			if c.HasSubCommands() && !c.Runnable() {
				c.Use += " COMMAND"
				c.Args, c.RunE = cobra.ArbitraryArgs, groupHelpOnly
			}
			// Without an own check, cobra would ignore arguments of commands that take none.
			for _, one := range append(c.Commands(), c) {
				one.DisableFlagsInUseLine = true
				if one.Args == nil {
					one.Args = takes(0, 0, "")
				}
			}
			root.AddCommand(c)
		}
	}
	in(groupRun, a.runCommand(), a.resumeCommand(), a.serveCommand(), a.workCommand(), a.workersCommand(),
		a.triggersCommand(), a.mcpCommand(), a.runsCommand(), a.storeCommand(), a.statusCommand(), a.outputCommand(),
		a.decisionCommand("approve", "Approve a gate", func(step, note, digest, value string) app.Message {
			return app.Approve{Step: step, Note: note, Digest: digest, Value: json.RawMessage(value)}
		}),
		a.decisionCommand("reject", "Reject a gate", func(step, note, digest, _ string) app.Message {
			return app.Reject{Step: step, Note: note, Digest: digest}
		}),
		a.signalCommand(),
		a.interveneCommand("pause", "Pause a run before its next step", `Running steps finish
first, whichever process runs them. "espalier resume RUN" continues the run.`, app.Pause{}),
		a.interveneCommand("cancel", "Cancel a run", `Running steps are stopped and recorded as canceled,
whichever process runs them. The run stays as a record; "espalier runs rm"
removes it, and "espalier resume RUN --from STEP" starts a new one from a step.`,
			app.Cancel{Reason: "canceled by hand"}),
		a.editCommand(), a.transcriptCommand(), a.memoryCommand(), a.auditCommand())
	in(groupCheck, a.validateCommand(), a.showCommand(), a.graphCommand(), a.costCommand(), a.driftCommand())
	in(groupFind, a.listCommand(), a.initCommand(), a.newCommand(), a.createCommand(), a.promoteCommand(),
		a.setupIDECommand(), a.doctorCommand(), a.toolsCommand(), a.trustCommand(), a.userCommand(), a.loginCommand(),
		a.logoutCommand())
	in(groupHelp, a.explainCommand(), a.schemaCommand(), a.exprCommand(), a.versionCommand(), a.completionCommand())
	a.addHelp(root)
	return root
}

// unknownCommand returns the error for a word that is no command, with the best guess at what was meant: the word of
// another program, a similar command, or a file to validate.
func unknownCommand(root *cobra.Command, name string) error {
	help := fmt.Sprintf("%q lists the commands.", root.Name()+" help")
	if other := otherWords[name]; other != "" {
		help = other
	} else if near := diag.Nearest(name, commandNames(root)); near != "" {
		help = fmt.Sprintf("Did you mean %q? %s", root.Name()+" "+near, help)
	} else if strings.HasSuffix(name, ".md") || strings.ContainsAny(name, `/\`) {
		help = fmt.Sprintf("To check a file: %q", root.Name()+" validate "+name)
	}
	return usage(help, "unknown command %q", name)
}

// groupHelpOnly is what a command does that only has commands below it.
func groupHelpOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	help := fmt.Sprintf("Its commands are %s.", diag.Enumerate(commandNames(cmd)))
	near := cmp.Or(otherSubcommands[cmd.Name()+" "+args[0]], diag.Nearest(args[0], commandNames(cmd)))
	if near != "" {
		help = fmt.Sprintf("Did you mean %q? %s", cmd.CommandPath()+" "+near, help)
	}
	return usage(help, "%s has no command %q", cmd.Name(), args[0])
}

// otherSubcommands are words that people try below a command, and what is meant.
var otherSubcommands = map[string]string{
	"triggers fire": "run", "triggers start": "run", "triggers stop": "pause", "triggers ls": "list",
	"user create": "add", "user delete": "remove", "user rm": "remove", "user ls": "list",
	"store verify": "check", "store copy": "backup", "store move": "migrate",
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// jsonFlag adds --json to a command that reports.
func (a *invocation) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON instead of text")
	return cmd
}

// oneResult is the annotation of commands that print exactly one JSON object with --json, whatever their exit code. If
// such a command fails before it prints the object, Main prints one for the failure.
const oneResult = "one-result"

// resultFlag adds --json to a command that prints exactly one object.
func (a *invocation) resultFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{oneResult: "yes"}
	return a.jsonFlag(cmd)
}

// driveFlags adds the flags of commands that drive a run: how to show its progress, and where its output goes.
func (a *invocation) driveFlags(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.BoolVar(&a.follow, "follow", false, "with --json, also print each event, one object per line")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "show no progress")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "on a terminal, show one line for each event and keep it")
	flags.StringVarP(&a.outputFile, "output", "o", "", "write the output of the run to this `FILE`")
	exclusive(cmd, "quiet", "verbose")
	return a.resultFlag(cmd)
}
