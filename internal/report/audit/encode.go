package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/redact"
)

// How much of a value a record holds. A longer one is told by its size, its
// hash and its beginning; what a person decided on is kept nearly always.
const (
	someBytes   = 4 << 10
	shownBytes  = 1 << 20
	beginsBytes = 512
)

// fields are the data of a record, in any order.
type fields struct {
	rules    *redact.Rules
	list     []field
	redacted bool
}

type field struct {
	name  string
	value []byte // canonical JSON
}

func (f *fields) raw(name string, value []byte) { f.list = append(f.list, field{name, value}) }

// text is a name, an id or a code: our own word, never hidden.
func (f *fields) text(name, text string) {
	if text != "" {
		f.raw(name, canonical.AppendString(nil, strings.ToValidUTF8(text, "\uFFFD")))
	}
}

// says is what a person, a model or a program said.
func (f *fields) says(name, text string) {
	hidden, found := f.rules.Text(text)
	f.redacted = f.redacted || found
	f.text(name, hidden)
}

func (f *fields) number(name string, n int64) { f.raw(name, strconv.AppendInt(nil, n, 10)) }

// some is a number that is left out when it is 0.
func (f *fields) some(name string, n int64) {
	if n != 0 {
		f.number(name, n)
	}
}

func (f *fields) flag(name string, on bool) {
	if on {
		f.raw(name, []byte("true"))
	}
}

func (f *fields) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	b := []byte{'['}
	for i, one := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = canonical.AppendString(b, strings.ToValidUTF8(one, "\uFFFD"))
	}
	f.raw(name, append(b, ']'))
}

// actor is who did something: the user of the machine, and whom they claim to be.
func (f *fields) actor(by journal.Actor) {
	f.text("actor", by.User)
	f.text("actor_claimed", by.As)
}

// usage is what something cost.
func (f *fields) usage(prefix string, u journal.Usage) {
	f.number(prefix+"tokens", u.InputTokens+u.OutputTokens)
	f.number(prefix+"input_tokens", u.InputTokens)
	f.number(prefix+"output_tokens", u.OutputTokens)
	f.number(prefix+"model_calls", u.ModelCalls)
	f.number(prefix+"tool_calls", u.ToolCalls)
	f.number(prefix+"cost_micro_dollars", u.MicroDollars)
}

// value is content: hidden as the workflow asks, and cut at so many bytes.
func (f *fields) value(name string, raw json.RawMessage, most int) {
	if len(raw) > 0 {
		f.raw(name, shorten(f.content(raw), most))
	}
}

// values is an object of contents.
func (f *fields) values(name string, all map[string]json.RawMessage, most int) {
	inner := fields{rules: f.rules}
	for key, raw := range all {
		inner.value(key, raw, most)
	}
	f.redacted = f.redacted || inner.redacted
	f.raw(name, inner.append(nil))
}

func (f *fields) content(raw json.RawMessage) []byte {
	hidden, found, err := f.rules.JSON(raw)
	if err != nil { // it is not JSON: then it is a text
		text, some := f.rules.Text(strings.ToValidUTF8(string(raw), "\uFFFD"))
		f.redacted = f.redacted || some
		return canonical.AppendString(nil, text)
	}
	f.redacted = f.redacted || found
	return form(hidden)
}

// form is the canonical form of content. A number that a double does not hold
// exactly becomes a string, as the RFC advises: an audit changes no figures.
func form(raw json.RawMessage) []byte {
	if !longNumbers(raw) {
		if b, err := canonical.JSON(raw); err == nil {
			return b
		}
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	if in.Decode(&v) == nil {
		if plain, err := json.Marshal(exact(v)); err == nil {
			if b, err := canonical.JSON(plain); err == nil {
				return b
			}
		}
	}
	return canonical.AppendString(nil, strings.ToValidUTF8(string(raw), "\uFFFD"))
}

// longNumbers tells whether there may be a number that a double cannot hold:
// most values have none, and need not be taken apart.
func longNumbers(raw []byte) bool {
	n := 0
	for _, c := range raw {
		if c >= '0' && c <= '9' || c == '.' {
			if n++; n > 15 {
				return true
			}
		} else {
			n = 0
		}
	}
	return false
}

func exact(v any) any {
	switch x := v.(type) {
	case json.Number:
		if !canonical.Exact(x) {
			return string(x)
		}
	case []any:
		for i := range x {
			x[i] = exact(x[i])
		}
	case map[string]any:
		for key := range x {
			x[key] = exact(x[key])
		}
	}
	return v
}

// shorten tells a long value by its size, hash and beginning.
func shorten(value []byte, most int) []byte {
	if len(value) <= most {
		return value
	}
	begins := value[:beginsBytes]
	for len(begins) > 0 && !utf8.Valid(begins) {
		begins = begins[:len(begins)-1]
	}
	var f fields
	f.text("begins", string(begins))
	f.number("bytes", int64(len(value)))
	f.text("sha256", hash(value))
	return (&fields{list: []field{{"shortened", f.append(nil)}}}).append(nil)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// append writes the object.
func (f *fields) append(b []byte) []byte {
	slices.SortFunc(f.list, func(x, y field) int { return canonical.Compare(x.name, y.name) })
	b = append(b, '{')
	for i, one := range f.list {
		if i > 0 {
			b = append(b, ',')
		}
		b = canonical.AppendString(b, one.name)
		b = append(b, ':')
		b = append(b, one.value...)
	}
	return append(b, '}')
}

const timestamp = "2006-01-02T15:04:05.000Z07:00"

// appendRecord writes a line without its line feed, members in canonical order.
func appendRecord(b []byte, r *Record, at journal.Millis, data *fields) []byte {
	if data.redacted {
		data.flag("redacted", true)
	}
	member := func(name, value string) {
		if value != "" {
			b = append(b, ',')
			b = canonical.AppendString(b, name)
			b = append(b, ':')
			b = canonical.AppendString(b, value)
		}
	}
	b = append(b, `{"data":`...)
	b = data.append(b)
	member("event", r.Event)
	member("parent_run_id", r.ParentRunID)
	member("prev_hash", r.PrevHash)
	member("run_id", r.RunID)
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	member("step_id", r.StepID)
	member("timestamp", at.Time().Format(timestamp))
	member("trace_id", r.TraceID)
	return append(b, '}')
}
