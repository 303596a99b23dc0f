package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The form of a stored batch is one JSON object per event and line:
//
//	{"q":seq,"t":millis,"r":"child run","k":"TaskStarted","d":{…}}
//
// "r" is left out when it is empty. Facts that a run records at every step
// are written by hand, several times faster than by reflection and with the
// same bytes (a test compares them); the others go through encoding/json.

// Encode appends events to dst, a line for each.
func Encode(dst []byte, events []Event) ([]byte, error) {
	for i := range events {
		e := &events[i]
		dst = append(dst, `{"q":`...)
		dst = strconv.AppendInt(dst, int64(e.Seq), 10)
		dst = append(dst, `,"t":`...)
		dst = strconv.AppendInt(dst, int64(e.At), 10)
		if e.Run != "" {
			dst = append(dst, `,"r":`...)
			dst = appendString(dst, string(e.Run))
		}
		dst = append(dst, `,"k":"`...)
		if e.Fact == nil {
			return dst, fmt.Errorf("%w: event %d has no fact", ErrInvalid, e.Seq)
		}
		dst = append(dst, e.Fact.factName()...)
		dst = append(dst, `","d":`...)
		var err error
		if dst, err = appendFact(dst, e.Fact); err != nil {
			return dst, fmt.Errorf("%w: event %d: %s: %w", ErrInvalid, e.Seq, e.Fact.factName(), err)
		}
		dst = append(dst, "}\n"...)
	}
	return dst, nil
}

func appendFact(b []byte, fact Fact) ([]byte, error) {
	o := object{b: append(b, '{')}
	switch f := fact.(type) {
	case TaskStarted:
		o.work(&f.Work)
		o.text("kind", f.Kind)
		o.someInt("rerun", int64(f.Rerun))
		o.intPointer("via", f.Via)
		o.someText("for", f.For)
		o.someTexts("missing", f.MissingReads)
	case TaskEnded:
		o.work(&f.Work)
		o.text("outcome", f.Outcome)
		o.someText("class", f.Class)
		o.someText("error", f.Error)
		o.someValue("value", &f.Value)
		o.someWrites("writes", f.Writes)
		o.someUsage("usage", &f.Usage)
		o.someBool("final", f.Final)
	case FrameOpened:
		o.text("f", f.Frame)
		o.someText("parent", f.Parent)
		o.text("s", f.Step)
		o.someText("program", f.Program)
		o.someInt("b", int64(f.Block))
		o.someInt("i", int64(f.Index))
		o.someText("name", f.Name)
		o.someVars("vars", f.Vars)
		o.someText("child", string(f.Child))
		o.someLimits("budget", f.Budget)
	case FrameClosed:
		o.text("f", f.Frame)
		o.text("outcome", f.Outcome)
		o.someText("to", f.To)
		o.someText("class", f.Class)
		o.someText("reason", f.Reason)
		o.someText("error", f.Error)
		o.someValue("value", &f.Value)
		o.someInt("status", int64(f.Status))
		o.someText("s", f.Step)
	case StepEntered:
		o.place(&f.Place)
		o.text("mode", f.Mode)
		o.someInt("total", int64(f.Total))
		o.someInt("max", int64(f.Max))
		o.someValue("items", &f.Items)
		o.intPointer("via", f.Via)
		o.someText("for", f.For)
	case StepLeft:
		o.place(&f.Place)
		o.text("outcome", f.Outcome)
		o.someText("class", f.Class)
		o.someText("reason", f.Reason)
		o.someText("error", f.Error)
		o.someValue("value", &f.Value)
		o.someWrites("writes", f.Writes)
		o.someBool("merge", f.Merge)
		o.someText("to", f.To)
		o.intPointer("via", f.Via)
		o.someText("for", f.For)
	case TaskNoted:
		o.work(&f.Work)
		o.int("n", int64(f.N))
		o.text("kind", f.Kind)
		o.someRaw("data", f.Data)
		o.someInt("settles", int64(f.Settles))
		o.someUsage("usage", &f.Usage)
	case Reserved:
		o.work(&f.Work)
		o.int("n", int64(f.N))
		o.usage("amount", &f.Amount)
	case RetrySet:
		o.work(&f.Work)
		o.int("due", int64(f.Due))
	case RunStarted, RunFinished, TaskLost, BudgetWait, BudgetRaised, TimerFired, GateOpened, GateDecided,
		InputRefused, CancelRequested, Paused, Continued, StateEdited, Claimed:
		return appendReflected(b, fact)
	default:
		return b, fmt.Errorf("%T is not a fact that can be stored", fact)
	}
	return append(o.b, '}'), o.err
}

// appendReflected is the way of encoding/json, without its escapes for HTML.
func appendReflected(b []byte, fact Fact) ([]byte, error) {
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fact); err != nil {
		return b, err
	}
	return bytes.TrimSuffix(w.Bytes(), []byte("\n")), nil
}

// object is a JSON object in the making. Methods called some… leave the
// member out when it is empty, as omitempty and omitzero do.
type object struct {
	b   []byte
	err error
}

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, s string) {
	o.key(name)
	o.b = appendString(o.b, s)
}

func (o *object) someText(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) int(name string, n int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) someInt(name string, n int64) {
	if n != 0 {
		o.int(name, n)
	}
}

func (o *object) intPointer(name string, n *int) {
	if n != nil {
		o.int(name, int64(*n))
	}
}

func (o *object) int64Pointer(name string, n *int64) {
	if n != nil {
		o.int(name, *n)
	}
}

func (o *object) someBool(name string, v bool) {
	if v {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) someRaw(name string, raw json.RawMessage) {
	if len(raw) > 0 {
		o.key(name)
		o.b, o.err = appendRaw(o.b, raw, o.err)
	}
}

func (o *object) someTexts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '[')
	for i, s := range list {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, s)
	}
	o.b = append(o.b, ']')
}

func (o *object) place(p *Place) {
	o.someText("f", p.Frame)
	o.text("s", p.Step)
	o.someInt("v", int64(p.Visit))
}

func (o *object) work(w *Work) {
	o.place(&w.Place)
	o.someText("p", w.Part)
	o.someInt("a", int64(w.Attempt))
}

func (o *object) value(name string, v *Value) {
	o.key(name)
	o.b = append(o.b, '{')
	o.someRaw("j", v.JSON)
	o.someText("h", v.Hash)
	o.someInt("n", int64(v.Size))
	o.b = append(o.b, '}')
}

func (o *object) someValue(name string, v *Value) {
	if !v.IsZero() {
		o.value(name, v)
	}
}

func (o *object) usage(name string, u *Usage) {
	o.key(name)
	o.b = append(o.b, '{')
	o.someInt("steps", u.Steps)
	o.someInt("model_calls", u.ModelCalls)
	o.someInt("tool_calls", u.ToolCalls)
	o.someInt("input_tokens", u.InputTokens)
	o.someInt("output_tokens", u.OutputTokens)
	o.someInt("micro_dollars", u.MicroDollars)
	o.b = append(o.b, '}')
}

func (o *object) someUsage(name string, u *Usage) {
	if *u != (Usage{}) {
		o.usage(name, u)
	}
}

func (o *object) someWrites(name string, writes []Write) {
	if len(writes) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '[')
	for i := range writes {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.text("path", writes[i].Path)
		o.someText("part", writes[i].Part)
		o.someText("reducer", writes[i].Reducer)
		o.someText("under", writes[i].Under)
		o.someBool("as_list", writes[i].AsList)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
}

func (o *object) someVars(name string, vars map[string]Value) {
	if len(vars) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '{')
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if o.b[len(o.b)-1] != '{' {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, k)
		o.b = append(o.b, ':', '{')
		v := vars[k]
		o.someRaw("j", v.JSON)
		o.someText("h", v.Hash)
		o.someInt("n", int64(v.Size))
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, '}')
}

func (o *object) someLimits(name string, l *Limits) {
	if l == nil {
		return
	}
	o.key(name)
	o.b = append(o.b, '{')
	o.int64Pointer("steps", l.Steps)
	o.int64Pointer("tool_calls", l.ToolCalls)
	o.int64Pointer("tokens", l.Tokens)
	o.int64Pointer("active_seconds", l.ActiveSeconds)
	o.int64Pointer("micro_dollars", l.MicroDollars)
	o.b = append(o.b, '}')
}

// appendRaw copies JSON without the space between its tokens, so that a line
// stays a line. JSON that is none is refused here: stored, it would make the
// whole run unreadable.
func appendRaw(b []byte, raw json.RawMessage, err error) ([]byte, error) {
	if err != nil {
		return b, err
	}
	if !json.Valid(raw) {
		return b, fmt.Errorf("%.40q is not JSON", raw)
	}
	start, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case c <= ' ' && !quoted:
			b = append(b, raw[start:i]...)
			start = i + 1
		}
	}
	return append(b, raw[start:]...), nil
}

const hexDigits = "0123456789abcdef"

// appendString quotes s with the escapes of encoding/json: controls, quotes
// and backslashes, the two line separators that JavaScript minds, and the
// replacement character for bytes that are not UTF-8.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, `\b`...)
			case '\f':
				b = append(b, `\f`...)
			case '\n':
				b = append(b, `\n`...)
			case '\r':
				b = append(b, `\r`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = append(b, `\u00`...)
				b = append(b, hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, s[start:i]...)
			b = append(b, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(b, s[start:i]...)
			b = append(b, `\u202`...)
			b = append(b, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
