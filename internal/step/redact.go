package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// RedactingRunner is a Runner that gives the task the values of secrets. Outside of it, the job, its notes, its
// result and its errors have placeholders instead. It is the only boundary between values in use and values
// that are stored.
type RedactingRunner struct {
	Runner
	Secrets *secret.Registry
	// InWorkflow reports whether the text of the workflow has placeholders, too.
	InWorkflow bool
}

// Run runs the task with the values of secrets.
func (h RedactingRunner) Run(ctx context.Context, job *Job) (Result, error) {
	if job.Simulated {
		ctx = secret.WithoutAsking(ctx)
	}
	inner, err := h.revealed(ctx, job)
	if err != nil {
		return Result{}, Errorf(ir.ClassMissing, "%s", h.Secrets.HideText(err.Error()))
	}
	log := &redactingLog{Log: job.Log, secrets: h.Secrets, stream: secret.Stream{Registry: h.Secrets}}
	inner.Log, inner.Secrets = log, h.Secrets
	// The text of a panic may contain values; the engine records it as the error of the task.
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

// revealed returns a job with the values of secrets.
func (h RedactingRunner) revealed(ctx context.Context, job *Job) (*Job, error) {
	var errs []error
	reveal := func(raw json.RawMessage) json.RawMessage {
		out, err := h.Secrets.Reveal(ctx, raw)
		if err != nil {
			errs = append(errs, err)
		}
		return out
	}
	// Copies: the job outside keeps its placeholders, and other tasks share the program.
	inner := *job
	inner.Reads, inner.Branches, inner.History = slices.Clone(job.Reads),
		slices.Clone(job.Branches), slices.Clone(job.History)
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
	if h.InWorkflow {
		inner.Workflow, inner.Step, inner.Task = new(ir.Program), new(ir.Step), new(ir.Task)
		errs = append(errs,
			json.Unmarshal(reveal(JSON(job.Workflow)), inner.Workflow),
			json.Unmarshal(reveal(JSON(job.Step)), inner.Step),
			json.Unmarshal(reveal(JSON(job.Task)), inner.Task))
	}
	return &inner, errors.Join(errs...)
}

// hideError returns an error whose texts and values have no secrets.
func (h RedactingRunner) hideError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ApprovalRequired](err); ok { // masked where it is created
		return err
	}
	if later, ok := errors.AsType[*PostponedError](err); ok {
		return &PostponedError{After: later.After, Why: h.Secrets.HideText(later.Why)}
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

// hiddenError wraps an error and masks its text.
type hiddenError struct {
	error
	text string
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.error }

// redactingLog is a Log that masks secrets in notes.
type redactingLog struct {
	Log
	secrets *secret.Registry

	mu      sync.Mutex // guards the streams: tools of one turn run concurrently
	stream  secret.Stream
	outputs map[string]*secret.Stream // of commands, by the name of the stream
}

// Note implements Log. Pieces of streams may be held, so fewer notes may be written.
func (l *redactingLog) Note(ctx context.Context, notes ...Note) error {
	return l.Log.Note(ctx, l.hide(notes, false)...)
}

// Reserve implements Log.
func (l *redactingLog) Reserve(ctx context.Context, amount journal.Usage, notes ...Note) (Reservation, error) {
	return l.Log.Reserve(ctx, amount, l.hide(notes, false)...)
}

// ReserveUpTo implements Log.
func (l *redactingLog) ReserveUpTo(
	ctx context.Context, most journal.Usage, least int64, notes ...Note,
) (Reservation, journal.Usage, error) {
	return l.Log.ReserveUpTo(ctx, most, least, l.hide(notes, false)...)
}

// output returns the stream of a command that has a name. The caller holds the lock.
func (l *redactingLog) output(name string) *secret.Stream {
	if l.outputs[name] == nil {
		xmaps.Set(&l.outputs, name, &secret.Stream{Registry: l.secrets})
	}
	return l.outputs[name]
}

// hide returns the notes with secrets masked. A secret may span several pieces of
// a streamed reply or of the output of a command, so a piece that may start one is
// held until the next.
func (l *redactingLog) hide(notes []Note, end bool) []Note {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Note
	// rest writes what is held: another note, or the end, shows that the streams do not continue at once.
	rest := func() {
		if text := l.stream.End(); text != "" {
			out = append(out, Note{Kind: journal.NoteStream, Data: journal.Stream{Chunk: text}})
		}
		for _, name := range slices.Sorted(maps.Keys(l.outputs)) {
			if text := l.outputs[name].End(); text != "" {
				out = append(out, Note{Kind: journal.NoteOutput, Data: journal.Output{Stream: name, Chunk: text}})
			}
		}
	}
	for _, n := range notes {
		if piece, ok := n.Data.(journal.Stream); ok {
			if n.Data = (journal.Stream{Chunk: l.stream.Next(piece.Chunk)}); n.Data != (journal.Stream{}) {
				out = append(out, n)
			}
			continue
		}
		if piece, ok := n.Data.(journal.Output); ok {
			if piece.Chunk = l.output(piece.Stream).Next(piece.Chunk); piece.Chunk != "" {
				n.Data = piece
				out = append(out, n)
			}
			continue
		}
		rest()
		if raw, ok := n.Data.(json.RawMessage); ok && len(raw) > 0 {
			n.Data = l.secrets.Hide(raw)
		} else if raw, err := Encode(n.Data); err == nil && n.Data != nil {
			n.Data = l.secrets.Hide(raw)
		} // else the log reports that it cannot be encoded
		out = append(out, n)
	}
	if end {
		rest()
	}
	return out
}
