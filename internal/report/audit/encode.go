package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// How much of a value a record holds. A longer one is replaced by its size, its
// hash and its start; what a person decided on is nearly always complete.
const (
	someBytes   = 4 << 10
	shownBytes  = 1 << 20
	beginsBytes = 512
)

// fields are an object of a record, in canonical form.
type fields struct {
	rules    *redact.Rules
	members  []canonical.Member
	forms    []byte // of the values that were encoded here
	redacted bool
}

// reused are the fields of records, whose buffers serve again: a run makes several records a step.
var reused = sync.Pool{New: func() any {
	return &fields{members: make([]canonical.Member, 0, 16), forms: make([]byte, 0, 512)}
}}

// newFields returns an empty object, whose values are redacted by the rules.
func newFields(rules *redact.Rules) *fields {
	f := reused.Get().(*fields)
	*f = fields{rules: rules, members: f.members[:0], forms: f.forms[:0]}
	return f
}

// free lets others use the buffers. The fields must not be used anymore.
func (f *fields) free() { reused.Put(f) }

// set adds a member whose value is in canonical form.
func (f *fields) set(name string, form []byte) {
	f.members = append(f.members, canonical.Member{Name: name, Value: form})
}

// setLast sets a member to what was appended to forms.
func (f *fields) setLast(name string, forms []byte) {
	f.set(name, forms[len(f.forms):])
	f.forms = forms
}

// object adds an object and frees it.
func (f *fields) object(name string, inner *fields) {
	f.redacted = f.redacted || inner.redacted
	f.setLast(name, inner.append(f.forms))
	inner.free()
}

// append appends the canonical form of the object, in which the members are sorted.
func (f *fields) append(b []byte) []byte { return canonical.AppendObject(b, f.members) }

// text adds a name, an id or a code, which is never redacted.
func (f *fields) text(name, text string) {
	if text != "" {
		f.setLast(name, canonical.AppendString(f.forms, validText(text)))
	}
}

// validText replaces invalid UTF-8, several bytes in a row by one character.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// freeText adds text of a person, a model or a program, redacted.
func (f *fields) freeText(name, text string) {
	hidden, found := f.rules.Text(text)
	f.redacted = f.redacted || found
	f.text(name, hidden)
}

func (f *fields) number(name string, n int64) { f.setLast(name, canonical.AppendInt(f.forms, n)) }

// nonZero adds a number unless it is 0.
func (f *fields) nonZero(name string, n int64) {
	if n != 0 {
		f.number(name, n)
	}
}

// flag adds true, or nothing.
func (f *fields) flag(name string, on bool) {
	if on {
		f.set(name, []byte("true"))
	}
}

// texts adds a list of names, unless it is empty.
func (f *fields) texts(name string, list []string) {
	textsOf(f, name, list, func(one *string) string { return *one })
}

// textsOf adds a list of names.
func textsOf[T any](f *fields, name string, list []T, text func(*T) string) {
	if len(list) == 0 {
		return
	}
	setList(f, name, list, func(b []byte, one *T) []byte { return canonical.AppendString(b, validText(text(one))) })
}

// setList adds a list.
func setList[T any](f *fields, name string, list []T, item func([]byte, *T) []byte) {
	b := []byte{'['}
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, &list[i])
	}
	f.set(name, append(b, ']'))
}

// actor adds the user, the name that the user claims, and how a server has established the user. Without a server, the
// user is the account of the operating system.
func (f *fields) actor(by journal.Actor) {
	f.text("actor", by.User)
	f.text("actor_claimed", by.As)
	f.text(actorMethod, by.Method)
}

// usage adds tokens, calls and cost.
func (f *fields) usage(prefix string, u journal.Usage) {
	f.number(prefix+"cost_micro_dollars", u.MicroDollars)
	f.number(prefix+"input_tokens", u.InputTokens)
	f.nonZero(prefix+"lost_cost_micro_dollars", u.Lost.MicroDollars)
	f.nonZero(prefix+"lost_model_calls", u.Lost.ModelCalls)
	f.nonZero(prefix+"lost_tokens", u.Lost.InputTokens+u.Lost.OutputTokens)
	f.nonZero(prefix+"lost_tool_calls", u.Lost.ToolCalls)
	f.number(prefix+"model_calls", u.ModelCalls)
	f.number(prefix+"output_tokens", u.OutputTokens)
	f.number(prefix+"tokens", u.InputTokens+u.OutputTokens)
	f.number(prefix+"tool_calls", u.ToolCalls)
}

// value adds content: redacted, and shortened if it is longer than most bytes.
func (f *fields) value(name string, raw json.RawMessage, most int) {
	if len(raw) == 0 {
		return
	}
	form := f.content(raw)
	if len(form) > most {
		form = shortened(form)
	}
	f.set(name, form)
}

// content returns a value redacted and in canonical form.
func (f *fields) content(raw json.RawMessage) json.RawMessage {
	hidden, found, err := f.rules.JSON(raw)
	if err != nil { // it is not JSON, so it becomes text
		text, some := f.rules.Text(validText(string(raw)))
		f.redacted = f.redacted || some
		return textForm(text)
	}
	f.redacted = f.redacted || found
	return canonicalForm(hidden)
}

// canonicalForm returns the canonical form of content. A number that a double does
// not hold exactly becomes a string, as the RFC advises, so that no figure changes.
func canonicalForm(raw json.RawMessage) json.RawMessage {
	if !longNumbers(raw) {
		if form, err := canonical.JSON(raw); err == nil {
			return form
		}
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	if in.Decode(&v) == nil {
		if plain, err := json.Marshal(exact(v)); err == nil {
			if form, err := canonical.JSON(plain); err == nil {
				return form
			}
		}
	}
	return textForm(string(raw))
}

// textForm returns the canonical form of a text.
func textForm(text string) json.RawMessage { return canonical.AppendString(nil, validText(text)) }

// longNumbers reports whether there may be a number that a double cannot hold.
// Most values have none, and need not be decoded.
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

// exact replaces the numbers that a double does not hold exactly by strings, in place.
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

// shortened returns the size, the hash and the start of a long value.
func shortened(value []byte) json.RawMessage {
	begins := value[:beginsBytes]
	for len(begins) > 0 && !utf8.Valid(begins) {
		begins = begins[:len(begins)-1]
	}
	about, all := newFields(nil), newFields(nil)
	about.text("begins", string(begins))
	about.number("bytes", int64(len(value)))
	about.text("sha256", hash(value))
	all.object("shortened", about)
	return all.append(nil)
}

// hash returns the SHA-256 of a text in hexadecimal.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// chain is what the records of a file share, and their current end.
type chain struct {
	run, parent, trace journal.RunID
	seq                int64
	prev               string // hash of the last record
}

// appendNext appends the next record, without a line feed. Its members are those of Record.
func (c *chain) appendNext(b []byte, event, step string, at journal.Millis, data *fields) []byte {
	if data.redacted {
		data.flag("redacted", true)
	}
	start := len(b)
	b = append(b, `{"data":`...)
	b = data.append(b)
	member := func(name, text string) { // in the order of names
		if text != "" {
			b = append(append(append(b, `,"`...), name...), `":`...)
			b = canonical.AppendString(b, validText(text))
		}
	}
	member("event", event)
	member("parent_run_id", string(c.parent))
	member("prev_hash", c.prev)
	member("run_id", string(c.run))
	b = canonical.AppendInt(append(b, `,"seq":`...), c.seq+1)
	member("step_id", step)
	b = append(report.AppendTime(append(b, `,"timestamp":"`...), at), '"')
	member("trace_id", string(c.trace))
	b = append(b, '}')
	c.seq, c.prev = c.seq+1, hash(b[start:])
	return b
}
