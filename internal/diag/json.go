package diag

import (
	"encoding/json"
	"io"

	"github.com/espalier-run/espalier/internal/source"
)

// Report is the JSON form of a list. Its field names are stable, because scripts depend on them.
type Report struct {
	Diagnostics []ReportEntry `json:"diagnostics"`
	Errors      int           `json:"errors"`
	Warnings    int           `json:"warnings"`
	Notes       int           `json:"notes"`
}

// ReportEntry is one diagnostic of a Report. A diagnostic without a place has no file; if its file could not be read,
// it has no lines and columns.
type ReportEntry struct {
	Code     Code            `json:"code"`
	Severity Severity        `json:"severity"`
	File     string          `json:"file,omitempty"`
	Start    *ReportPlace    `json:"start,omitempty"`
	End      *ReportPlace    `json:"end,omitempty"`
	Message  string          `json:"message"`
	Help     string          `json:"help,omitempty"`
	Related  []ReportRelated `json:"related,omitempty"`
	Fixes    []ReportFix     `json:"fixes,omitempty"`
	Lenient  bool            `json:"lenient,omitempty"`
}

// ReportPlace is a position: line and column count from 1, columns in characters; the offset is in bytes from 0.
type ReportPlace struct {
	source.Position
	Offset int `json:"offset"`
}

// ReportRelated is another place that explains the first.
type ReportRelated struct {
	File    string       `json:"file,omitempty"`
	Start   *ReportPlace `json:"start,omitempty"`
	End     *ReportPlace `json:"end,omitempty"`
	Message string       `json:"message"`
}

// ReportFix is a change of the text that removes a diagnostic.
type ReportFix struct {
	Title string       `json:"title"`
	Edits []ReportEdit `json:"edits"`
}

// ReportEdit replaces the text between two places of a file.
type ReportEdit struct {
	File    string       `json:"file"`
	Start   *ReportPlace `json:"start"`
	End     *ReportPlace `json:"end"`
	NewText string       `json:"new_text"`
}

// NewReport returns the report of a list.
func NewReport(files source.Set, l List) Report {
	r := Report{
		Diagnostics: make([]ReportEntry, 0, len(l)),
		Errors:      l.Count(Error),
		Warnings:    l.Count(Warning),
		Notes:       l.Count(Note),
	}
	places := func(s source.Span) (start, end *ReportPlace) {
		f := files[s.File]
		if f == nil || s.IsZero() {
			return nil, nil
		}
		return &ReportPlace{f.Position(s.Start), s.Start}, &ReportPlace{f.Position(s.End), s.End}
	}
	for _, d := range l.Located(files) {
		e := ReportEntry{
			Code: d.Code, Severity: d.Severity, File: d.Span.File, Message: d.Message, Help: d.Help, Lenient: d.Lenient,
		}
		e.Start, e.End = places(d.Span)
		for _, other := range d.Related {
			related := ReportRelated{File: other.Span.File, Message: other.Message}
			related.Start, related.End = places(other.Span)
			e.Related = append(e.Related, related)
		}
		for _, fix := range d.Fixes {
			one := ReportFix{Title: fix.Title}
			for _, edit := range fix.Edits {
				start, end := places(edit.Span)
				one.Edits = append(one.Edits,
					ReportEdit{File: edit.Span.File, Start: start, End: end, NewText: edit.NewText})
			}
			e.Fixes = append(e.Fixes, one)
		}
		r.Diagnostics = append(r.Diagnostics, e)
	}
	return r
}

// List returns the diagnostics of a report. It is the inverse of NewReport for diagnostics that have places.
func (r Report) List() List {
	span := func(file string, start, end *ReportPlace) source.Span {
		s := source.Span{File: file}
		if start != nil && end != nil {
			s.Start, s.End = start.Offset, end.Offset
		}
		return s
	}
	var out List
	for i := range r.Diagnostics {
		e := &r.Diagnostics[i]
		d := Diagnostic{
			Code: e.Code, Severity: e.Severity, Span: span(e.File, e.Start, e.End), Message: e.Message, Help: e.Help,
			Lenient: e.Lenient,
		}
		for _, other := range e.Related {
			at := span(other.File, other.Start, other.End)
			d.Related = append(d.Related, Related{Span: at, Message: other.Message})
		}
		for _, fix := range e.Fixes {
			one := Fix{Title: fix.Title}
			for _, edit := range fix.Edits {
				one.Edits = append(one.Edits, Edit{Span: span(edit.File, edit.Start, edit.End), NewText: edit.NewText})
			}
			d.Fixes = append(d.Fixes, one)
		}
		out = append(out, d)
	}
	return out
}

func writeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
