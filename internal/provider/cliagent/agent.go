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

// Agent runs a coding agent, a program that works autonomously, as a model.
type Agent struct {
	Name    string // such as "claude-code"
	Dialect Dialect
	// Program is the path of the program. First are arguments before those of the dialect; Args are additional
	// arguments from the configuration.
	Program string
	First   []string
	Args    []string
	Dir     string // working directory
	// Env returns the whole environment of the program. It is called for each request.
	Env func(context.Context) ([]string, error)
	// Timeout limits one request; 0 means no limit.
	Timeout time.Duration
	// Grace is the time between asking the program to stop and killing it; 0 selects the default.
	Grace time.Duration
	// Linger is how long the program may take to exit after it reports its result, because it saves its session then; 0
	// selects defaultLinger.
	Linger time.Duration
	// Limits bounds the resources of the program.
	Limits process.Limits
}

// defaultLinger leaves enough time for any cleanup.
const defaultLinger = 10 * time.Second

// Dialect implements the command line and the output format of one program.
type Dialect interface {
	// Info returns the capabilities of the program.
	Info(name string) provider.AgentInfo
	// Call returns the command line for a request. more are additional arguments from the configuration.
	Call(req *provider.Request, more []string) (Call, error)
	// ParseLine parses a line of output and records its content in t.
	ParseLine(line []byte, t *Turn)
	// PlainText reports whether the output is a single text rather than lines of events.
	PlainText() bool
}

// Call is the invocation of a program.
type Call struct {
	Args  []string
	Env   []string // in addition to Agent.Env
	Stdin string
	// Files are written to a temporary folder that is removed afterwards; Args and Env refer to the folder as FilesDir.
	Files map[string]string
}

// FilesDir is the placeholder for the folder of a call's files.
const FilesDir = "\x00files\x00"

// Info returns the capabilities of the agent.
func (a *Agent) Info() *provider.AgentInfo {
	info := a.Dialect.Info(a.Name)
	return &info
}

// Generate runs the program and streams its output. If it is stopped, the usage that it has reported so far is in the
// error: as Interrupted after a cancellation, as Timeout after a.Timeout.
func (a *Agent) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return provider.Stream(ctx, &req, func(emit func(provider.Chunk) bool) (*provider.Reply, error) {
		limited, stop := ctx, context.CancelFunc(func() {})
		slow := &provider.Error{
			Class:    ir.ClassTimeout,
			Message:  fmt.Sprintf("%s did not end within %s", a.Name, ir.Millis(a.Timeout.Milliseconds()).Words()),
			Billable: true,
		}
		if a.Timeout > 0 {
			limited, stop = context.WithTimeoutCause(ctx, a.Timeout, slow)
		}
		defer stop()
		t := newTurn(&req)
		err := a.work(limited, &req, t, emit)
		switch {
		case ctx.Err() != nil:
			if partial := t.partial(a.Name); partial != nil {
				return nil, &provider.Interrupted{Cause: ctx.Err(), Partial: partial}
			}
			return nil, ctx.Err()
		case limited.Err() != nil:
			slow.Partial = t.partial(a.Name)
			return nil, slow
		case err != nil:
			return nil, err
		}
		return t.reply(a.Name), nil
	})
}

// errConsumerGone is returned when the consumer of a stream stops reading.
var errConsumerGone = errors.New("the consumer stopped reading")

// work runs the program to its end. When it returns, no process of the program is left. The order at the end matters:
// the program may exit by itself after its result, then its whole process group is stopped, then its outcome is read.
func (a *Agent) work(ctx context.Context, req *provider.Request, t *Turn, yield func(provider.Chunk) bool) error {
	if req.Task == nil {
		req.Task = &provider.AgentTask{}
	}
	for _, word := range []string{req.Model, req.Task.Session} {
		if strings.HasPrefix(word, "-") { // some programs would parse it as an option
			return provider.Errorf(ir.ClassBadRequest, "%s cannot be called with %q, which looks like an option",
				a.Name, word)
		}
	}
	call, err := a.Dialect.Call(req, a.Args)
	if err != nil {
		return provider.Errorf(ir.ClassBadRequest, "%s: %v", a.Name, err)
	}
	done, err := call.writeFiles()
	defer done()
	if err != nil {
		return &provider.Error{Class: ir.ClassMissing, Message: err.Error()}
	}
	env := call.Env
	if a.Env != nil {
		usual, err := a.Env(ctx)
		if err != nil {
			return &provider.Error{Class: ir.ClassMissing, Message: err.Error()}
		}
		env = append(usual, env...)
	}
	p, err := process.Start(ctx, process.Command{
		Path: a.Program, Args: slices.Concat(a.First, call.Args), Dir: a.Dir, Env: env, Grace: a.Grace,
		Limits: a.Limits, EarlyLimits: true,
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return provider.Errorf(ir.ClassMissing, "%s cannot be started: %v", a.Program, err)
	}
	go func() {
		_, _ = io.WriteString(p.Stdin, call.Stdin) // the program need not read its input
		p.Stdin.Close()
	}()
	readErr := a.readOutput(p, t, yield)
	if readErr == nil && !t.cut {
		a.await(ctx, p)
	}
	p.Stop()
	outcome, died := p.Wait()
	p.Stdout.Close()
	switch {
	case errors.Is(died, process.ErrAlive):
		return &provider.Error{Class: ir.ClassAPI, Message: fmt.Sprintf("%s: %v", a.Name, died), Billable: true}
	case readErr != nil:
		return readErr
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return t.end(a, outcome)
}

// await gives a program that has reported its result time to exit by itself.
func (a *Agent) await(ctx context.Context, p *process.Process) {
	go func() { _, _ = io.Copy(io.Discard, p.Stdout) }() // drained, so that the program does not block on output
	linger := time.NewTimer(cmp.Or(a.Linger, defaultLinger))
	defer linger.Stop()
	select {
	case <-p.Done():
	case <-linger.C:
	case <-ctx.Done():
	}
}

// readOutput parses the output of the program until the program ends, the result is complete, or the consumer stops.
func (a *Agent) readOutput(p *process.Process, t *Turn, yield func(provider.Chunk) bool) error {
	if a.Dialect.PlainText() {
		all, err := io.ReadAll(io.LimitReader(p.Stdout, maxText+1))
		if len(all) > maxText {
			return &provider.Error{
				Class:   ir.ClassAPI,
				Message: fmt.Sprintf("%s wrote more than %d MiB", a.Name, maxText>>20), Billable: true,
			}
		}
		a.Dialect.ParseLine(clean(all), t)
		if err != nil {
			return &provider.Error{Class: ir.ClassAPI, Message: err.Error(), Billable: true}
		}
		return t.flush(yield)
	}
	lines := newLines(p.Stdout)
	for line := range lines.all() {
		a.Dialect.ParseLine(line, t)
		if err := t.flush(yield); err != nil {
			return err
		}
		if t.over() { // the result is complete, or a limit is reached
			break
		}
	}
	t.skipped = lines.skipped
	return nil
}

// end returns an error unless the program completed the request. A failure that the program reports takes precedence
// over its exit status. A failure before the work began is not billed and means, with a session to resume, that the
// session does not exist.
func (t *Turn) end(a *Agent, o process.Outcome) error {
	if t.cut {
		return nil // stopped by readOutput
	}
	if t.failed != nil {
		failed := *t.failed
		failed.Message = fmt.Sprintf("%s: %s", a.Name, failed.Message)
		failed.Billable = failed.Billable || t.begun
		failed.NoSession = t.asked.Session != "" && !t.begun
		failed.Partial = t.partial(a.Name)
		return &failed
	}
	if a.Dialect.PlainText() {
		if o.Exit == 0 {
			t.ended = true
		}
	}
	if t.ended {
		return nil
	}
	how := fmt.Sprintf("exited with code %d", o.Exit)
	switch {
	case o.Signal != "":
		how = fmt.Sprintf("killed by signal %s", o.Signal)
	case o.Exit == 0:
		how = "exited without a result"
	}
	if message := cmp.Or(t.problem, stderrTail(o.Stderr)); message != "" {
		how += ": " + message
	}
	if t.skipped > 0 {
		how += fmt.Sprintf(" (skipped %d lines of output that were too long)", t.skipped)
	}
	t.begun = t.begun || a.Dialect.PlainText() // unknown, so assume that it started
	class := ir.ClassAPI
	if !t.begun && o.Exit != 0 {
		class = ir.ClassBadRequest // it failed on startup; a retry does not help
	}
	return &provider.Error{
		Class: class, Message: fmt.Sprintf("%s: %s", a.Name, how), Billable: t.begun,
		NoSession: t.asked.Session != "" && !t.begun, Partial: t.partial(a.Name),
	}
}

// stderrTail returns the end of a program's error output, for an error message.
func stderrTail(stderr []byte) string {
	const most = 2000
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(stderr), "\x00", ""), "�"))
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
