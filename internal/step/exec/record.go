package exec

import (
	"context"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// maxRecorded is how many bytes of the output of a command are recorded.
const maxRecorded = 256 << 10

// recorder notes what a command writes while it runs. Whatever is written during an append becomes the next one, so a
// command never waits for the journal.
type recorder struct {
	log step.Log

	mu      sync.Mutex
	waiting []step.Note
	size    int
	streams []*recordedStream

	wake  chan struct{} // holds an element if there may be something to note
	ended chan error
}

// newRecorder starts a recorder. The caller must call close.
func newRecorder(ctx context.Context, log step.Log) *recorder {
	r := &recorder{log: log, wake: make(chan struct{}, 1), ended: make(chan error, 1)}
	go func() { r.ended <- r.run(ctx) }()
	return r
}

func (r *recorder) run(ctx context.Context) error {
	for range r.wake {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	return r.flush(ctx)
}

func (r *recorder) flush(ctx context.Context) error {
	r.mu.Lock()
	notes := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if len(notes) == 0 {
		return nil
	}
	return r.log.Note(ctx, notes...)
}

// stream returns the writer of a stream.
func (r *recorder) stream(name string) io.Writer {
	s := &recordedStream{recorder: r, name: name}
	r.streams = append(r.streams, s)
	return s
}

// close notes the rest, after the command has ended.
func (r *recorder) close() error {
	r.mu.Lock()
	for _, s := range r.streams {
		s.add(s.rest)
	}
	r.mu.Unlock()
	close(r.wake)
	return <-r.ended
}

// recordedStream is one of the streams of a command.
type recordedStream struct {
	recorder *recorder
	name     string
	rest     []byte // the first bytes of a character that is not complete yet
}

func (s *recordedStream) Write(p []byte) (int, error) {
	r := s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	text := append(s.rest, p...)
	end := completeUTF8(text)
	s.rest = append([]byte(nil), text[end:]...)
	s.add(text[:end])
	select {
	case r.wake <- struct{}{}:
	default: // the recorder is awake
	}
	return len(p), nil
}

// add appends text to what is to be noted, up to the limit. The caller holds the lock.
func (s *recordedStream) add(text []byte) {
	r := s.recorder
	if len(text) == 0 || r.size > maxRecorded {
		return
	}
	if r.size += len(text); r.size > maxRecorded {
		text = fmt.Appendf(nil, "\n[more than %d KiB of output; the rest is not recorded]\n", maxRecorded>>10)
	}
	r.waiting = append(r.waiting, step.Note{
		Kind: journal.NoteOutput, Data: journal.Output{Stream: s.name, Chunk: Text(text)},
	})
}

// completeUTF8 returns the length of the text without an incomplete character at its end.
func completeUTF8(text []byte) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
