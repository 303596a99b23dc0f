package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/terminal"
)

// The variables that name a server on another machine.
const (
	serverVariable = "ESPALIER_SERVER"
	tokenVariable  = "ESPALIER_TOKEN"
)

// runService has the runs of a project: the store on this machine (app.App), or a server (client.Client). Commands that
// use it work the same with both.
type runService interface {
	Find(ctx context.Context, name string) (*app.Run, error)
	Get(ctx context.Context, id journal.RunID) (*app.Run, error)
	RootRun(ctx context.Context, r *app.Run) (*app.Run, error)
	Runs(ctx context.Context, f app.Filter) ([]app.Run, error)
	RunsIn(ctx context.Context, s app.StateFilter, f app.Filter) ([]app.Run, error)
	Status(ctx context.Context, id journal.RunID) (*app.Status, error)
	Ending(ctx context.Context, r *app.Run) (*app.Ending, error)
	Exhausted(ctx context.Context, id journal.RunID) (app.Exhausted, error)
	Executions(ctx context.Context, id journal.RunID, step string) ([]*app.Execution, error)
	Transcript(ctx context.Context, r *app.Run, follow func()) (io.ReadCloser, error)
	AuditLog(ctx context.Context, r *app.Run) (io.ReadCloser, error)
	SetAside(ctx context.Context, r *app.Run) ([]string, error)
	VerifyAudit(ctx context.Context, r *app.Run) ([]app.AuditReport, error)
	Send(ctx context.Context, id journal.RunID, by journal.Actor, messages ...app.Message) (*app.Sent, error)
}

// runs returns the server that the command uses, or else the project on this
// machine.
func (a *invocation) runs() runService {
	if a.server != nil {
		return a.server
	}
	return a.app()
}

// connect makes the command use the server that ESPALIER_SERVER names, if it
// names one.
func (a *invocation) connect() error {
	address := strings.TrimSuffix(a.Getenv(serverVariable), "/")
	if address == "" || a.server != nil {
		return nil
	}
	token := a.Getenv(tokenVariable)
	if token == "" {
		tokens, err := a.readLogins()
		if err != nil {
			return err
		}
		token = tokens[address]
	}
	server, err := client.New(address, token)
	if err != nil {
		return usage("Set "+serverVariable+" to the address of the server.", "%v", err)
	}
	a.server, a.elsewhere = server, true
	return nil
}

// connectToAct makes a command that acts on existing runs use the server of
// the project, if one is running: the server has the keys of the runs that it
// drives, and records who decides. Commands that only read need no server: the
// store has everything.
func (a *invocation) connectToAct() error {
	if err := a.connect(); err != nil || a.server != nil {
		return err
	}
	// An application of its own: the command decides later what its application does.
	if dir, ok := app.New(app.Options{Dir: a.Dir, Home: a.Getenv("HOME"), Getenv: a.Getenv}).TrustedStateDir(); ok {
		a.server = client.Local(dir)
	}
	return nil
}

// tryServerFirst calls do, which acts on runs, with the server of the project if one is running. If the server lacks
// something that this process may have, such as a key in the environment, or cannot be reached any more, do is called
// again without the server. So do must not have an effect before it fails with such an error; see followToRest. A
// server that the user has named is not left.
func (a *invocation) tryServerFirst(do func() error) error {
	if err := a.connectToAct(); err != nil {
		return err
	}
	if err := a.checkOutputFile(); err != nil {
		return err
	}
	err := do()
	var missing *app.Error
	if a.server == nil || a.elsewhere || !errors.As(err, &missing) ||
		missing.Kind != app.NotReady && !client.NotSent(err) {
		return err
	}
	a.server.Close()
	a.server = nil
	return do()
}

// sendAndFollow sends something about a run to the server, and shows the progress of the run until it is at rest. After
// a signal it reports that the run continues, and returns no run. Progress starts after the last fact before begin:
// what was shown earlier is not repeated.
func (a *invocation) sendAndFollow(id journal.RunID, begin func(ctx context.Context) error) (*app.Run, error) {
	after := journal.Seq(0) // of a new run
	run, err := a.server.Get(context.Background(), id)
	var missing *app.Error
	switch {
	case err == nil:
		after = run.Seq
	case !errors.As(err, &missing) || missing.Kind != app.NotFound:
		return nil, err
	}
	return a.followToRest(id, after, begin)
}

// followToRest shows the progress of a run on a server after a fact, until it is at rest. begin makes the run move. A
// signal ends the watching alone: the server drives the run.
func (a *invocation) followToRest(
	id journal.RunID, after journal.Seq, begin func(ctx context.Context) error,
) (run *app.Run, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals, release := a.Signals.handle()
	defer release()
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		if err = begin(ctx); err == nil {
			run, err = a.server.Follow(ctx, id, after, client.Progress{Notice: a.printNotice})
			err = lostServer(id, err)
		}
	}()
	select {
	case <-rested:
		return run, err
	case <-signals:
	}
	cancel()
	<-rested
	return nil, a.leftRunning(id)
}

// lostServer replaces the error of a server that cannot be reached any more after it has accepted a request about a
// run. It is no *app.Error, because the request must not be repeated.
func lostServer(id journal.RunID, err error) error {
	var lost *app.Error
	if !errors.As(err, &lost) || lost.Reason != client.Unreachable {
		return err
	}
	help := fmt.Sprintf("The server has accepted the request. When it is back, it continues the run. "+
		"To see it: espalier status %[1]s. To continue it without the server: espalier resume %[1]s", id.Short())
	return fail(ExitNotReady, help, "%s", lost.Message)
}

// printNotice prints a line of progress.
func (a *invocation) printNotice(n *console.Notice) error {
	if a.json && a.follow {
		line, err := n.JSON()
		if err == nil {
			_, err = terminal.JSON(a.stdout).Write(line)
		}
		return err
	}
	if a.quiet {
		return nil
	}
	if line := n.Line(console.Style{Color: a.colorErr, Zone: time.Local}); line != "" {
		_, err := io.WriteString(a.paintedErr(), line+"\n")
		if readerGone(err) {
			return nil // the run continues, and its end counts
		}
		return err
	}
	return nil
}

// leftRunning reports after a signal that a run continues on the server.
func (a *invocation) leftRunning(id journal.RunID) error {
	if a.json {
		if run, err := a.server.Get(context.Background(), id); err == nil {
			if err := a.writeInterrupted(run); err != nil {
				return err
			}
		}
	}
	help := fmt.Sprintf("To see it: espalier status %[1]s. To stop it: espalier pause %[1]s, or espalier cancel %[1]s",
		id.Short())
	return fail(ExitInterrupted, help, "stopped watching; run %s continues on the server", id.Short())
}

// resumeOnServer resumes a run on the server.
func (a *invocation) resumeOnServer(run *app.Run, req app.ResumeRequest) error {
	ctx := context.Background()
	r, err := a.server.Resume(ctx, req)
	if err != nil {
		return err
	}
	a.noteChanged(r.Changed)
	after := run.Seq
	if r.Step != "" {
		after = 0
		a.note("Run %s has finished and stays as it is; run %s continues from %s.",
			run.ID.Short(), r.Run.ID.Short(), r.Step)
	}
	a.showID(r.Run.ID)
	rested, err := a.followToRest(r.Run.ID, after, func(context.Context) error { return nil })
	return a.answerOrReport(nil, r.Run.ID, rested, err)
}

// serverFlags are the flags of run that work with a server on another machine.
var serverFlags = []string{
	"input", "input-file", "simulate", "seed", "model", "detach", "run-id", "json", "follow", "quiet", "help",
}

// runOnServer starts a run on the server that ESPALIER_SERVER names.
func (a *invocation) runOnServer(workflow string, f *runFlags) error {
	var refused error
	f.visit(func(flag *pflag.Flag) {
		if !slices.Contains(serverFlags, flag.Name) {
			refused = usage("Leave it out, or unset "+serverVariable+" to run the workflow on this machine.",
				"--%s does not work with a server", flag.Name)
		}
	})
	if refused != nil {
		return refused
	}
	ctx := context.Background()
	w, unknown := a.server.Workflow(ctx, workflow)
	if unknown == nil && w.Errors == 0 {
		a.warn(w.Path, w.Diagnostics)
	}
	input, err := a.serverInput(&w, unknown, f)
	if err != nil {
		return err
	}
	id := cmp.Or(journal.RunID(f.runID), app.NewRunID())
	begin := func(ctx context.Context) error {
		_, err := a.server.Start(ctx, client.StartRequest{
			Workflow: workflow, Input: input, Simulate: f.options.Simulate, Seed: f.options.Seed,
			Model: f.options.Model, RunID: id,
		})
		return err
	}
	if !f.detach {
		return a.converse(nil, id, begin)
	}
	if err := begin(ctx); err != nil {
		return err
	}
	return a.printStarted(id, fmt.Sprintf("Started on %s.", a.server.URL()))
}

// serverInput puts the input of a run on a server together. The workflow's
// schema decides what texts mean. Without fields, the server reports an unknown
// workflow.
func (a *invocation) serverInput(w *client.Workflow, unknown error, f *runFlags) (json.RawMessage, error) {
	req, err := a.prepareRequest(nil, f)
	if err != nil || len(req.Fields) == 0 {
		return req.Input, err
	}
	if unknown != nil {
		return nil, unknown
	}
	return app.InputOf(w.Format, w.InputSchema, req.Input, req.Fields)
}

// loginsFile returns the file with the tokens for servers on other machines, in the user's own configuration folder.
func (a *invocation) loginsFile() string {
	dir := cmp.Or(a.Getenv("XDG_CONFIG_HOME"), filepath.Join(a.Getenv("HOME"), ".config"))
	return filepath.Join(dir, "espalier", "logins.json")
}

// readLogins returns tokens by the address of their server. It refuses a file that others can change.
func (a *invocation) readLogins() (map[string]string, error) {
	tokens := map[string]string{}
	path := a.loginsFile()
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return tokens, nil
	}
	if err = cmp.Or(err, private.Check(path)); err == nil {
		err = json.Unmarshal(raw, &tokens)
	}
	if err != nil {
		return nil, fail(ExitNotReady, "Remove the file and sign in again.", "%v", err)
	}
	return tokens, nil
}

// changeLogins changes the tokens. The file is replaced as a whole; two concurrent changes can lose one of them.
func (a *invocation) changeLogins(change func(tokens map[string]string) error) error {
	tokens, err := a.readLogins()
	if err == nil {
		err = change(tokens)
	}
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(tokens, "", "  ")
	if err != nil {
		return err
	}
	path := a.loginsFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return a.replaceFile(path, append(raw, '\n'), 0o600)
}

func (a *invocation) loginCommand() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Sign in to a server on another machine, or to an MCP server",
		Long: `Store a token for the server at URL, or at the address in ESPALIER_SERVER. The
token is read from stdin; an administrator creates it with "espalier user add"
or "espalier user token". It is stored in ~/.config/espalier/logins.json, which
only you can read.

With ESPALIER_SERVER set, these commands talk to that server instead of the
project in the working folder: run, resume, runs, status, output, transcript,
audit, approve, reject, signal, edit, pause and cancel. ESPALIER_TOKEN replaces
the stored token.

With --mcp, you sign in to a remote MCP server of the project, whose tools your
runs can use from then on. Open the printed address in a browser on this
machine. The tokens are stored in ~/.local/state/espalier/mcp-logins.json.`,
		Example: `  espalier login https://flows.example.org
  export ESPALIER_SERVER=https://flows.example.org
  espalier runs
  espalier login --mcp crm`,
		Args: takes(0, 1, "at most one address"),
		RunE: func(_ *cobra.Command, args []string) error {
			if server != "" {
				return a.loginMCP(server, args)
			}
			address, err := a.loginAddress("login", args)
			if err != nil {
				return err
			}
			return a.login(address)
		},
	}
	cmd.Flags().StringVar(&server, "mcp", "", "sign in to this MCP `SERVER` of the project")
	return cmd
}

// signInTime is how long a person has to sign in.
const signInTime = 10 * time.Minute

// loginMCP lets a person sign in at an MCP server.
func (a *invocation) loginMCP(server string, args []string) error {
	if len(args) > 0 {
		return usage("Name the server only: espalier login --mcp SERVER", "--mcp takes no address")
	}
	ctx, cancel := context.WithTimeout(context.Background(), signInTime)
	defer cancel()
	err := a.app().SignIn(ctx, server, func(address string) {
		a.note("Open this address in a browser on this machine to sign in:\n\n  %s\n", address)
	})
	if err != nil {
		return err
	}
	a.note("You are signed in to %s.", server)
	return nil
}

func (a *invocation) logoutCommand() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "logout [URL]",
		Short: "Remove the stored token for a server",
		Long: `Remove the token that "espalier login" has stored for the server at URL, or at
the address in ESPALIER_SERVER. The token stays valid; "espalier user revoke"
ends it. With --mcp, remove your sign-in to an MCP server of the project.`,
		Args: takes(0, 1, "at most one address"),
		RunE: func(_ *cobra.Command, args []string) error {
			if server != "" {
				found, err := a.app().SignOut(server)
				if err == nil && !found {
					return usage("", "you are not signed in to %s", server)
				}
				if err == nil {
					a.note("Your sign-in to %s is removed.", server)
				}
				return err
			}
			address, err := a.loginAddress("logout", args)
			if err != nil {
				return err
			}
			err = a.changeLogins(func(tokens map[string]string) error {
				if _, ok := tokens[address]; !ok {
					return usage("", "there is no token for %s", address)
				}
				delete(tokens, address)
				return nil
			})
			if err == nil {
				a.note("The token for %s is removed.", address)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&server, "mcp", "", "sign out of this MCP `SERVER` of the project")
	return cmd
}

// loginAddress returns the address of a server without a final slash: the argument, or the one in the environment.
func (a *invocation) loginAddress(command string, args []string) (string, error) {
	address := cmp.Or(optional(args, 0), a.Getenv(serverVariable))
	if u, err := url.Parse(address); address == "" || err != nil || u.Host == "" {
		return "", usage("Write it as https://HOST.", "%s needs the address of a server", command)
	}
	return strings.TrimSuffix(address, "/"), nil
}

// login reads a token, checks it and stores it.
func (a *invocation) login(address string) error {
	token, err := a.readToken(address)
	if err != nil {
		return err
	}
	server, err := client.New(address, token)
	if err != nil {
		return usage("", "%v", err)
	}
	me, err := server.Me(context.Background())
	if err != nil {
		return err
	}
	err = a.changeLogins(func(tokens map[string]string) error {
		tokens[address] = token
		return nil
	})
	if err != nil {
		return err
	}
	a.note("Signed in to %s as %s (%s).", address, me.Name, joinRoles(me.Roles))
	return nil
}

// readToken reads a token from stdin; a terminal does not show it.
func (a *invocation) readToken(address string) (string, error) {
	var raw []byte
	var err error
	if a.stdinIsTerminal() {
		fmt.Fprintf(a.stderr, "Token for %s: ", address)
		raw, err = term.ReadPassword(int(a.Stdin.(*os.File).Fd()))
		fmt.Fprintln(a.stderr)
	} else if a.Stdin != nil {
		raw, err = io.ReadAll(io.LimitReader(a.Stdin, 64<<10))
	}
	token := strings.TrimSpace(string(raw))
	if err != nil || token == "" {
		return "", usage("Write it to stdin: espalier login URL < FILE", "login needs a token")
	}
	return token, nil
}
