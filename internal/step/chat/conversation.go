package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
)

// Conversation is one conversation with a model about a task.
type Conversation struct {
	Agent    *ir.Agent // nil is a model without a role
	Step     string    // name of the step in requests; empty is the job's own
	Task     string    // what to do
	Expected string    // what the reply should be, in words
	Form     Form      // what the reply must be
	Data     []Data    // input besides what the step reads
	MaxTurns int       // 0 is the default: one turn without tools
	// Verbatim sends Task and System without additions: without what the step
	// reads and without a description of the agent.
	Verbatim bool
	System   string
	// Sample is a valid reply, which simulated models return.
	Sample string
	// Before is an earlier conversation that this one continues.
	Before []provider.Message
	// TurnsBefore is how many turns of this step Before has.
	TurnsBefore int
	// Session is that of the external agent that held Before.
	Session Session
	// Transcript, if set, receives the messages and the usage.
	Transcript *Transcript
}

// Session is a conversation that an external agent remembers.
type Session struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// Transcript is the messages of a conversation and what they cost.
type Transcript struct {
	Messages []provider.Message
	Usage    provider.Usage
	// Estimated says that the model did not report all of the usage.
	Estimated bool
	Session   Session // of an external agent
}

// Data is input for a task.
type Data struct {
	Name  string
	Value json.RawMessage
}

// Run holds the conversation, or the rest of it after a crash, and returns the
// value of the reply.
func (t *Conversation) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	read, err := newReader(t.Form)
	if err != nil {
		return step.Result{}, step.Errorf(ir.ClassInput, "%v", err)
	}
	if job.Model == nil {
		return step.Result{}, step.Errorf(ir.ClassMissing,
			"step %q needs a model, and none is configured", job.Step.ID)
	}
	c := newLoop(t, job)
	value, err := c.run(ctx, read)
	result := step.Result{Value: value, Notes: c.pending, Usage: c.inFlight}
	if t.Transcript != nil {
		t.Transcript.Messages = c.request.Messages
		if c.external != nil && c.external.info.Resumes {
			t.Transcript.Session = Session{Agent: c.external.info.Name, ID: c.external.session}
		}
	}
	return result, err
}

// Recovery returns Ask if the notes have a tool call that may have acted and did
// not return, or the work of an external agent that may have acted and has no
// session to resume. Otherwise the conversation can continue.
func Recovery(history []journal.TaskNoted) step.Recovery {
	open := map[string]bool{}
	var work journal.AgentWork // that has not ended
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

// loop holds a Conversation: it sends requests and calls tools until the reply is valid. After a crash it starts from
// the beginning and takes prompts, replies and results of tools from the notes of the earlier execution (past), in
// their order, as long as there are any. So everything that decides what comes next must be computed from the notes,
// not from the clock or from the configuration.
type loop struct {
	*Conversation
	job      *step.Job
	past     []journal.TaskNoted // notes of an earlier execution, not yet replayed
	pending  []step.Note         // not yet durable
	inFlight journal.Usage       // of a call that no note settles
	request  provider.Request
	turns    int                // model calls so far
	calls    int                // tool calls so far
	sent     int                // cap of the last reply, in tokens
	failed   map[failedCall]int // since a call last worked
	external *externalAgent     // nil for a model
	endCall  func()             // ends the call in progress; nil if there is none
}

// stopCall ends the call in progress, if there is one.
func (c *loop) stopCall() {
	if c.endCall != nil {
		c.endCall()
		c.endCall = nil
	}
}

// newLoop returns the loop of a conversation, with the notes that it replays.
func newLoop(t *Conversation, job *step.Job) *loop {
	c := &loop{Conversation: t, job: job}
	for _, n := range job.History {
		switch n.Kind {
		case journal.NotePrompt, journal.NoteReply, journal.NoteModelError,
			journal.NoteToolCall, journal.NoteToolResult, journal.NoteToolAnswer:
			// What an external agent did by itself is only a record.
			if !byExternal(n) {
				c.past = append(c.past, n)
			}
		}
	}
	// The parts of the request that stay the same for the whole conversation.
	c.request = provider.Request{MaxTokens: int(stepkind.ReplyCap(t.Agent)), Messages: slices.Clone(t.Before)}
	if t.Form.Kind == contract.Object { // the only kind that providers enforce
		c.request.Schema = t.Form.Schema
	}
	c.request.For = provider.Purpose{
		Workflow: job.Workflow.Name, Step: cmp.Or(t.Step, job.Step.ID), Key: job.Key,
		Visit: job.Visit, Iteration: job.Iteration, Attempt: job.Attempt, Call: job.Call,
		Contract: t.Form.Contract, Expected: t.Expected, Sample: t.Sample,
	}
	job.Explore(&c.request.For.Contract)
	if t.Agent != nil {
		c.request.Model, c.request.Options, c.request.For.Agent = t.Agent.ModelName(), t.Agent.Options, t.Agent.ID
		c.request.For.Expected = cmp.Or(t.Expected, t.Agent.Expected)
	}
	if agents, ok := job.Model.(provider.Agents); ok {
		if info := agents.Agent(c.request.Model); info != nil {
			c.external = newExternalAgent(info, job.History)
			if c.external.session == "" && t.Session.Agent == info.Name {
				c.external.session = t.Session.ID
			}
			return c
		}
	}
	c.request.Tools = c.offered()
	return c
}

// offered returns the tools that the agent lists, may use and that are available.
func (c *loop) offered() []provider.Tool {
	var out []provider.Tool
	for _, spec := range tool.Offered(c.job.Tools, c.caller()) {
		var compact bytes.Buffer
		if json.Compact(&compact, spec.Schema) == nil { // numbers stay as they are written
			spec.Schema = compact.Bytes()
		}
		out = append(out, provider.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	return out
}

// run sends requests until there is a valid reply.
func (c *loop) run(ctx context.Context, read *reader) (json.RawMessage, error) {
	if err := c.grant(); err != nil {
		return nil, err
	}
	if err := c.addPrompt(c.opening()); err != nil {
		return nil, err
	}
	// Turns with tools and repairs are counted apart: a reply that breaks its contract does not use up a turn.
	most := stepkind.Turns(c.Agent, c.MaxTurns)
	var first *provider.Reply // that needs a repair
	for repairs := 0; ; {
		reply, err := c.generate(ctx)
		if err != nil {
			return nil, err
		}
		if uses := toolUses(reply.Blocks); len(uses) > 0 && reply.AgentResult == nil {
			if c.turns-repairs >= most {
				return nil, step.Errorf(ir.ClassInvalid, "%s asked for the tool %q in turn %d, its last one",
					c.agentName(), uses[0].ToolName, most)
			}
			if err := c.useTools(ctx, uses); err != nil {
				return nil, err
			}
			continue
		}
		// A reply without tool calls is the answer: read it, ask for a repair, or fail.
		value, problems := c.readReply(reply, read)
		if len(problems) == 0 {
			problems = read.placeholders(value, first)
		}
		switch {
		case len(problems) == 0:
			return value, nil
		case !c.Form.strict() || repairs == stepkind.RepairCalls:
			why := strings.Join(problems, "; ")
			if reply.Stop == provider.CutOff {
				why += ". Thinking counts too: raise max_tokens of the agent, or for all agents in espalier.yaml " +
					"under defaults"
			}
			return nil, step.Errorf(ir.ClassInvalid, "the reply of %s does not meet its contract, %s: %s%s",
				c.agentName(), c.Form.String(), why, c.quote(reply))
		}
		if repairs == 0 {
			first = reply
		}
		repairs++
		if err := c.addPrompt(journal.Prompt{Blocks: c.repairPrompt(problems)}); err != nil {
			return nil, err
		}
	}
}

// opening returns the first message.
func (c *loop) opening() journal.Prompt {
	if !c.Verbatim {
		return journal.Prompt{System: system(c.Agent, c.Task), Blocks: c.firstMessage(c.job)}
	}
	text := c.Task
	if form := c.Form.Instructions(); form != "" {
		text += "\n\n" + form
	}
	return journal.Prompt{System: c.System, Blocks: []journal.Block{textBlock(text)}}
}

// readReply returns the value of a reply, or what is wrong with it. A reply that
// was cut off is invalid, even as text.
func (c *loop) readReply(reply *provider.Reply, read *reader) (json.RawMessage, []string) {
	if reply.Stop == provider.Refused {
		refused := "the model refused to answer"
		if reply.Refusal != "" {
			refused += ": " + shortened(reply.Refusal)
		}
		return nil, []string{refused}
	}
	value, problems := read.read(reply.Text())
	if reply.Stop == provider.CutOff && (len(problems) > 0 || !c.Form.strict() || c.Form.Plain) {
		cut := fmt.Sprintf("it was cut off after %d tokens, its limit", cmp.Or(c.sent, c.request.MaxTokens))
		return nil, append([]string{cut}, problems...)
	}
	return value, problems
}

// quote returns the start of a reply that cannot be used.
func (c *loop) quote(reply *provider.Reply) string {
	text := shortened(reply.Text())
	if text == "" {
		return ""
	}
	return ". The reply was: " + text
}

// shortened returns the start of a text, for an error message.
func shortened(text string) string {
	return diag.Shorten(strings.TrimSpace(text), 300)
}

// agentName names the agent in messages for people.
func (c *loop) agentName() string {
	if c.Agent == nil {
		return "the model"
	}
	return fmt.Sprintf("agent %q", c.Agent.ID)
}

// replay decodes the next note of an earlier execution of this attempt if it has the given kind.
func (c *loop) replay(kind string, into any) (bool, error) {
	if len(c.past) == 0 || c.past[0].Kind != kind {
		return false, nil
	}
	if err := json.Unmarshal(c.past[0].Data, into); err != nil {
		return false, step.Errorf(ir.ClassInternal, "note %d of %s cannot be read: %v", c.past[0].N, c.job.Key, err)
	}
	c.past = c.past[1:]
	return true, nil
}

// checkReplayed returns an error if notes of an earlier execution are left. It is called before anything new is
// done: a conversation that differs from its notes would pay again for replies.
func (c *loop) checkReplayed() error {
	if len(c.past) > 0 {
		return step.Errorf(ir.ClassInternal, "journal mismatch on resume of %s: unexpected note %q; "+step.RepeatHelp,
			c.job.Key, c.past[0].Kind)
	}
	return nil
}

// note keeps a note until the next durable write.
func (c *loop) note(n step.Note) { c.pending = append(c.pending, n) }

// flush returns the pending notes.
func (c *loop) flush() []step.Note {
	out := c.pending
	c.pending = nil
	return out
}

// addPrompt adds a message to the request, and notes it.
func (c *loop) addPrompt(p journal.Prompt) error {
	var said journal.Prompt
	again, err := c.replay(journal.NotePrompt, &said)
	if err != nil {
		return err
	}
	if again {
		p = said // verbatim, even if this version has another text
	} else {
		if err := c.checkReplayed(); err != nil {
			return err
		}
		c.note(step.Note{Kind: journal.NotePrompt, Data: p})
	}
	// Only the opening has a system prompt.
	if p.System != "" {
		c.request.System = p.System
	}
	var blocks []provider.Block
	for _, b := range p.Blocks {
		blocks = append(blocks, provider.Block{Type: provider.BlockType(b.Type), Text: b.Text})
	}
	if n := len(c.request.Messages); n > 0 && c.request.Messages[n-1].Role == provider.User {
		last := &c.request.Messages[n-1] // with results of tools; roles alternate
		last.Blocks = slices.Concat(last.Blocks, blocks)
		return nil
	}
	c.request.Messages = append(c.request.Messages, provider.Message{Role: provider.User, Blocks: blocks})
	return nil
}

// generate returns the next reply: the one that was noted, or a new one. It adds the reply to the request, whose
// messages are the conversation so far.
func (c *loop) generate(ctx context.Context) (*provider.Reply, error) {
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
	if reply.AgentResult != nil && c.external != nil {
		c.external.finished(reply)
	}
	if c.Transcript != nil {
		c.Transcript.Usage.Input += reply.Usage.Input + reply.Usage.CacheRead + reply.Usage.CacheWrite
		c.Transcript.Usage.Output += reply.Usage.Output
		c.Transcript.Estimated = c.Transcript.Estimated || reply.Offline != "" || reply.Usage == (provider.Usage{})
	}
	message := provider.Message{Role: provider.Assistant, Blocks: reply.Blocks}
	if reply.AgentResult == nil {
		message.Blocks = c.withDistinctIDs(reply.Blocks)
	}
	c.request.Messages = append(c.request.Messages, message)
	return reply, nil
}

// withDistinctIDs returns the blocks of a reply with tool calls whose IDs occur
// only once in the conversation. Some servers repeat IDs, and providers reject
// requests with repeated IDs.
func (c *loop) withDistinctIDs(blocks []provider.Block) []provider.Block {
	used := map[string]bool{"": true}
	for _, m := range c.request.Messages {
		for _, b := range toolUses(m.Blocks) {
			used[b.ToolID] = true
		}
	}
	out, n := slices.Clone(blocks), c.calls
	for i := range out {
		if out[i].Type != provider.ToolUse {
			continue
		}
		n++
		if used[out[i].ToolID] {
			out[i].ToolID = callID(n)
		}
		used[out[i].ToolID] = true
	}
	return out
}

// callID returns an ID for the n-th call of a task that has none of its own.
func callID(n int) string { return fmt.Sprintf("call-%d", n) }

// call reserves the worst case and asks the model.
func (c *loop) call(ctx context.Context) (*provider.Reply, error) {
	// A failure that was noted is the outcome of this attempt, also after a crash; the step's own retries decide what
	// follows.
	var failed journal.ModelError
	if again, err := c.replay(journal.NoteModelError, &failed); err != nil || again {
		if err == nil {
			err = &step.Error{Class: failed.Class, Message: failed.Message}
		}
		return nil, err
	}
	if err := c.checkReplayed(); err != nil {
		return nil, err
	}
	request := c.request
	request.For.Turn = c.TurnsBefore + c.turns
	if c.external != nil {
		c.startExternal(&request)
	}
	// Reserve the worst case before the request is sent. The prompt and other pending notes become durable with the
	// reservation.
	worst := c.worst(&request)
	held, worst, err := c.job.Log.ReserveUpTo(ctx, worst, stepkind.LeastReply(c.Agent), c.flush()...)
	if err != nil {
		return nil, err
	}
	request.MaxTokens = int(worst.OutputTokens) // the budget may grant less than asked for
	c.sent = request.MaxTokens
	if c.external != nil {
		request.Task.MicroDollars = worst.MicroDollars
	}
	if c.external == nil { // an external agent can continue its session
		if c.endCall, err = c.job.BeginCall(); err != nil {
			return nil, err
		}
	}
	defer c.stopCall() // after the outcome is known: it may interrupt the task
	reply, held, err := c.receive(ctx, request, worst, held)
	if errors.Is(err, step.ErrNoCall) {
		return nil, err
	}
	if c.external != nil && c.external.canRestart(err) {
		return c.restart(ctx, err, held)
	}
	if c.external != nil && err != nil {
		err = c.external.explainLost(err)
	}
	// The task was interrupted. The engine charges inFlight, because no note settles the reservation.
	if ctx.Err() != nil && err != nil {
		if held != 0 {
			c.inFlight = c.charged(err, worst)
		}
		return nil, context.Cause(ctx)
	}
	var short *step.Error // the budget does not allow another attempt
	var unwritten *noteError
	if errors.As(err, &short) || errors.As(err, &unwritten) {
		return nil, err
	}
	// A long wait ends the task: the run sleeps, and the task continues from its notes.
	if wait := provider.RateLimitWait(err); wait > 0 {
		c.note(c.retryNote(err, wait, worst, held))
		return nil, &step.PostponedError{After: wait, Why: modelError(err).Message}
	}
	if err != nil {
		failed = modelError(err)
		c.note(step.Note{Kind: journal.NoteModelError, Data: failed, Settles: held, Usage: c.charged(err, worst)})
		return nil, &step.Error{Class: failed.Class, Message: failed.Message}
	}
	c.note(step.Note{Kind: journal.NoteReply, Data: reply, Settles: held, Usage: c.used(reply)})
	return reply, nil
}

// worst returns the most that a call can use.
func (c *loop) worst(request *provider.Request) journal.Usage {
	worst := journal.Usage{ModelCalls: 1, InputTokens: request.Tokens(), OutputTokens: int64(request.MaxTokens)}
	if sizer, ok := c.job.Model.(provider.Sizer); ok {
		worst.InputTokens = sizer.MostTokens(request)
	}
	if c.external != nil {
		worst = c.external.worst(worst, request.Task.Turns)
	}
	if p, known := c.price(); known {
		worst.MicroDollars = p.Worst(worst.InputTokens, worst.OutputTokens)
	}
	return worst
}

// used returns what a reply cost.
func (c *loop) used(reply *provider.Reply) journal.Usage {
	u := reply.Usage
	out := journal.Usage{ModelCalls: 1, InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output}
	if p, known := c.price(); known {
		out.MicroDollars = p.Cost(price.Tokens(u))
	}
	if w := reply.AgentResult; w != nil {
		out.ModelCalls = int64(max(1, w.Turns))
		if w.MicroDollars != nil {
			out.MicroDollars = *w.MicroDollars
		}
	}
	return out
}

// price returns the price of the model; false if it is unknown.
func (c *loop) price() (price.Price, bool) {
	if c.job.Price == nil {
		return price.Price{}, false
	}
	return c.job.Price(c.request.Model)
}

// charged returns what a failed call is charged; see provider.Charge.
func (c *loop) charged(err error, worst journal.Usage) journal.Usage {
	switch partial, whole := provider.Charge(err); {
	case partial != nil:
		return c.used(partial)
	case whole:
		return worst.Unanswered()
	}
	return journal.Usage{ModelCalls: 1}.Unanswered()
}

// receive returns the complete reply. It notes a failed attempt before the
// provider waits for the next one, and reserves the next one before it starts.
func (c *loop) receive(
	ctx context.Context, request provider.Request, worst journal.Usage, held step.Reservation,
) (*provider.Reply, step.Reservation, error) {
	var reply *provider.Reply
	for chunk, err := range c.job.Model.Generate(ctx, request) {
		switch {
		case err != nil:
			return nil, held, err
		case chunk.Retried != nil:
			r := chunk.Retried
			if err := c.job.Log.Note(ctx, c.retryNote(r.Error, r.Wait, worst, held)); err != nil {
				return nil, held, err
			}
			held = 0 // nothing is reserved during the wait
			c.stopCall()
		case chunk.NextAttempt:
			if held, err = c.job.Log.Reserve(ctx, worst); err != nil {
				return nil, 0, err
			}
			if c.endCall, err = c.job.BeginCall(); err != nil {
				return nil, 0, err
			}
		case chunk.Session != "":
			if err := c.noteSession(ctx, chunk.Session); err != nil {
				return nil, held, err
			}
		case chunk.Used != nil:
			if err := c.noteNow(ctx, step.Note{Kind: journal.NoteUsage, Data: c.used(chunk.Used)}); err != nil {
				return nil, held, err
			}
		case chunk.ToolEvent != nil:
			if err := c.noteToolUse(ctx, chunk.ToolEvent); err != nil {
				return nil, held, err
			}
		case chunk.Reply != nil:
			reply = chunk.Reply
		case chunk.Type == provider.Text && chunk.Text != "" && c.job.RecordStream:
			note := step.Note{Kind: journal.NoteStream, Data: journal.Stream{Chunk: chunk.Text}}
			if err := c.job.Log.Note(ctx, note); err != nil {
				return nil, held, err
			}
		}
	}
	if reply == nil {
		return nil, held, errNoReply
	}
	return reply, held, nil
}

// retryNote returns the note of an attempt that failed and is made again.
func (c *loop) retryNote(err error, wait time.Duration, worst journal.Usage, held step.Reservation) step.Note {
	retry := journal.ModelRetry{ModelError: modelError(err), Wait: journal.Millis(wait.Milliseconds())}
	return step.Note{
		Kind: journal.NoteModelRetry, Data: retry, Settles: held, Usage: c.charged(err, worst).Unanswered(),
	}
}

// errNoReply is the error of a stream that ended without a complete reply. It is charged, because the provider may bill
// it.
var errNoReply = &provider.Error{Class: ir.ClassAPI, Message: "the model's reply broke off", Billable: true}

// modelError returns an error of a provider in the form of notes.
func modelError(err error) journal.ModelError {
	if failed, ok := errors.AsType[*provider.Error](err); ok {
		return journal.ModelError{Class: failed.Class, Message: failed.Message, Status: failed.Status}
	}
	return journal.ModelError{Class: ir.ClassAPI, Message: err.Error()}
}
