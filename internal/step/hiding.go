package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/secret"
)

// Hiding is a Runner inside of which secrets have their values. Outside there
// are only marks in their place: in what it is given, in its notes, its result
// and its errors. It is the one border between what is used and what is kept.
type Hiding struct {
	Runner
	Secrets *secret.Registry
	// Defined says that the workflow's own text has marks in it.
	Defined bool
}

// Run does the task with the values of secrets put back.
func (h Hiding) Run(ctx context.Context, job *Job) (Result, error) {
	inner, err := h.revealed(ctx, job)
	if err != nil {
		return Result{}, Errorf(ClassMissing, "%s", h.Secrets.HideText(err.Error()))
	}
	log := &hidingLog{Log: job.Log, secrets: h.Secrets, stream: secret.Stream{Registry: h.Secrets}}
	inner.Log, inner.Secrets = log, h.Secrets
	defer func() {
		if p := recover(); p != nil {
			panic(h.Secrets.HideText(fmt.Sprint(p)))
		}
	}()
	result, err := h.Runner.Run(ctx, inner)
	result.Notes = log.hide(result.Notes, true)
	if result.Value != nil {
		result.Value = h.Secrets.Hide(result.Value)
	}
	return result, h.hideError(err)
}

// revealed is a job with the values in it.
func (h Hiding) revealed(ctx context.Context, job *Job) (*Job, error) {
	var errs []error
	reveal := func(raw json.RawMessage) json.RawMessage {
		out, err := h.Secrets.Reveal(ctx, raw)
		if err != nil {
			errs = append(errs, err)
		}
		return out
	}
	inner := *job
	inner.Reads, inner.Branches, inner.History = slices.Clone(job.Reads), slices.Clone(job.Branches), slices.Clone(job.History)
	for i := range inner.Reads {
		inner.Reads[i].Value = reveal(inner.Reads[i].Value)
	}
	for i := range inner.Branches {
		b := &inner.Branches[i]
		text, err := h.Secrets.RevealText(ctx, b.Error)
		errs = append(errs, err)
		b.Error, b.Value = text, reveal(b.Value)
	}
	for i := range inner.History {
		inner.History[i].Data = reveal(inner.History[i].Data)
	}
	if h.Defined {
		inner.Workflow, inner.Step, inner.Task = new(ir.Program), new(ir.Step), new(ir.Task)
		errs = append(errs,
			json.Unmarshal(reveal(JSON(job.Workflow)), inner.Workflow),
			json.Unmarshal(reveal(JSON(job.Step)), inner.Step),
			json.Unmarshal(reveal(JSON(job.Task)), inner.Task))
	}
	return &inner, errors.Join(errs...)
}

func (h Hiding) hideError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ApprovalRequired](err); ok { // it is hidden where it is made
		return err
	}
	if later, ok := errors.AsType[*Later](err); ok {
		return &Later{After: later.After, Why: h.Secrets.HideText(later.Why)}
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		out := *failed
		out.Message = h.Secrets.HideText(failed.Message)
		if failed.Value != nil {
			out.Value = h.Secrets.Hide(failed.Value)
		}
		return &out
	}
	if text := h.Secrets.HideText(err.Error()); text != err.Error() {
		return &hiddenError{err, text}
	}
	return err
}

// hiddenError is an error that still is what it was, and says it differently.
type hiddenError struct {
	error
	text string
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.error }

// hidingLog is a Log that learns nothing that is secret.
type hidingLog struct {
	Log
	secrets *secret.Registry

	mu     sync.Mutex // tools of one turn run at the same time
	stream secret.Stream
}

func (l *hidingLog) Note(ctx context.Context, notes ...Note) error {
	return l.Log.Note(ctx, l.hide(notes, false)...)
}

func (l *hidingLog) Reserve(ctx context.Context, amount journal.Usage, notes ...Note) (Reservation, error) {
	return l.Log.Reserve(ctx, amount, l.hide(notes, false)...)
}

func (l *hidingLog) ReserveUpTo(ctx context.Context, most journal.Usage, least int64, notes ...Note) (Reservation, journal.Usage, error) {
	return l.Log.ReserveUpTo(ctx, most, least, l.hide(notes, false)...)
}

// hide gives the notes as they may be kept. Pieces of a reply are one text, in
// which a secret may go from one piece to the next: what may be the beginning
// of one waits for what follows.
func (l *hidingLog) hide(notes []Note, end bool) []Note {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Note
	rest := func() {
		if text := l.stream.End(); text != "" {
			out = append(out, Note{Kind: journal.NoteStream, Data: journal.Stream{Chunk: text}})
		}
	}
	for _, n := range notes {
		if piece, ok := n.Data.(journal.Stream); ok {
			if n.Data = (journal.Stream{Chunk: l.stream.Next(piece.Chunk)}); n.Data != (journal.Stream{}) {
				out = append(out, n)
			}
			continue
		}
		rest()
		if raw, ok := n.Data.(json.RawMessage); ok && len(raw) > 0 {
			n.Data = l.secrets.Hide(raw)
		} else if raw, err := Encode(n.Data); err == nil && n.Data != nil {
			n.Data = l.secrets.Hide(raw)
		} // else the log says that it cannot be written, as it does of what is no JSON
		out = append(out, n)
	}
	if end {
		rest()
	}
	return out
}
