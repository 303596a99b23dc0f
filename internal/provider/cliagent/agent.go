package cliagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
)

// Agent is a program that works by itself.
type Agent struct {
	Name    string // as people call it: "claude-code"
	Dialect Dialect
	// Program is what is run. First comes before what the dialect tells it, Args
	// are what its user wants it to be told besides.
	Program string
	First   []string
	Args    []string
	Dir     string // where it works
	// Env is all that it gets to see of the environment, at the moment of use.
	Env func(context.Context) ([]string, error)
	// Timeout is how long it may work on one request; 0 is as long as it takes.
	Timeout time.Duration
	// Grace is how long it has to end by itself once it was asked to; 0 is the
	// usual time.
	Grace time.Duration
	// Linger is how long it may take to end after it has said that it is done;
	// 0 is usualLinger. It writes down its session then.
	Linger time.Duration
	// Limits bounds what the program uses of the machine.
	Limits process.Limits
}

// usualLinger is enough for everything that a program has to tidy up.
const usualLinger = 10 * time.Second

// Dialect is how one program is spoken with.
type Dialect interface {
	// Info is what the program can do, under a name.
	Info(name string) provider.AgentInfo
	// Call is how the program is called for a request. more is what its user
	// wants it to be told besides.
	Call(req *provider.Request, more []string) (Call, error)
	// Hear takes a line of its output.
	Hear(line []byte, t *Turn)
	// Whole says that its output is one text, not lines that mean something.
	Whole() bool
}

// Call is how a program is called.
type Call struct {
	Args  []string
	Env   []string // besides what it gets anyway
	Stdin string
	// Files are written before, below a folder of their own which is gone
	// afterwards; Args and Env name it as FilesDir.
	Files map[string]string
}

// FilesDir stands for the folder of a call's files.
const FilesDir = "\x00files\x00"

// Info is what the agent can do.
func (a *Agent) Info() *provider.AgentInfo {
	info := a.Dialect.Info(a.Name)
	return &info
}

// Generate lets the program work, and tells what it does.
func (a *Agent) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		limited, stop := ctx, context.CancelFunc(func() {})
		slow := &provider.Error{Class: provider.Timeout, Message: fmt.Sprintf("%s did not end within %s", a.Name, ir.Millis(a.Timeout.Milliseconds()).Words()), Spent: true}
		if a.Timeout > 0 {
			limited, stop = context.WithTimeoutCause(ctx, a.Timeout, slow)
		}
		defer stop()
		t := newTurn(&req)
		err := a.work(limited, &req, t, func(c provider.Chunk) bool { return yield(c, nil) })
		switch {
		case errors.Is(err, errLeft):
		case ctx.Err() != nil:
			err := ctx.Err()
			if partial := t.partial(a.Name); partial != nil {
				err = &provider.Interrupted{Cause: err, Partial: partial}
			}
			yield(provider.Chunk{}, err)
		case limited.Err() != nil:
			slow.Partial = t.partial(a.Name)
			yield(provider.Chunk{}, slow)
		case err != nil:
			yield(provider.Chunk{}, err)
		default:
			reply := t.reply(a.Name)
			reply.FillUsage(&req)
			yield(provider.Chunk{Reply: reply}, nil)
		}
	}
}

// errLeft: whoever listened has gone.
var errLeft = errors.New("nobody listens")

// work runs the program to its end. When it returns, nothing of it is left.
func (a *Agent) work(ctx context.Context, req *provider.Request, t *Turn, tell func(provider.Chunk) bool) error {
	if req.Work == nil {
		req.Work = &provider.Work{}
	}
	for _, word := range []string{req.Model, req.Work.Session} {
		if strings.HasPrefix(word, "-") { // some programs would take it for an option
			return &provider.Error{Class: provider.BadRequest, Message: fmt.Sprintf("%s is not asked for %q", a.Name, word)}
		}
	}
	call, err := a.Dialect.Call(req, a.Args)
	if err != nil {
		return &provider.Error{Class: provider.BadRequest, Message: fmt.Sprintf("%s: %v", a.Name, err)}
	}
	done, err := call.writeFiles()
	defer done()
	if err != nil {
		return &provider.Error{Class: provider.NotReady, Message: err.Error()}
	}
	env := call.Env
	if a.Env != nil {
		usual, err := a.Env(ctx)
		if err != nil {
			return &provider.Error{Class: provider.NotReady, Message: err.Error()}
		}
		env = append(usual, env...)
	}
	p, err := process.Start(ctx, process.Command{
		Path: a.Program, Args: slices.Concat(a.First, call.Args), Dir: a.Dir, Env: env, Grace: a.Grace,
		Limits: a.Limits,
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &provider.Error{Class: provider.NotReady, Message: fmt.Sprintf("%s cannot be started: %v", a.Program, err)}
	}
	go func() {
		_, _ = io.WriteString(p.Stdin, call.Stdin) // it need not read what it is given
		p.Stdin.Close()
	}()
	heard := a.listen(p, t, tell)
	if heard == nil && !t.cut {
		a.await(ctx, p)
	}
	p.Stop()
	outcome, died := p.Wait()
	p.Stdout.Close()
	switch {
	case errors.Is(died, process.ErrAlive):
		return &provider.Error{Class: provider.APIError, Message: fmt.Sprintf("%s: %v", a.Name, died), Spent: true}
	case heard != nil:
		return heard
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return t.end(a, outcome)
}

// await lets a program that has nothing more to say end by itself.
func (a *Agent) await(ctx context.Context, p *process.Process) {
	go func() { _, _ = io.Copy(io.Discard, p.Stdout) }() // it may say something all the same
	linger := time.NewTimer(cmp.Or(a.Linger, usualLinger))
	defer linger.Stop()
	select {
	case <-p.Done():
	case <-linger.C:
	case <-ctx.Done():
	}
}

// listen hears what the program says until it has ended, or has said enough.
func (a *Agent) listen(p *process.Process, t *Turn, tell func(provider.Chunk) bool) error {
	if a.Dialect.Whole() {
		all, err := io.ReadAll(io.LimitReader(p.Stdout, mostText+1))
		if len(all) > mostText {
			return &provider.Error{Class: provider.APIError, Message: fmt.Sprintf("%s wrote more than %d MiB", a.Name, mostText>>20), Spent: true}
		}
		a.Dialect.Hear(clean(all), t)
		if err != nil {
			return &provider.Error{Class: provider.APIError, Message: err.Error(), Spent: true}
		}
		return t.tell(tell)
	}
	lines := newLines(p.Stdout)
	for line := range lines.all() {
		a.Dialect.Hear(line, t)
		if err := t.tell(tell); err != nil {
			return err
		}
		if t.over() { // it has said all there is, or used all that it may
			break
		}
	}
	t.skipped = lines.skipped
	return nil
}

// end is an error unless the program has done what it was asked to.
func (t *Turn) end(a *Agent, o process.Outcome) error {
	if t.cut {
		return nil // we ended it
	}
	if t.failed != nil {
		failed := *t.failed
		failed.Message = fmt.Sprintf("%s: %s", a.Name, failed.Message)
		failed.Spent = failed.Spent || t.begun
		failed.NoSession = t.asked.Session != "" && !t.begun
		failed.Partial = t.partial(a.Name)
		return &failed
	}
	if a.Dialect.Whole() {
		if o.Exit == 0 {
			t.ended = true
		}
	}
	if t.ended {
		return nil
	}
	how := fmt.Sprintf("it ended with exit code %d", o.Exit)
	switch {
	case o.Signal != "":
		how = fmt.Sprintf("it was ended by a signal (%s)", o.Signal)
	case o.Exit == 0:
		how = "it ended without a result"
	}
	if said := cmp.Or(t.trouble, lastWords(o.Stderr)); said != "" {
		how += ": " + said
	}
	if t.skipped > 0 {
		how += fmt.Sprintf(" (%d lines of its output were too long to be read)", t.skipped)
	}
	t.begun = t.begun || a.Dialect.Whole() // nobody can tell
	class := provider.APIError
	if !t.begun && o.Exit != 0 {
		class = provider.BadRequest // it did not even begin: trying again does not help
	}
	return &provider.Error{
		Class: class, Message: fmt.Sprintf("%s: %s", a.Name, how), Spent: t.begun,
		NoSession: t.asked.Session != "" && !t.begun, Partial: t.partial(a.Name),
	}
}

// lastWords are the end of what a program wrote to its standard error.
func lastWords(stderr []byte) string {
	const most = 2000
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(stderr), "\x00", ""), "�"))
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
