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

// fields are the data of a record, in any order. Sorting is fastest when they
// are added in the order of their names.
type fields struct {
	rules    *redact.Rules
	list     []field
	values   []byte // canonical JSON, one after the other
	foreign  bool   // the names come from outside, and may need escapes
	redacted bool
}

// field is a member; its value is part of the values.
type field struct {
	name     string
	from, to int32
}

// reset prepares for the next record.
func (f *fields) reset(rules *redact.Rules) {
	if cap(f.values) > 4*someBytes { // do not keep the memory of a rare long value
		f.values = nil
	}
	f.rules, f.list, f.values, f.redacted = rules, f.list[:0], f.values[:0], false
}

// add adds a member; values are the values with that of the member at their end.
func (f *fields) add(name string, values []byte) {
	f.list = append(f.list, field{name, int32(len(f.values)), int32(len(values))})
	f.values = values
}

func (f *fields) raw(name, value string) { f.add(name, append(f.values, value...)) }

func (f *fields) object(name string, inner *fields) {
	f.redacted = f.redacted || inner.redacted
	f.add(name, inner.append(f.values))
}

// text adds a name, an id or a code, which is never redacted.
func (f *fields) text(name, text string) {
	if text != "" {
		f.add(name, appendText(f.values, text))
	}
}

func appendText(b []byte, text string) []byte {
	return canonical.AppendString(b, strings.ToValidUTF8(text, "\uFFFD"))
}

// says adds text of a person, a model or a program, which is redacted.
func (f *fields) says(name, text string) {
	hidden, found := f.rules.Text(text)
	f.redacted = f.redacted || found
	f.text(name, hidden)
}

func (f *fields) number(name string, n int64) { f.add(name, strconv.AppendInt(f.values, n, 10)) }

// some adds a number unless it is 0.
func (f *fields) some(name string, n int64) {
	if n != 0 {
		f.number(name, n)
	}
}

func (f *fields) flag(name string, on bool) {
	if on {
		f.raw(name, "true")
	}
}

func (f *fields) texts(name string, list []string) {
	textsOf(f, name, list, func(one *string) string { return *one })
}

// textsOf adds a list of names.
func textsOf[T any](f *fields, name string, list []T, text func(*T) string) {
	if len(list) == 0 {
		return
	}
	b := append(f.values, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, text(&list[i]))
	}
	f.add(name, append(b, ']'))
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
	f.some(prefix+"lost_cost_micro_dollars", u.Lost.MicroDollars)
	f.some(prefix+"lost_model_calls", u.Lost.ModelCalls)
	f.some(prefix+"lost_tokens", u.Lost.InputTokens+u.Lost.OutputTokens)
	f.some(prefix+"lost_tool_calls", u.Lost.ToolCalls)
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
	start := len(f.values)
	b := f.content(f.values, raw)
	if len(b)-start > most {
		b = appendShort(b[:start], bytes.Clone(b[start:]))
	}
	f.add(name, b)
}

// contents adds an object of contents.
func (f *fields) contents(name string, all map[string]json.RawMessage, most int) {
	inner := fields{rules: f.rules, foreign: true}
	for key, raw := range all {
		inner.value(key, raw, most)
	}
	f.object(name, &inner)
}

func (f *fields) content(b []byte, raw json.RawMessage) []byte {
	hidden, found, err := f.rules.JSON(raw)
	if err != nil { // it is not JSON, so it becomes text
		text, some := f.rules.Text(strings.ToValidUTF8(string(raw), "\uFFFD"))
		f.redacted = f.redacted || some
		return canonical.AppendString(b, text)
	}
	f.redacted = f.redacted || found
	return appendForm(b, hidden)
}

// appendForm appends the canonical form of content. A number that a double does
// not hold exactly becomes a string, as the RFC advises, so that no figure changes.
func appendForm(b []byte, raw json.RawMessage) []byte {
	if !longNumbers(raw) {
		if b, err := canonical.Append(b, raw); err == nil {
			return b
		}
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	if in.Decode(&v) == nil {
		if plain, err := json.Marshal(exact(v)); err == nil {
			if b, err := canonical.Append(b, plain); err == nil {
				return b
			}
		}
	}
	return appendText(b, string(raw))
}

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

// appendShort appends the size, the hash and the start of a long value.
func appendShort(b, value []byte) []byte {
	begins := value[:beginsBytes]
	for len(begins) > 0 && !utf8.Valid(begins) {
		begins = begins[:len(begins)-1]
	}
	var short, f fields
	f.text("begins", string(begins))
	f.number("bytes", int64(len(value)))
	f.text("sha256", hash(value))
	short.object("shortened", &f)
	return short.append(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// append appends the object.
func (f *fields) append(b []byte) []byte {
	slices.SortFunc(f.list, func(x, y field) int { return canonical.Compare(x.name, y.name) })
	b = append(b, '{')
	for i, one := range f.list {
		if i > 0 {
			b = append(b, ',')
		}
		if f.foreign {
			b = canonical.AppendString(b, one.name)
			b = append(b, ':')
		} else {
			b = append(b, '"')
			b = append(b, one.name...)
			b = append(b, `":`...)
		}
		b = append(b, f.values[one.from:one.to]...)
	}
	return append(b, '}')
}

// chain is what the records of a file share, and their current end. The shared
// members are three pieces, in the canonical order of the members.
type chain struct {
	before string // parent_run_id, and up to the hash
	middle string // run_id, and up to seq
	after  string // trace_id, and the end
	seq    int64
	prev   [2 * sha256.Size]byte // hash of the last record
}

func newChain(run, parent, trace journal.RunID) *chain {
	c := &chain{}
	copy(c.prev[:], Genesis)
	var b []byte
	if parent != "" {
		b = append(b, `,"parent_run_id":`...)
		b = canonical.AppendString(b, string(parent))
	}
	c.before = string(append(b, `,"prev_hash":"`...))
	b = append(b[:0], `","run_id":`...)
	b = canonical.AppendString(b, string(run))
	c.middle = string(append(b, `,"seq":`...))
	b = append(b[:0], `","trace_id":`...)
	b = canonical.AppendString(b, string(trace))
	c.after = string(append(b, '}'))
	return c
}

// append appends the next record, without a line feed.
func (c *chain) append(b []byte, event, step string, at journal.Millis, data *fields) []byte {
	if data.redacted {
		data.flag("redacted", true)
	}
	start := len(b)
	b = append(b, `{"data":`...)
	b = data.append(b)
	b = append(b, `,"event":"`...)
	b = append(b, event...) // needs no escapes
	b = append(b, '"')
	b = append(b, c.before...)
	b = append(b, c.prev[:]...)
	b = append(b, c.middle...)
	c.seq++
	b = strconv.AppendInt(b, c.seq, 10)
	if step != "" {
		b = append(b, `,"step_id":`...)
		b = canonical.AppendString(b, step)
	}
	b = append(b, `,"timestamp":"`...)
	b = report.AppendTime(b, at)
	b = append(b, c.after...)
	sum := sha256.Sum256(b[start:])
	hex.Encode(c.prev[:], sum[:])
	return b
}
