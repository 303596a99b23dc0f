package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// externalAgent is a program that does the work of a conversation: it takes its
// turns and calls its tools by itself.
type externalAgent struct {
	info        *provider.AgentInfo
	grants      []provider.Grant
	session     string // that can be resumed
	starts      int    // how often it was started
	interrupted bool   // it was running when an earlier execution ended
	acted       bool   // and had used tools by then
}

// newExternalAgent restores the state of the agent from the notes of earlier executions.
func newExternalAgent(info *provider.AgentInfo, history []journal.TaskNoted) *externalAgent {
	w := &externalAgent{info: info}
	// A start without a reply or an error after it was interrupted.
	for _, n := range history {
		switch n.Kind {
		case journal.NoteAgent:
			var noted journal.AgentWork
			if json.Unmarshal(n.Data, &noted) == nil && noted.Session != "" {
				w.session = noted.Session
			}
			w.starts++
			w.interrupted = true
		case journal.NoteToolCall:
			w.acted = w.acted || byExternal(n)
		case journal.NoteReply, journal.NoteModelError:
			w.interrupted, w.acted = false, false
		}
	}
	return w
}

// byExternal reports whether a note is about what an external agent did by
// itself, which is not replayed.
func byExternal(n journal.TaskNoted) bool {
	var note struct {
		Fidelity string `json:"fidelity"`
		Resumes  bool   `json:"resumes"`
	}
	return json.Unmarshal(n.Data, &note) == nil && (note.Fidelity == journal.ByAgent || note.Resumes)
}

// grant sets the tools that an external agent may use.
func (c *loop) grant() error {
	if c.external == nil {
		return nil
	}
	grants, problem := step.Grants(c.external.info, c.caller())
	if problem != "" {
		return step.Errorf(ir.ClassMissing, "%s", problem)
	}
	c.external.grants = grants
	return nil
}

// resumePrompt continues the work of an agent that was interrupted.
const resumePrompt = "You were interrupted while you worked on this task. Continue it now. " +
	"Your last action may have taken effect fully, partly or not at all: check before you repeat it. " +
	"Then finish the task and reply in the form that was asked for."

// startExternal adds the work of an external agent to a request, and notes it.
func (c *loop) startExternal(request *provider.Request) {
	w := c.external
	work := &provider.AgentTask{Grants: w.grants, Turns: stepkind.Turns(c.Agent, c.MaxTurns)}
	noted := journal.AgentWork{Agent: w.info.Name, Acts: w.info.Acts(w.grants)}
	// Resume the session of before, or give the new one a name. The name is derived from the task and the number of the
	// start, so that it is known even if the program dies before it reports one.
	switch {
	case w.session != "" && w.info.Resumes:
		work.Session, noted.Session = w.session, w.session
		if w.interrupted {
			prompt := journal.Prompt{Blocks: []journal.Block{textBlock(resumePrompt)}, Resumes: true}
			c.note(step.Note{Kind: journal.NotePrompt, Data: prompt})
			request.Messages = append(slices.Clone(request.Messages), provider.Message{
				Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: resumePrompt}},
			})
		}
	case w.info.NamesSession:
		name := fmt.Sprintf("%s/%d", c.job.Idempotency(c.job.Key), w.starts)
		work.NewSession = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()
		w.session, noted.Session = work.NewSession, work.NewSession
	}
	w.starts++
	c.note(step.Note{Kind: journal.NoteAgent, Data: noted})
	request.Task = work
}

// finished records that the agent has replied.
func (w *externalAgent) finished(reply *provider.Reply) {
	if reply.AgentResult.Session != "" {
		w.session = reply.AgentResult.Session
	}
	w.interrupted, w.acted = false, false
}

// canRestart reports whether the work may start over: the session to resume does
// not exist, and the agent had used no tool in it.
func (w *externalAgent) canRestart(err error) bool {
	var failed *provider.Error
	return errors.As(err, &failed) && failed.NoSession && !w.acted
}

// explainLost explains why work whose session is gone is not started over.
func (w *externalAgent) explainLost(err error) error {
	var failed *provider.Error
	if !errors.As(err, &failed) || !failed.NoSession {
		return err
	}
	explained := *failed
	explained.Message += "; the agent had used tools in that session and may have acted, so it is not started over"
	return &explained
}

// restart starts the work over and returns the reservation.
func (c *loop) restart(ctx context.Context, err error, held step.Reservation) (*provider.Reply, error) {
	c.external.session, c.external.interrupted = "", false
	c.note(step.Note{
		Kind: journal.NoteModelRetry, Data: journal.ModelRetry{ModelError: modelError(err)}, Settles: held,
	})
	return c.call(ctx)
}

// worst returns what is reserved for an agent: as much as one model call for each
// of its turns.
func (w *externalAgent) worst(one journal.Usage, turns int) journal.Usage {
	n := int64(max(1, turns))
	one.ModelCalls, one.InputTokens, one.OutputTokens = n, one.InputTokens*n, one.OutputTokens*n
	return one
}

// noteSession notes the ID that an agent gave its session.
func (c *loop) noteSession(ctx context.Context, session string) error {
	if c.external == nil || session == c.external.session {
		return nil
	}
	c.external.session = session
	return c.noteNow(ctx, step.Note{Kind: journal.NoteAgent, Data: journal.AgentWork{
		Agent: c.external.info.Name, Session: session, Acts: c.external.info.Acts(c.external.grants),
	}})
}

// noteToolUse notes a call of the agent's own tool, as the agent reports it.
func (c *loop) noteToolUse(ctx context.Context, d *provider.AgentToolEvent) error {
	use := journal.ToolUse{Name: d.Name, CallID: d.ID, Input: d.Input, Fidelity: journal.ByAgent}
	kind := journal.NoteToolCall
	if d.Returned {
		kind, use.Output, use.Error = journal.NoteToolResult, d.Output, d.Error
	}
	return c.noteNow(ctx, step.Note{Kind: kind, Data: use})
}

// noteNow makes a note durable while an agent works. The error is not the
// agent's.
func (c *loop) noteNow(ctx context.Context, n step.Note) error {
	if err := c.job.Log.Note(ctx, n); err != nil {
		return &noteError{err}
	}
	return nil
}

// noteError reports a note that could not be made durable. The task has to end.
type noteError struct{ error }

func (e *noteError) Unwrap() error { return e.error }
