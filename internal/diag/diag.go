package diag

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/source"
)

// Code identifies one kind of diagnostic, such as "AF012" or "EXPR003". Codes are never reused. Each has a page that
// `espalier explain CODE` prints.
type Code string

// Severity orders diagnostics by weight.
type Severity int

// Severities of diagnostics. A Note informs; a Warning marks text that works but is probably a mistake; an Error makes
// the workflow invalid.
const (
	Note Severity = iota
	Warning
	Error
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// MarshalText returns the severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets the severity that a name stands for.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, one := range []Severity{Note, Warning, Error} {
		if one.String() == string(text) {
			*s = one
			return nil
		}
	}
	return fmt.Errorf("there is no severity %q", text)
}

// Diagnostic is one finding about one place in a file.
type Diagnostic struct {
	Code     Code
	Severity Severity
	Span     source.Span
	Message  string // one sentence: what is wrong
	Help     string // one sentence: what to do about it
	Related  []Related
	Fixes    []Fix // alternatives, the best one first
	// Lenient marks a Note about something that was accepted although the format's rules do not allow it; --strict
	// turns it into an error.
	Lenient bool
}

// Related is another place that explains the first ("first defined here").
type Related struct {
	Span    source.Span
	Message string
}

// List is a list of diagnostics in the order in which they were found.
type List []Diagnostic

// Add appends a diagnostic. The pointer is valid until the next call.
func (l *List) Add(d Diagnostic) *Diagnostic {
	*l = append(*l, d)
	return &(*l)[len(*l)-1]
}

// Reportf appends a diagnostic with a help text and a message in the form of fmt.Sprintf. The pointer is valid until
// the next call.
func (l *List) Reportf(code Code, severity Severity, at source.Span, help, format string, args ...any) *Diagnostic {
	return l.Add(Diagnostic{
		Code: code, Severity: severity, Span: at, Message: fmt.Sprintf(format, args...), Help: help,
	})
}

// Errorf is Reportf for an error.
func (l *List) Errorf(code Code, at source.Span, help, format string, args ...any) *Diagnostic {
	return l.Reportf(code, Error, at, help, format, args...)
}

// Warnf is Reportf for a warning.
func (l *List) Warnf(code Code, at source.Span, help, format string, args ...any) *Diagnostic {
	return l.Reportf(code, Warning, at, help, format, args...)
}

// Notef is Reportf for a note.
func (l *List) Notef(code Code, at source.Span, help, format string, args ...any) *Diagnostic {
	return l.Reportf(code, Note, at, help, format, args...)
}

// Relate adds a place that explains the diagnostic. It does nothing if d is nil or the place is not known.
func (d *Diagnostic) Relate(at source.Span, message string) *Diagnostic {
	if d != nil && !at.IsZero() {
		d.Related = append(d.Related, Related{Span: at, Message: message})
	}
	return d
}

// Errors reports whether the list contains an error.
func (l List) Errors() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Severity == Error })
}

// Count returns how many diagnostics have the severity.
func (l List) Count(s Severity) int {
	n := 0
	for _, d := range l {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// Strict returns the list as --strict reports it: warnings, and notes about leniency, become errors. Nothing else
// changes.
func (l List) Strict() List {
	out := slices.Clone(l)
	for i := range out {
		if out[i].Severity == Warning || out[i].Lenient {
			out[i].Severity = Error
		}
	}
	return out
}

// Sorted returns the list in the order of the text, by file, place and code, without exact repetitions.
func (l List) Sorted() List {
	out := slices.Clone(l)
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Span.File, b.Span.File),
			cmp.Compare(a.Span.Start, b.Span.Start),
			cmp.Compare(a.Span.End, b.Span.End),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(out, func(a, b Diagnostic) bool {
		return a.Code == b.Code && a.Span == b.Span && a.Message == b.Message
	})
}

// MaxPerFile is the maximum number of diagnostics of one file.
const MaxPerFile = 200

// Capped returns a sorted list with at most MaxPerFile diagnostics per file, and one more that reports how many were
// omitted. Its severity is the highest of those.
func (l List) Capped() List {
	var out List
	for begin := 0; begin < len(l); {
		end := begin
		for end < len(l) && l[end].Span.File == l[begin].Span.File {
			end++
		}
		kept := min(begin+MaxPerFile, end)
		out = append(out, l[begin:kept]...)
		if left := l[kept:end]; len(left) > 0 {
			worst := slices.MaxFunc(left, func(a, b Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
			out = append(out, Diagnostic{
				Severity: worst.Severity, Span: left[0].Span,
				Message: fmt.Sprintf("%d more problems in this file, from here on, are not shown.", len(left)),
				Help:    "Fix those above first.",
			})
		}
		begin = end
	}
	return out
}
