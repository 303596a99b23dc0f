package talk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

// Talk is one conversation: who answers, what about, and what must come of it.
type Talk struct {
	Agent    *ir.Agent // nil is nobody in particular
	Task     string    // what to do
	Expected string    // what should come of it, in words
	Form     Form      // what must come of it
	Choices  map[string][]string
	Data     []Data // to work on, besides what the step reads
	MaxTurns int    // 0: one without tools, the usual number with
	// Verbatim hands on Task and System as they are, and nothing else: not what
	// the step reads, nor anything of ours about who answers.
	Verbatim bool
	System   string
	// Before is an earlier conversation that this one goes on with.
	Before []provider.Message
	// Heard, if it is set, is told what was said and what it took.
	Heard *Heard
}

// Heard is what was said in a conversation, from its first message on.
type Heard struct {
	Messages []provider.Message
	Usage    provider.Usage
}

// Data is something to work on.
type Data struct {
	Name  string
	Value json.RawMessage
}

// Run holds the conversation, or the rest of it, and returns what it came to.
func (t Talk) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	read, err := newReader(t.Form)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if job.Model == nil {
		return step.Result{}, step.Errorf(step.ClassMissing, "step %q needs a model, and there is none", job.Step.ID)
	}
	c := newConversation(&t, job)
	value, err := c.hold(ctx, read)
	result := step.Result{Value: value, Notes: c.pending, Usage: c.inFlight}
	if t.Heard != nil {
		t.Heard.Messages = c.request.Messages
	}
	return result, err
}

// Recovery looks at what a conversation had noted: it may go on by itself
// unless a tool was called that may have acted and did not return.
func Recovery(history []journal.TaskNoted) step.Recovery {
	open := ""
	for _, n := range history {
		var use journal.ToolUse
		switch n.Kind {
		case journal.NoteToolCall:
			if json.Unmarshal(n.Data, &use) == nil && !use.Repeatable {
				open = use.CallID
			}
		case journal.NoteToolResult:
			open = ""
		}
	}
	if open != "" {
		return step.Ask
	}
	return step.Rerun
}

// conversation is a Talk while it is held.
type conversation struct {
	*Talk
	job      *step.Job
	past     []journal.TaskNoted // of an earlier life, not yet gone through
	pending  []step.Note         // not yet durable
	inFlight journal.Usage       // of a call that nobody will settle
	request  provider.Request
	turns    int // model calls so far
	calls    int // tool calls so far
	sent     int // cap of the last reply
}

func newConversation(t *Talk, job *step.Job) *conversation {
	c := &conversation{Talk: t, job: job}
	for _, n := range job.History {
		switch n.Kind {
		case journal.NotePrompt, journal.NoteReply, journal.NoteModelError, journal.NoteToolCall, journal.NoteToolResult, journal.NoteToolAnswer:
			c.past = append(c.past, n)
		}
	}
	c.request = provider.Request{MaxTokens: int(step.ReplyCap(t.Agent)), Schema: t.Form.Schema, Tools: c.offered(), Messages: slices.Clone(t.Before)}
	c.request.For = provider.Purpose{
		Workflow: job.Workflow.Name, Step: job.Step.ID, Key: job.Key,
		Visit: job.Visit, Iteration: job.Iteration, Attempt: job.Attempt,
		Keys: t.Form.Parts, Choices: t.Choices, Verdict: t.Form.Verdict, Expected: t.Expected,
	}
	if t.Agent != nil {
		c.request.Model, c.request.Options, c.request.For.Agent = t.Agent.Model, t.Agent.Options, t.Agent.ID
		c.request.For.Expected = cmp.Or(t.Expected, t.Agent.Expected)
	}
	return c
}

// offered are the tools that the agent lists, may use and can have here.
func (c *conversation) offered() []provider.Tool {
	var out []provider.Tool
	for _, spec := range tool.Offered(c.job.Tools, tool.Caller{Program: c.job.Workflow, Step: c.job.Step, Agent: c.Agent}) {
		out = append(out, provider.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	return out
}

// hold goes from turn to turn until there is an answer.
func (c *conversation) hold(ctx context.Context, read *reader) (json.RawMessage, error) {
	if err := c.say(c.opening()); err != nil {
		return nil, err
	}
	most := c.mostTurns()
	for repairs := 0; ; {
		reply, err := c.generate(ctx)
		if err != nil {
			return nil, err
		}
		if uses := toolUses(reply); len(uses) > 0 {
			if c.turns-repairs >= most {
				return nil, step.Errorf(step.ClassInvalid, "%s asked for the tool %q in turn %d, which is the last one it has", c.who(), uses[0].ToolName, most)
			}
			if err := c.useTools(ctx, uses); err != nil {
				return nil, err
			}
			continue
		}
		value, problems := c.judge(reply, read)
		switch {
		case len(problems) == 0:
			return value, nil
		case !c.Form.strict() || repairs == step.RepairCalls:
			return nil, step.Errorf(step.ClassInvalid, "the reply of %s cannot be used: %s", c.who(), strings.Join(problems, "; "))
		}
		repairs++
		if err := c.say(journal.Prompt{Blocks: c.mend(problems)}); err != nil {
			return nil, err
		}
	}
}

// opening is the first message.
func (c *conversation) opening() journal.Prompt {
	if !c.Verbatim {
		return journal.Prompt{System: system(c.Agent), Blocks: c.ask(c.job)}
	}
	text := c.Task
	if form := c.Form.instructions(); form != "" {
		text += "\n\n" + form
	}
	return journal.Prompt{System: c.System, Blocks: []journal.Block{textBlock(text)}}
}

func (c *conversation) mostTurns() int {
	switch {
	case c.Agent == nil || len(c.Agent.Tools) == 0:
		return 1
	case c.MaxTurns > 0:
		return c.MaxTurns
	}
	return step.DefaultMaxTurns
}

// judge reads the value of a reply, or says what is wrong with it. Half an
// answer is none, even when it happens to be text.
func (c *conversation) judge(reply *provider.Reply, read *reader) (json.RawMessage, []string) {
	if reply.Stop == provider.Refused {
		return nil, []string{"the model refused to answer"}
	}
	value, problems := read.read(reply.Text())
	if reply.Stop == provider.CutOff && (len(problems) > 0 || !c.Form.strict()) {
		cut := fmt.Sprintf("it was cut off after %d tokens, the most that it might have", cmp.Or(c.sent, c.request.MaxTokens))
		return nil, append([]string{cut}, problems...)
	}
	return value, problems
}

func (c *conversation) who() string {
	if c.Agent == nil {
		return "the model"
	}
	return fmt.Sprintf("agent %q", c.Agent.ID)
}

// replay returns the next note of an earlier life if it is of the kind.
func (c *conversation) replay(kind string, into any) (bool, error) {
	if len(c.past) == 0 || c.past[0].Kind != kind {
		return false, nil
	}
	if err := json.Unmarshal(c.past[0].Data, into); err != nil {
		return false, step.Errorf(classInternal, "note %d of %s cannot be read: %v", c.past[0].N, c.job.Key, err)
	}
	c.past = c.past[1:]
	return true, nil
}

// settled makes sure that the past is over before something new happens: a
// conversation that took another way than its notes say would repeat itself.
func (c *conversation) settled() error {
	if len(c.past) > 0 {
		return step.Errorf(classInternal, "the notes of %s do not fit: %s comes where it cannot", c.job.Key, c.past[0].Kind)
	}
	return nil
}

const classInternal = "INTERNAL"

// note keeps a note until the next durable write.
func (c *conversation) note(n step.Note) { c.pending = append(c.pending, n) }

// flush hands over the notes that wait.
func (c *conversation) flush() []step.Note {
	out := c.pending
	c.pending = nil
	return out
}

// say adds a message of ours.
func (c *conversation) say(p journal.Prompt) error {
	var said journal.Prompt
	again, err := c.replay(journal.NotePrompt, &said)
	if err != nil {
		return err
	}
	if again {
		p = said // word for word, even if we would put it differently today
	} else {
		if err := c.settled(); err != nil {
			return err
		}
		c.note(step.Note{Kind: journal.NotePrompt, Data: p})
	}
	if p.System != "" {
		c.request.System = p.System
	}
	message := provider.Message{Role: provider.User}
	for _, b := range p.Blocks {
		message.Blocks = append(message.Blocks, provider.Block{Type: provider.BlockType(b.Type), Text: b.Text})
	}
	c.request.Messages = append(c.request.Messages, message)
	return nil
}

// generate returns the next reply: the noted one, or a new one.
func (c *conversation) generate(ctx context.Context) (*provider.Reply, error) {
	reply := new(provider.Reply)
	again, err := c.replay(journal.NoteReply, reply)
	if err != nil {
		return nil, err
	}
	if !again {
		if reply, err = c.call(ctx); err != nil {
			return nil, err
		}
	}
	c.turns++
	if c.Heard != nil {
		c.Heard.Usage.Input += reply.Usage.Input + reply.Usage.CacheRead + reply.Usage.CacheWrite
		c.Heard.Usage.Output += reply.Usage.Output
	}
	c.request.Messages = append(c.request.Messages, provider.Message{Role: provider.Assistant, Blocks: reply.Blocks})
	return reply, nil
}

// call asks the model, with the worst case set aside before.
func (c *conversation) call(ctx context.Context) (*provider.Reply, error) {
	var failed journal.ModelError
	if again, err := c.replay(journal.NoteModelError, &failed); err != nil || again {
		if err == nil {
			err = &step.Error{Class: failed.Class, Message: failed.Message}
		}
		return nil, err
	}
	if err := c.settled(); err != nil {
		return nil, err
	}
	request := c.request
	request.For.Turn = c.turns
	worst := journal.Usage{ModelCalls: 1, InputTokens: request.Tokens(), OutputTokens: int64(request.MaxTokens)}
	held, worst, err := c.job.Log.ReserveUpTo(ctx, worst, step.LeastReply(c.Agent), c.flush()...)
	if err != nil {
		return nil, err
	}
	request.MaxTokens = int(worst.OutputTokens) // what is left may be less than usual
	c.sent = request.MaxTokens
	reply, err := generate(ctx, c.job.Model, request)
	if ctx.Err() != nil && err != nil {
		c.inFlight = worst // it may have been paid for
		return nil, context.Cause(ctx)
	}
	if err != nil {
		failed = modelError(err)
		c.note(step.Note{Kind: journal.NoteModelError, Data: failed, Settles: held, Usage: journal.Usage{ModelCalls: 1}})
		return nil, &step.Error{Class: failed.Class, Message: failed.Message}
	}
	c.note(step.Note{Kind: journal.NoteReply, Data: reply, Settles: held, Usage: journal.Usage{
		ModelCalls:   1,
		InputTokens:  reply.Usage.Input + reply.Usage.CacheRead + reply.Usage.CacheWrite,
		OutputTokens: reply.Usage.Output,
	}})
	return reply, nil
}

// generate waits for a whole reply.
func generate(ctx context.Context, m provider.Model, request provider.Request) (*provider.Reply, error) {
	ctx, stop := context.WithTimeoutCause(ctx, step.ModelCallSeconds*time.Second, errSlowModel)
	defer stop()
	var reply *provider.Reply
	for chunk, err := range m.Generate(ctx, request) {
		if err != nil {
			if errors.Is(context.Cause(ctx), errSlowModel) {
				err = errSlowModel
			}
			return nil, err
		}
		if chunk.Reply != nil {
			reply = chunk.Reply
		}
	}
	if reply == nil {
		return nil, errNoReply
	}
	return reply, nil
}

var (
	errSlowModel = &provider.Error{Class: provider.Timeout, Message: fmt.Sprintf("the model did not answer within %d seconds", step.ModelCallSeconds)}
	errNoReply   = &provider.Error{Class: provider.APIError, Message: "the model's reply broke off"}
)

func modelError(err error) journal.ModelError {
	var failed *provider.Error
	if errors.As(err, &failed) {
		return journal.ModelError{Class: string(failed.Class), Message: failed.Message, Status: failed.Status}
	}
	return journal.ModelError{Class: step.ClassAPI, Message: err.Error()}
}
