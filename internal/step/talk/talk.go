package talk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
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
	Data     []Data    // to work on, besides what the step reads
	MaxTurns int       // 0: one without tools, the usual number with
	// Verbatim hands on Task and System as they are, and nothing else: not what
	// the step reads, nor anything of ours about who answers.
	Verbatim bool
	System   string
	// Sample is a reply that would do; models that are not there answer with it.
	Sample string
	// Before is an earlier conversation that this one goes on with.
	Before []provider.Message
	// Session is that of the agent outside that held it: it remembers more of it.
	Session Session
	// Heard, if it is set, is told what was said and what it took.
	Heard *Heard
}

// Session is a conversation as an agent outside remembers it.
type Session struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// Heard is what was said in a conversation, from its first message on.
type Heard struct {
	Messages []provider.Message
	Usage    provider.Usage
	// Estimated: whoever answered has not counted all of it.
	Estimated bool
	Session   Session // of an agent outside
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
		if c.work != nil && c.work.info.Resumes {
			t.Heard.Session = Session{Agent: c.work.info.Name, ID: c.work.session}
		}
	}
	return result, err
}

// Recovery looks at what a conversation had noted: it may go on by itself
// unless a tool was called that may have acted and did not return, or an agent
// was at work that may have acted and has no session to go on with.
func Recovery(history []journal.TaskNoted) step.Recovery {
	open := map[string]bool{}
	var work journal.AgentWork // that is not over
	for _, n := range history {
		var use journal.ToolUse
		switch n.Kind {
		case journal.NoteAgent:
			if json.Unmarshal(n.Data, &work) != nil {
				work.Acts = true
			}
		case journal.NoteReply, journal.NoteModelError:
			work = journal.AgentWork{}
		case journal.NoteToolCall:
			if json.Unmarshal(n.Data, &use) == nil && !use.Repeatable && use.Fidelity != journal.ByAgent {
				open[use.CallID] = true
			}
		case journal.NoteToolResult:
			if json.Unmarshal(n.Data, &use) == nil {
				delete(open, use.CallID)
			}
		}
	}
	if len(open) > 0 || work.Acts && work.Session == "" {
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
	turns    int                // model calls so far
	calls    int                // tool calls so far
	sent     int                // cap of the last reply
	failed   map[failedCall]int // since a call last worked
	work     *working           // nil unless an agent outside does it
}

func newConversation(t *Talk, job *step.Job) *conversation {
	c := &conversation{Talk: t, job: job}
	for _, n := range job.History {
		switch n.Kind {
		case journal.NotePrompt, journal.NoteReply, journal.NoteModelError, journal.NoteToolCall, journal.NoteToolResult, journal.NoteToolAnswer:
			if !agents(n) {
				c.past = append(c.past, n)
			}
		}
	}
	c.request = provider.Request{MaxTokens: int(step.ReplyCap(t.Agent)), Messages: slices.Clone(t.Before)}
	if t.Form.Kind == contract.Object { // what providers take as the form of a whole reply
		c.request.Schema = t.Form.Schema
	}
	c.request.For = provider.Purpose{
		Workflow: job.Workflow.Name, Step: job.Step.ID, Key: job.Key,
		Visit: job.Visit, Iteration: job.Iteration, Attempt: job.Attempt,
		Contract: t.Form.Contract, Expected: t.Expected, Sample: t.Sample,
	}
	job.Explore(&c.request.For.Contract)
	if t.Agent != nil {
		c.request.Model, c.request.Options, c.request.For.Agent = t.Agent.ModelName(), t.Agent.Options, t.Agent.ID
		c.request.For.Expected = cmp.Or(t.Expected, t.Agent.Expected)
	}
	if agents, ok := job.Model.(provider.Agents); ok {
		if info := agents.Agent(c.request.Model); info != nil {
			c.work = newWorking(info, job.History)
			if c.work.session == "" && t.Session.Agent == info.Name {
				c.work.session = t.Session.ID
			}
			return c
		}
	}
	c.request.Tools = c.offered()
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
	if err := c.allow(); err != nil {
		return nil, err
	}
	if err := c.say(c.opening()); err != nil {
		return nil, err
	}
	most := step.Turns(c.Agent, c.MaxTurns)
	var first *provider.Reply // that has to be mended
	for repairs := 0; ; {
		reply, err := c.generate(ctx)
		if err != nil {
			return nil, err
		}
		if uses := toolUses(reply); len(uses) > 0 && reply.Worked == nil {
			if c.turns-repairs >= most {
				return nil, step.Errorf(step.ClassInvalid, "%s asked for the tool %q in turn %d, which is the last one it has", c.who(), uses[0].ToolName, most)
			}
			if err := c.useTools(ctx, uses); err != nil {
				return nil, err
			}
			continue
		}
		value, problems := c.judge(reply, read)
		if len(problems) == 0 {
			problems = read.placeholders(value, first)
		}
		switch {
		case len(problems) == 0:
			return value, nil
		case !c.Form.strict() || repairs == step.RepairCalls:
			why := strings.Join(problems, "; ")
			if reply.Stop == provider.CutOff {
				why += ". What a model thinks counts, too: give the agent more max_tokens, or all of them in espalier.yaml under defaults"
			}
			return nil, step.Errorf(step.ClassInvalid, "the reply of %s does not meet its contract, %s: %s%s", c.who(), c.Form.String(), why, c.quote(reply))
		}
		if repairs == 0 {
			first = reply
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
	if form := c.Form.Instructions(); form != "" {
		text += "\n\n" + form
	}
	return journal.Prompt{System: c.System, Blocks: []journal.Block{textBlock(text)}}
}

// judge reads the value of a reply, or says what is wrong with it. Half an
// answer is none, even when it happens to be text.
func (c *conversation) judge(reply *provider.Reply, read *reader) (json.RawMessage, []string) {
	if reply.Stop == provider.Refused {
		return nil, []string{"the model refused to answer"}
	}
	value, problems := read.read(reply.Text())
	if reply.Stop == provider.CutOff && (len(problems) > 0 || !c.Form.strict() || c.Form.Plain) {
		cut := fmt.Sprintf("it was cut off after %d tokens, the most that it might have", cmp.Or(c.sent, c.request.MaxTokens))
		return nil, append([]string{cut}, problems...)
	}
	return value, problems
}

// quote shows the beginning of a reply that cannot be used.
func (c *conversation) quote(reply *provider.Reply) string {
	const most = 300
	text := []rune(strings.TrimSpace(reply.Text()))
	switch {
	case len(text) == 0:
		return ""
	case len(text) > most:
		text = append(text[:most], '…')
	}
	return ". The reply was: " + string(text)
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

const classInternal = journal.ClassInternal

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
	var blocks []provider.Block
	for _, b := range p.Blocks {
		blocks = append(blocks, provider.Block{Type: provider.BlockType(b.Type), Text: b.Text})
	}
	if n := len(c.request.Messages); n > 0 && c.request.Messages[n-1].Role == provider.User {
		last := &c.request.Messages[n-1] // who has just handed over results goes on speaking
		last.Blocks = slices.Concat(last.Blocks, blocks)
		return nil
	}
	c.request.Messages = append(c.request.Messages, provider.Message{Role: provider.User, Blocks: blocks})
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
	if reply.Worked != nil && c.work != nil {
		c.work.over(reply)
	}
	if c.Heard != nil {
		c.Heard.Usage.Input += reply.Usage.Input + reply.Usage.CacheRead + reply.Usage.CacheWrite
		c.Heard.Usage.Output += reply.Usage.Output
		c.Heard.Estimated = c.Heard.Estimated || reply.Offline != "" || reply.Usage == (provider.Usage{})
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
	if c.work != nil {
		c.setToWork(&request)
	}
	worst := c.worst(&request)
	held, worst, err := c.job.Log.ReserveUpTo(ctx, worst, step.LeastReply(c.Agent), c.flush()...)
	if err != nil {
		return nil, err
	}
	request.MaxTokens = int(worst.OutputTokens) // what is left may be less than usual
	c.sent = request.MaxTokens
	if c.work != nil {
		request.Work.MicroDollars = worst.MicroDollars
	}
	reply, held, err := c.listen(ctx, request, worst, held)
	if c.work != nil && c.work.anew(err) {
		return c.again(ctx, err, held)
	}
	if c.work != nil && err != nil {
		err = c.work.lost(err)
	}
	if ctx.Err() != nil && err != nil {
		if held != 0 {
			c.inFlight = worst.Unanswered() // it may have been paid for
			if interrupted, ok := errors.AsType[*provider.Interrupted](err); ok {
				c.inFlight = c.used(interrupted.Partial)
			}
		}
		return nil, context.Cause(ctx)
	}
	var short *step.Error // there is no budget for another attempt
	var unwritten *unnoted
	if errors.As(err, &short) || errors.As(err, &unwritten) {
		return nil, err
	}
	if wait := provider.Busy(err); wait > 0 {
		failed = modelError(err)
		c.note(step.Note{
			Kind: journal.NoteModelRetry, Data: journal.ModelRetry{ModelError: failed, Wait: journal.Millis(wait.Milliseconds())},
			Settles: held, Usage: c.charged(err, worst),
		})
		return nil, &step.Later{After: wait, Why: failed.Message}
	}
	if err != nil {
		failed = modelError(err)
		c.note(step.Note{Kind: journal.NoteModelError, Data: failed, Settles: held, Usage: c.charged(err, worst)})
		return nil, &step.Error{Class: failed.Class, Message: failed.Message}
	}
	c.note(step.Note{Kind: journal.NoteReply, Data: reply, Settles: held, Usage: c.used(reply)})
	return reply, nil
}

// worst is the most that a call can use.
func (c *conversation) worst(request *provider.Request) journal.Usage {
	worst := journal.Usage{ModelCalls: 1, InputTokens: request.Tokens(), OutputTokens: int64(request.MaxTokens)}
	if sizer, ok := c.job.Model.(provider.Sizer); ok {
		worst.InputTokens = sizer.MostTokens(request)
	}
	if c.work != nil {
		worst = c.work.worst(worst, request.Work.Turns)
	}
	if p, known := c.price(); known {
		worst.MicroDollars = p.Worst(worst.InputTokens, worst.OutputTokens)
	}
	return worst
}

// used is what a reply has come to.
func (c *conversation) used(reply *provider.Reply) journal.Usage {
	u := reply.Usage
	out := journal.Usage{ModelCalls: 1, InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output}
	if p, known := c.price(); known {
		out.MicroDollars = p.Cost(price.Tokens(u))
	}
	if w := reply.Worked; w != nil {
		out.ModelCalls = int64(max(1, w.Turns))
		if w.MicroDollars != nil {
			out.MicroDollars = *w.MicroDollars
		}
	}
	return out
}

func (c *conversation) price() (price.Price, bool) {
	if c.job.Price == nil {
		return price.Price{}, false
	}
	return c.job.Price(c.request.Model)
}

// charged is what a call that failed counts for: what the model says that it
// used, or all of it when an answer had begun, since that may be paid for.
func (c *conversation) charged(err error, worst journal.Usage) journal.Usage {
	var failed *provider.Error
	switch {
	case !errors.As(err, &failed):
	case failed.Partial != nil:
		return c.used(failed.Partial)
	case failed.Spent:
		return worst.Unanswered()
	}
	return journal.Usage{ModelCalls: 1}
}

// listen waits for a whole reply. An attempt that failed and is made again is
// recorded before it is waited, and the next one set aside before it is made.
func (c *conversation) listen(ctx context.Context, request provider.Request, worst journal.Usage, held step.Reservation) (*provider.Reply, step.Reservation, error) {
	var reply *provider.Reply
	for chunk, err := range c.job.Model.Generate(ctx, request) {
		switch {
		case err != nil:
			return nil, held, err
		case chunk.Retried != nil:
			r := chunk.Retried
			note := step.Note{
				Kind: journal.NoteModelRetry, Data: journal.ModelRetry{ModelError: modelError(r.Error), Wait: journal.Millis(r.Wait.Milliseconds())},
				Settles: held, Usage: c.charged(r.Error, worst),
			}
			if err := c.job.Log.Note(ctx, note); err != nil {
				return nil, held, err
			}
			held = 0 // nothing is asked for while it is waited
		case chunk.Again:
			if held, err = c.job.Log.Reserve(ctx, worst); err != nil {
				return nil, 0, err
			}
		case chunk.Session != "":
			if err := c.begun(ctx, chunk.Session); err != nil {
				return nil, held, err
			}
		case chunk.Used != nil:
			if err := c.noted(ctx, step.Note{Kind: journal.NoteUsage, Data: c.used(chunk.Used)}); err != nil {
				return nil, held, err
			}
		case chunk.Did != nil:
			if err := c.did(ctx, chunk.Did); err != nil {
				return nil, held, err
			}
		case chunk.Reply != nil:
			reply = chunk.Reply
		case chunk.Type == provider.Text && chunk.Text != "" && c.job.RecordStream:
			if err := c.job.Log.Note(ctx, step.Note{Kind: journal.NoteStream, Data: journal.Stream{Chunk: chunk.Text}}); err != nil {
				return nil, held, err
			}
		}
	}
	if reply == nil {
		return nil, held, errNoReply
	}
	return reply, held, nil
}

var errNoReply = &provider.Error{Class: provider.APIError, Message: "the model's reply broke off", Spent: true}

func modelError(err error) journal.ModelError {
	var failed *provider.Error
	if errors.As(err, &failed) {
		return journal.ModelError{Class: failed.Class, Message: failed.Message, Status: failed.Status}
	}
	return journal.ModelError{Class: step.ClassAPI, Message: err.Error()}
}
