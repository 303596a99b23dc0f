package terminal

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// control reports whether a terminal obeys a character instead of showing it:
// C0 and C1 controls, and those that change the direction of text.
func control(r rune) bool {
	return unicode.IsControl(r) || r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e ||
		r >= 0x2066 && r <= 0x2069
}

// Writer writes to a terminal, or to something else.
type Writer struct {
	to       io.Writer
	terminal bool
	mark     string

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end has not been written yet
}

// New returns a Writer. What goes to a terminal is inert: control characters
// other than line feeds and tabs are shown as U+FFFD. What goes elsewhere stays
// as it is.
func New(to io.Writer, isTerminal bool) *Writer {
	return &Writer{to: to, terminal: isTerminal, mark: "\x00" + rand.Text() + "\x00"}
}

// Escape returns text that the Writer turns into an escape sequence. It contains
// a random mark, so text from other sources cannot produce one.
func (w *Writer) Escape(sequence string) string { return w.mark + sequence }

// Mark returns a writer for text that is inert already, but for escape sequences
// of our own: what it writes to, directly or later, is the Writer.
func (w *Writer) Mark(to io.Writer) io.Writer { return marker{to, w.mark} }

type marker struct {
	to   io.Writer
	mark string
}

func (m marker) Write(p []byte) (int, error) {
	marked := strings.NewReplacer("\x1b", m.mark, "\r", m.mark+"\r").Replace(string(p))
	if _, err := io.WriteString(m.to, marked); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ours are the sequences that Espalier itself uses: colors, and what progress
// on a terminal needs, with the carriage return, which needs no escape.
var ours = lazyregexp.New(`^(?:\r|\[(?:(?:[012]|3[1-6]|1;3[1-6])?m|\?25[lh]|\?2026[lh]|[KJ]|[0-9]{1,4}A))`)

// Write writes all of p, made inert.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	w.rest = nil
	if w.terminal {
		if n := incomplete(text); n > 0 {
			w.rest = bytes.Clone(text[len(text)-n:])
			text = text[:len(text)-n]
		}
	}
	var out strings.Builder
	before, after, found := strings.Cut(string(text), w.mark)
	out.WriteString(w.inert(before))
	for found {
		before, after, found = strings.Cut(after, w.mark)
		if sequence := ours().FindString(before); sequence != "" {
			if sequence != "\r" {
				out.WriteByte(0x1b)
			}
			out.WriteString(sequence)
			before = before[len(sequence):]
		}
		out.WriteString(w.inert(before))
	}
	if _, err := io.WriteString(w.to, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) inert(text string) string {
	if !w.terminal {
		return text
	}
	return Inert(text)
}

// Inert returns a text that a terminal only shows.
func Inert(text string) string {
	if strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && control(r) ||
			r == utf8.RuneError
	}) < 0 {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && control(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// incomplete returns how many bytes at the end are the beginning of a character.
func incomplete(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if c := p[len(p)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// JSON returns a writer that escapes control characters in JSON, where they can
// only stand in strings. encoding/json leaves DEL, C1 and the rest as they are.
func JSON(to io.Writer) io.Writer { return &jsonWriter{to: to} }

type jsonWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

func (w *jsonWriter) Write(p []byte) (int, error) {
	all := append(w.rest, p...)
	n := len(all) - incomplete(all)
	if _, err := w.to.Write(EscapeJSON(all[:n])); err != nil {
		return 0, err
	}
	w.rest = bytes.Clone(all[n:])
	return len(p), nil
}

// EscapeJSON escapes control characters in JSON.
func EscapeJSON(p []byte) []byte {
	needed := func(r rune) bool { return r > 0x1f && control(r) }
	if bytes.IndexFunc(p, needed) < 0 {
		return p
	}
	var out bytes.Buffer
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if needed(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.Write(p[:n])
		}
		p = p[n:]
	}
	return out.Bytes()
}
