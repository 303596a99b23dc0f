package step

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// AnswerSchema is the name under which a gate shows the schema of the answer that a tool asks for.
const AnswerSchema = "answer_schema"

// maxSamples is the number of replies that a tool can request from the model during one call.
const maxSamples = 20

// exchange holds what a tool requests during one call: answers of people and replies of the model. Both are
// notes of the task, and are reused if the call is made again.
type exchange struct {
	job  *Job
	call ToolCall
	spec tool.Spec

	mu        sync.Mutex
	questions int
	samples   int
	requests  map[string]int    // number of requests for a reply, by digest
	open      *ApprovalRequired // the first question without an answer
}

// ask implements tool.Call.Ask.
func (e *exchange) ask(q tool.Question) (tool.Response, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open != nil { // one question at a time
		return tool.Response{}, false
	}
	e.questions++
	shows := map[string]json.RawMessage{
		"tool": JSON(e.call.Name), "arguments": e.call.Input, "question": JSON(q.Message), AnswerSchema: q.Schema,
	}
	if len(q.Schema) == 0 {
		shows[AnswerSchema] = json.RawMessage(`{"type":"object"}`)
	}
	question := e.job.approvalShowing(e.call, e.spec, shows)
	question.Call = fmt.Sprintf("%s/ask:%d", question.Call, e.questions)
	digest := question.digest(e.job.Root)
	// Questions are numbered in the order in which the tool asks them, and an answer counts only for the same text.
	for _, note := range e.job.History {
		var said journal.ToolAnswer
		if note.Kind == journal.NoteToolAnswer && json.Unmarshal(note.Data, &said) == nil &&
			said.Call == question.Call && said.Digest == digest {
			return tool.Response{Accepted: said.Approved, Value: said.Value}, true
		}
	}
	e.open = question
	return tool.Response{}, false
}

// unanswered returns the question that a person has to answer before the call is made again; nil if there is none.
func (e *exchange) unanswered() *ApprovalRequired {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

// sample implements tool.Call.Sample. The worst case of the reply is reserved before the model is called.
func (e *exchange) sample(ctx context.Context, s tool.Sampling) (tool.Sample, error) {
	if one := e.job.Sampling; one != nil {
		one.Lock()
		defer one.Unlock()
	}
	var out tool.Sample
	asked := JSON(s)
	sum := sha256.Sum256(asked)
	digest, key := hex.EncodeToString(sum[:]), e.job.CallKey(e.call.N)
	if e.samples++; e.samples > maxSamples {
		return out, fmt.Errorf("one call can request %d replies at most", maxSamples)
	}
	// Equal requests of one call have replies of their own. Notes of failed requests have no digest.
	xmaps.Set(&e.requests, digest, e.requests[digest]+1)
	nth := 0
	for _, note := range e.job.History {
		var past journal.Sample
		if note.Kind != journal.NoteSample || json.Unmarshal(note.Data, &past) != nil || past.Call != key ||
			past.Digest != digest {
			continue
		}
		if nth++; nth == e.requests[digest] {
			return out, json.Unmarshal(past.Reply, &out)
		}
	}
	reply, held, used, err := e.generate(ctx, s)
	if err != nil {
		return out, err
	}
	out = tool.Sample{Model: reply.Model, Text: reply.Text(), CutOff: reply.Stop == provider.CutOff}
	return out, e.job.Log.Note(ctx, Note{
		Kind: journal.NoteSample, Settles: held, Usage: used,
		Data: journal.Sample{Call: key, Digest: digest, Request: asked, Reply: JSON(out)},
	})
}

// generate asks the model of the agent that calls the tool, or the default model.
func (e *exchange) generate(ctx context.Context, s tool.Sampling) (
	reply *provider.Reply, held Reservation, used journal.Usage, err error,
) {
	j, agent := e.job, e.call.Agent
	if j.Model == nil {
		return nil, 0, used, errors.New("no model is configured")
	}
	request := provider.Request{System: s.System, MaxTokens: int(stepkind.ReplyCap(agent))}
	if s.MaxTokens > 0 {
		request.MaxTokens = min(request.MaxTokens, s.MaxTokens)
	}
	request.For = provider.Purpose{
		Workflow: j.Workflow.Name, Step: j.Step.ID, Key: j.CallKey(e.call.N), Visit: j.Visit, Iteration: j.Iteration,
		Attempt: j.Attempt, Turn: e.samples - 1,
	}
	if agent != nil {
		request.Model, request.Options, request.For.Agent = agent.ModelName(), agent.Options, agent.ID
	}
	if agents, ok := j.Model.(provider.Agents); ok && agents.Agent(request.Model) != nil {
		return nil, 0, used, errors.New("the model of this step is an external agent, which does not reply to tools")
	}
	for _, m := range s.Messages {
		role := provider.User
		if m.Assistant {
			role = provider.Assistant
		}
		request.Messages = append(request.Messages, provider.Message{
			Role: role, Blocks: []provider.Block{{Type: provider.Text, Text: m.Text}},
		})
	}
	// Reserve the worst case, as for the calls of the conversation itself.
	worst := journal.Usage{ModelCalls: 1, InputTokens: request.Tokens(), OutputTokens: int64(request.MaxTokens)}
	if sizer, ok := j.Model.(provider.Sizer); ok {
		worst.InputTokens = sizer.MostTokens(&request)
	}
	var cost price.Price
	priced := false
	if j.Price != nil {
		if cost, priced = j.Price(request.Model); priced {
			worst.MicroDollars = cost.Worst(worst.InputTokens, worst.OutputTokens)
		}
	}
	held, worst, err = j.Log.ReserveUpTo(ctx, worst, stepkind.LeastReply(agent))
	if err != nil {
		return nil, 0, used, err
	}
	request.MaxTokens = int(worst.OutputTokens)
	var failed error
	for chunk, err := range j.Model.Generate(ctx, request) {
		if chunk.Retried != nil { // the tool can ask again
			err = chunk.Retried.Error
		}
		if failed = err; err != nil {
			break
		}
		if chunk.Reply != nil {
			reply = chunk.Reply
		}
	}
	// A request that may be billed is charged in full, and settled by a note in any case, so that the reservation ends.
	if reply == nil {
		failed = cmp.Or(failed, errors.New("the model's reply broke off"))
		charged := worst.Unanswered()
		if known, ok := errors.AsType[*provider.Error](failed); ok && !known.Billable {
			charged = journal.Usage{ModelCalls: 1}.Unanswered()
		}
		return nil, 0, used, errors.Join(failed, j.Log.Note(ctx, Note{
			Kind: journal.NoteSample, Settles: held, Usage: charged,
			Data: journal.Sample{Call: j.CallKey(e.call.N), Request: JSON(s), Error: failed.Error()},
		}))
	}
	u := reply.Usage
	used = journal.Usage{ModelCalls: 1, InputTokens: u.Input + u.CacheRead + u.CacheWrite, OutputTokens: u.Output}
	if priced {
		used.MicroDollars = cost.Cost(price.Tokens(u))
	}
	return reply, held, used, nil
}
