package step

import (
	"context"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/tool"
)

// How often the progress of a call is noted. The interval grows with the duration, so that a long call does not
// fill the journal.
const (
	progressEvery = time.Second
	progressShare = 60 // of the time that has passed
)

// progress notes the progress of a call. Tools may report as often as they like: a newer report replaces one
// that is not noted yet.
type progress struct {
	newest chan tool.Progress // holds at most one
	over   chan struct{}
	noted  chan struct{} // closed after the last note
}

// newProgress starts the goroutine that notes the progress of a call. It ends with end.
func (j *Job) newProgress(ctx context.Context, c ToolCall) *progress {
	p := &progress{newest: make(chan tool.Progress, 1), over: make(chan struct{}), noted: make(chan struct{})}
	go func() {
		defer close(p.noted)
		began := time.Now()
		for {
			select {
			case now := <-p.newest:
				// A note that fails does not end the call: the result meets the same error.
				_ = j.Log.Note(ctx, Note{Kind: journal.NoteProgress, Data: journal.Progress{
					Name: c.Name, CallID: c.CallID, Done: now.Done,
					Total: now.Total, Message: diag.Shorten(now.Message, maxMessage),
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

// report implements tool.Call.Progress.
func (p *progress) report(now tool.Progress) {
	// Replace an older report. Each round finds room or makes it.
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

// end stops noting and waits for the last note.
func (p *progress) end() {
	close(p.over)
	<-p.noted
}

// maxMessage bounds the length of a message, which is one line on a screen.
const maxMessage = 500
