package step

import (
	"context"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/tool"
)

// How often the progress of a call is noted: so often, and less often the
// longer it takes, so that a call of hours does not fill the journal.
const (
	progressEvery = time.Second
	progressShare = 60 // of the time that has passed
)

// progress notes how far a call has come while it lasts. Tools may tell as
// often as they like: what is not noted in time is replaced by what is newer.
type progress struct {
	newest chan tool.Progress // holds at most one
	over   chan struct{}
	noted  chan struct{} // closed when nothing will be noted any more
}

func (j *Job) tellProgress(ctx context.Context, c ToolCall) *progress {
	p := &progress{newest: make(chan tool.Progress, 1), over: make(chan struct{}), noted: make(chan struct{})}
	go func() {
		defer close(p.noted)
		began := time.Now()
		for {
			select {
			case now := <-p.newest:
				// One that cannot be noted is no reason to end the call: what
				// keeps it from being noted will be met by its result.
				_ = j.Log.Note(ctx, Note{Kind: journal.NoteProgress, Data: journal.Progress{
					Name: c.Name, CallID: c.CallID, Done: now.Done,
					Total: now.Total, Message: diag.Shorten(now.Message, mostMessage),
				}})
			case <-p.over:
				return
			}
			select {
			case <-time.After(max(progressEvery, time.Since(began)/progressShare)):
			case <-p.over:
				return
			}
		}
	}()
	return p
}

// tell is what a tool calls.
func (p *progress) tell(now tool.Progress) {
	for {
		select {
		case p.newest <- now:
			return
		default:
		}
		select {
		case <-p.newest: // older
		default:
		}
	}
}

// end returns when nothing will be noted any more.
func (p *progress) end() {
	close(p.over)
	<-p.noted
}

// mostMessage is how much of a message is kept: it is one line on a screen.
const mostMessage = 500
