package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

// working is an agent outside that does the work of a conversation: it makes
// its turns and calls its tools by itself.
type working struct {
	info    *provider.AgentInfo
	grants  []provider.Grant
	session string // that can be gone on with
	starts  int    // how often it was set to work
	broken  bool   // in an earlier life it was at work when that ended
	acted   bool   // and had used tools by then
}

// newWorking looks up how far the agent came in earlier lives.
func newWorking(info *provider.AgentInfo, history []journal.TaskNoted) *working {
	w := &working{info: info}
	for _, n := range history {
		switch n.Kind {
		case journal.NoteAgent:
			var noted journal.AgentWork
			if json.Unmarshal(n.Data, &noted) == nil && noted.Session != "" {
				w.session = noted.Session
			}
			w.starts++
			w.broken = true
		case journal.NoteToolCall:
			w.acted = w.acted || agents(n)
		case journal.NoteReply, journal.NoteModelError:
			w.broken, w.acted = false, false
		}
	}
	return w
}

// agents tells whether a note is about what an agent does by itself, which is
// nothing that we would do again.
func agents(n journal.TaskNoted) bool {
	var note struct {
		Fidelity string `json:"fidelity"`
		Resumes  bool   `json:"resumes"`
	}
	return json.Unmarshal(n.Data, &note) == nil && (note.Fidelity == journal.ByAgent || note.Resumes)
}

// allow decides what an agent outside may do.
func (c *conversation) allow() error {
	if c.work == nil {
		return nil
	}
	grants, problem := step.Grants(c.work.info, tool.Caller{Program: c.job.Workflow, Step: c.job.Step, Agent: c.Agent})
	if problem != "" {
		return step.Errorf(step.ClassMissing, "%s", problem)
	}
	c.work.grants = grants
	return nil
}

// goOn is what an agent is told whose work was broken off.
const goOn = "You were interrupted while you worked on this task. Continue it now. Your last action may have taken effect fully, partly or not at all: " +
	"check before you repeat it. Then finish the task and reply in the form that was asked for."

// setToWork makes a request one for an agent, and notes that it is set to work
// before it is.
func (c *conversation) setToWork(request *provider.Request) {
	w := c.work
	work := &provider.Work{Grants: w.grants, Turns: step.Turns(c.Agent, c.MaxTurns)}
	noted := journal.AgentWork{Agent: w.info.Name, Acts: w.info.Acts(w.grants)}
	switch {
	case w.session != "" && w.info.Resumes:
		work.Session, noted.Session = w.session, w.session
		if w.broken {
			prompt := journal.Prompt{Blocks: []journal.Block{textBlock(goOn)}, Resumes: true}
			c.note(step.Note{Kind: journal.NotePrompt, Data: prompt})
			request.Messages = append(slices.Clone(request.Messages), provider.Message{
				Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: goOn}},
			})
		}
	case w.info.NamesSession:
		name := fmt.Sprintf("%s/%d", c.job.Idempotency(c.job.Key), w.starts)
		work.NewSession = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()
		w.session, noted.Session = work.NewSession, work.NewSession
	}
	w.starts++
	c.note(step.Note{Kind: journal.NoteAgent, Data: noted})
	request.Work = work
}

// over is when the agent has answered.
func (w *working) over(reply *provider.Reply) {
	if reply.Worked.Session != "" {
		w.session = reply.Worked.Session
	}
	w.broken, w.acted = false, false
}

// anew tells whether the work may begin again: the session that was to be gone
// on with is not there, and the agent had used no tool in it.
func (w *working) anew(err error) bool {
	var failed *provider.Error
	return errors.As(err, &failed) && failed.NoSession && !w.acted
}

// lost says of a session that is not there what that means.
func (w *working) lost(err error) error {
	var failed *provider.Error
	if !errors.As(err, &failed) || !failed.NoSession {
		return err
	}
	told := *failed
	told.Message += "; it had used tools in that session, and nobody knows how far it came, so it is not begun anew"
	return &told
}

// again begins the work anew. What was set aside is given back.
func (c *conversation) again(ctx context.Context, err error, held step.Reservation) (*provider.Reply, error) {
	c.work.session, c.work.broken = "", false
	c.note(step.Note{Kind: journal.NoteModelRetry, Data: journal.ModelRetry{ModelError: modelError(err)}, Settles: held})
	return c.call(ctx)
}

// worst is what is set aside for an agent: each of its turns may be as large
// as one of a model that only answers.
func (w *working) worst(one journal.Usage, turns int) journal.Usage {
	n := int64(max(1, turns))
	one.ModelCalls, one.InputTokens, one.OutputTokens = n, one.InputTokens*n, one.OutputTokens*n
	return one
}

// begun notes what an agent calls its session.
func (c *conversation) begun(ctx context.Context, session string) error {
	if c.work == nil || session == c.work.session {
		return nil
	}
	c.work.session = session
	return c.noted(ctx, step.Note{Kind: journal.NoteAgent, Data: journal.AgentWork{
		Agent: c.work.info.Name, Session: session, Acts: c.work.info.Acts(c.work.grants),
	}})
}

// did notes what an agent does with a tool of its own, by its own account.
func (c *conversation) did(ctx context.Context, d *provider.Did) error {
	use := journal.ToolUse{Name: d.Name, CallID: d.ID, Input: d.Input, Fidelity: journal.ByAgent}
	kind := journal.NoteToolCall
	if d.Returned {
		kind, use.Output, use.Error = journal.NoteToolResult, d.Output, d.Error
	}
	return c.noted(ctx, step.Note{Kind: kind, Data: use})
}

// noted makes a note durable while an agent works. That it cannot be made is
// nothing that the agent is to blame for.
func (c *conversation) noted(ctx context.Context, n step.Note) error {
	if err := c.job.Log.Note(ctx, n); err != nil {
		return &unnoted{err}
	}
	return nil
}

// unnoted is a note that could not be made durable: the task has to end.
type unnoted struct{ error }

func (e *unnoted) Unwrap() error { return e.error }
