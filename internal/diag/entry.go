package diag

import (
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
)

// Entry is the place of an entry of a map or list in a file, in YAML or JSON of any style. Its spans may leave out the
// quotes around a key or a value.
type Entry struct {
	In         source.Span // the map or list
	Key, Value source.Span // Key is zero in a list
	// Previous is the value of the entry before this one, and Next the key, or value in a list, of the entry after it.
	// They are zero if there is none.
	Previous, Next source.Span
}

// RemoveEntry adds a fix that removes an entry. what names it in the title. Located drops the fix if the entry cannot
// be removed without changing something else, such as a comment or the type of the map. It does nothing if d is nil.
func (d *Diagnostic) RemoveEntry(what string, e Entry) {
	if d != nil && !e.Value.IsZero() {
		d.Fixes = append(d.Fixes, Fix{
			Title: "Remove " + what, Edits: []Edit{{Span: e.Value, resolve: e.removal}},
		})
	}
}

// AddEntry adds a fix that adds a key with a value to a map, before an entry of it. The value is a plain text of YAML
// or a text in double quotes. Located drops the fix if the place is uncertain. It does nothing if d is nil.
func (d *Diagnostic) AddEntry(before Entry, key, value string) {
	if d != nil && !before.Key.IsZero() {
		d.Fixes = append(d.Fixes, Fix{
			Title: "Add " + strconv.Quote(key+": "+value),
			Edits: []Edit{{Span: before.Key, resolve: func(text string, _ *Edit) (Edit, bool) {
				return before.addition(text, key, value)
			}}},
		})
	}
}

var (
	// valueStart is what separates a key from its value.
	valueStart = lazyregexp.New(`^[ \t]*:[ \t\r\n]*([|>][-+0-9]*[ \t]*\r?\n[ \t\r\n]*)?$`)
	flowGap    = lazyregexp.New(`^\s*,\s*$`)
	// itemGap separates the entries of a block list.
	itemGap = lazyregexp.New(`^[ \t]*\r?\n[ \t\r\n]*- +$`)
	keyLead = lazyregexp.New(`^ *(- +)*$`)
	comment = lazyregexp.New(`(^|\s)#`)
	anchor  = lazyregexp.New(`(?m)(^|[\s\[{,])&[A-Za-z0-9_]`)
	alias   = lazyregexp.New(`(?m)(^|[\s\[{,])\*[A-Za-z0-9_]`)
)

// repeats reports whether the text may have aliases: a change of a value may change other places, too.
func repeats(text string) bool { return anchor().MatchString(text) && alias().MatchString(text) }

// inFile reports whether a span is in a text.
func inFile(text string, at source.Span) bool {
	return 0 <= at.Start && at.Start <= at.End && at.End <= len(text)
}

// quotedAt returns the bounds of a key or value with its quotes. A value may begin with its quote already, and may
// then be cut off.
func quotedAt(text string, at source.Span) (start, end int) {
	start, end = at.Start, at.End
	if start > 0 && end < len(text) && isQuote(text[start-1]) && text[end] == text[start-1] {
		return start - 1, end + 1
	}
	if start == end || !isQuote(text[start]) {
		return start, end
	}
	for i := start + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[start] == '"':
			i++
		case text[i] != text[start]:
		case text[i] == '\'' && strings.HasPrefix(text[i+1:], "'"):
			i++
		default:
			return start, i + 1
		}
	}
	return start, len(text)
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

// bounds returns where the entry is, without what separates it from others.
func (e Entry) bounds(text string) (start, end int, ok bool) {
	start, end = quotedAt(text, e.Value)
	if e.Key.IsZero() {
		lead := strings.TrimRight(text[:start], " \t\r\n") // ends otherwise if the value has a tag or an anchor
		return start, end, lead != "" && strings.IndexByte("-[,", lead[len(lead)-1]) >= 0
	}
	keyStart, keyEnd := quotedAt(text, e.Key)
	if start < keyEnd { // the value of an alias is elsewhere
		return 0, 0, false
	}
	lead := text[keyEnd:start]
	if e.Value.Start == e.Value.End && start == end { // nothing
		line, _, _ := strings.Cut(text[keyEnd:], "\n")
		colon := strings.IndexByte(line, ':')
		if colon < 0 || strings.Trim(line[:colon], " \t") != "" {
			return 0, 0, false
		}
		return keyStart, keyEnd + colon + 1, true
	}
	if strings.ContainsAny(lead, "|>") { // the text may begin with a quotation mark
		end = e.Value.End
	}
	return keyStart, end, valueStart().MatchString(lead)
}

// removal resolves the edit of RemoveEntry.
func (e Entry) removal(text string, at *Edit) (Edit, bool) {
	for _, span := range [...]source.Span{e.In, e.Key, e.Value, e.Previous, e.Next} {
		if !inFile(text, span) {
			return Edit{}, false
		}
	}
	start, end, ok := e.bounds(text)
	if !ok || repeats(text) || start < e.In.Start {
		return Edit{}, false
	}
	start, end, ok = e.withSeparator(text, start, end)
	if !ok || comment().MatchString(text[start:end]) {
		return Edit{}, false
	}
	return Edit{Span: source.Span{File: at.Span.File, Start: start, End: end}}, true
}

// withSeparator extends the bounds of an entry by what separates it from another one.
func (e Entry) withSeparator(text string, start, end int) (from, to int, ok bool) {
	next, previous := -1, -1
	if !e.Next.IsZero() {
		next, _ = quotedAt(text, e.Next)
	}
	if !e.Previous.IsZero() {
		_, previous = quotedAt(text, e.Previous)
	}
	flow := e.In.Start < start && (text[e.In.Start] == '{' || text[e.In.Start] == '[')
	switch {
	case next >= end && flowGap().MatchString(text[end:next]):
		return start, next, true
	case previous >= 0 && previous <= start && flowGap().MatchString(text[previous:start]):
		return previous, end, true
	case flow:
		closes := strings.HasPrefix(strings.TrimLeft(text[end:], " \t\r\n"), "}")
		return start, end, next < 0 && previous < 0 && closes && !e.Key.IsZero()
	case next < 0 && previous < 0:
		return 0, 0, false // what remains would not be a map or a list
	case e.Key.IsZero():
		if next >= end && itemGap().MatchString(text[end:next]) {
			return start, next, true
		}
		line, _, _ := strings.Cut(text[end:], "\n")
		return previous, end, strings.TrimSpace(line) == "" && previous >= 0 && previous <= start &&
			itemGap().MatchString(text[previous:start])
	}
	line := strings.LastIndexByte(text[:start], '\n') + 1
	behind := end
	if end == 0 || text[end-1] != '\n' {
		behind = len(text)
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			behind = end + i + 1
		}
	}
	if strings.Trim(text[end:behind], " \t\r\n") != "" {
		return 0, 0, false
	}
	if strings.Trim(text[line:start], " ") == "" {
		return line, behind, true
	}
	if next >= end && keyLead().MatchString(text[line:start]) && strings.TrimSpace(text[end:next]) == "" {
		return start, next, true // the first key of an entry of a list
	}
	return 0, 0, false
}

// addition resolves the edit of AddEntry.
func (e Entry) addition(text, key, value string) (Edit, bool) {
	if !inFile(text, e.Key) || !inFile(text, e.In) || repeats(text) {
		return Edit{}, false
	}
	start, _ := quotedAt(text, e.Key)
	out := Edit{Span: source.Span{File: e.Key.File, Start: start, End: start}}
	if start < e.In.Start {
		return Edit{}, false
	}
	if e.In.Start < start && text[e.In.Start] == '{' {
		if text[start] == '"' {
			key = strconv.Quote(key)
			if value != "true" && value != "false" && value[0] != '"' && !source.IsJSONNumber(value) {
				value = strconv.Quote(value)
			}
		}
		gap := " "
		if lead := text[e.In.Start+1 : start]; strings.Contains(lead, "\n") && strings.TrimSpace(lead) == "" {
			gap = lead
		}
		out.NewText = key + ": " + value + "," + gap
		return out, true
	}
	line := strings.LastIndexByte(text[:start], '\n') + 1
	if !keyLead().MatchString(text[line:start]) {
		return Edit{}, false
	}
	lineEnd := "\n"
	if first := strings.IndexByte(text, '\n'); first > 0 && text[first-1] == '\r' {
		lineEnd = "\r\n"
	}
	out.NewText = key + ": " + value + lineEnd + strings.Repeat(" ", start-line)
	return out, true
}
