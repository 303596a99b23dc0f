package registry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// TranscriptOptions are how a transcript is printed.
type TranscriptOptions struct {
	Follow, Pretty, Colour bool
	// Stop ends following.
	Stop <-chan os.Signal
}

// Transcript prints the record of a run, as it is or as it grows.
func (r *Runtime) Transcript(ctx context.Context, entry journal.Entry, o TranscriptOptions, w io.Writer) error {
	root := entry.ID
	if entry.Root != "" {
		root = entry.Root
	}
	if err := r.Transcripts.CatchUp(ctx, root); err != nil {
		return err
	}
	path, err := r.Transcripts.Path(entry.ID)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if o.Follow {
		in = &growing{r: r, ctx: ctx, file: f, run: entry.ID, stop: o.Stop}
	}
	if o.Pretty {
		more := &remarks{r: r, ctx: ctx, root: root, run: entry.ID, style: console.Style{Colour: o.Colour}, live: o.Follow}
		more.progress = console.NewProgress(root, r.outline)
		_, program, _, err := r.Engine.Load(ctx, root)
		if err != nil {
			return err
		}
		named := map[string]string{}
		titles(program.Root(), named)
		err = transcript.Pretty(w, transcript.Read(in), transcript.PrettyOptions{Colour: o.Colour, Remarks: more.until, Titles: named})
		return errors.Join(err, more.err)
	}
	_, err = io.Copy(w, in)
	return err
}

// titles collects what people call the steps of a program whose names nobody wrote.
func titles(p *ir.Program, out map[string]string) {
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			if s := &p.Blocks[b].Steps[i]; s.Label != "" {
				out[s.ID] = s.Label
			}
		}
	}
	for i := range p.Children {
		titles(&p.Children[i], out)
	}
}

// TranscriptFile prints a transcript that is a file: one of AWF's own, too.
func TranscriptFile(w io.Writer, r io.Reader, colour bool) error {
	return transcript.Pretty(w, transcript.Read(r), transcript.PrettyOptions{Colour: colour})
}

// remarks are what the journal knows of a run and a transcript has no event for:
// who took it over, what was interrupted, asked again, decided and paid.
type remarks struct {
	r         *Runtime
	ctx       context.Context
	root, run journal.RunID
	style     console.Style
	live      bool // the journal grows
	progress  *console.Progress
	read      bool
	next      []remark
	last      string // what it came to
	err       error
}

type remark struct {
	at   time.Time
	line string
}

// besides are the notices that a transcript does not have in its own form.
var besides = map[console.Event]bool{
	console.RunClaimed: true, console.StepSkipped: true, console.StepRetrying: true, console.StepLost: true,
	console.ModelReplied: true, console.ModelRetried: true, console.WaitStarted: true, console.WaitFinished: true,
	console.Signalled: true, console.Paused: true, console.Continued: true, console.Cancelling: true,
	console.BudgetRaised: true, console.StateEdited: true, console.Rewound: true, console.InputRefused: true,
}

// until is the remarks up to a moment; the rest, when it is zero.
func (m *remarks) until(moment time.Time) []string {
	if !m.read || m.live {
		m.load()
	}
	var out []string
	for len(m.next) > 0 && (moment.IsZero() || !m.next[0].at.After(moment)) {
		out = append(out, m.next[0].line)
		m.next = m.next[1:]
	}
	if moment.IsZero() && m.last != "" {
		out = append(out, m.last)
	}
	return out
}

func (m *remarks) load() {
	m.read = true
	for e, err := range m.r.Store.Events(m.ctx, m.root, m.progress.Seq()) {
		var told []console.Notice
		if err == nil {
			told, err = m.progress.Apply(&e)
		}
		if err != nil {
			m.err = err
			return
		}
		for i := range told {
			n := &told[i]
			if n.Run != m.run {
				continue
			}
			line := n.Remark(m.style)
			if n.Event == console.RunFinished {
				m.last = line
			} else if besides[n.Event] && line != "" {
				m.next = append(m.next, remark{n.At.Time, line})
			}
		}
	}
}

// growing reads a file that another goroutine, or another process, appends to,
// until the run is over.
type growing struct {
	r    *Runtime
	ctx  context.Context
	file *os.File
	run  journal.RunID
	stop <-chan os.Signal
	over bool
}

func (g *growing) Read(p []byte) (int, error) {
	for {
		n, err := g.file.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if g.over {
			return 0, io.EOF
		}
		entry, err := g.r.Store.Entry(g.ctx, g.run)
		if err != nil {
			return 0, err
		}
		if entry.Status == journal.Finished {
			g.over = true
			if err := g.r.follow.Flush(g.ctx); err != nil {
				return 0, err
			}
			continue
		}
		if !g.r.moved(g.ctx, g.stop) {
			return 0, io.EOF
		}
	}
}

// moved waits until something may have been appended by anybody; false when
// somebody wants to stop.
func (r *Runtime) moved(ctx context.Context, stop <-chan os.Signal) bool {
	last, err := r.Store.Last(ctx)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for range journal.Follow(ctx, r.Store, last, followPoll) {
			return
		}
	}()
	select {
	case <-seen:
		return r.follow.Flush(context.Background()) == nil
	case <-stop:
		return false
	}
}

// Delete removes a run that is over, with its records and files.
func (r *Runtime) Delete(ctx context.Context, id journal.RunID) error {
	ids := []journal.RunID{id}
	for child, err := range r.Store.Runs(ctx, journal.Filter{Root: id, Children: true}) {
		if err != nil {
			return err
		}
		ids = append(ids, child.ID)
	}
	if err := r.Store.Delete(ctx, id); err != nil {
		return err
	}
	var errs []error
	for _, one := range ids {
		for _, path := range []func(journal.RunID) (string, error){r.Transcripts.Path, r.Audits.Path} {
			name, err := path(one)
			if err == nil {
				if err = os.Remove(name); errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
			}
			errs = append(errs, err)
		}
		otel.Forget(r.telemetryDir(), one)
		errs = append(errs, os.RemoveAll(r.RunDir(one)))
	}
	return errors.Join(errs...)
}
