package talk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
)

// Form is what a reply has to be. The zero Form takes any text.
type Form struct {
	Schema  json.RawMessage // JSON Schema of the value
	Verdict bool            // an object whose "approved" is true or false
	Parts   []string        // an object that has at least these keys
	// Under is the key that a reply of plain text belongs under, when the
	// schema wants an object.
	Under string
	Plain bool // the text as it is, also when it looks like JSON
	// Check says what is wrong with a plain text; nil takes any.
	Check func(text string) []string
}

// strict reports whether a reply can be wrong.
func (f Form) strict() bool {
	return len(f.Schema) > 0 || f.Verdict || len(f.Parts) > 0 || f.Check != nil
}

// instructions tell a model about the form.
func (f Form) instructions() string {
	var out []string
	switch {
	case f.Verdict:
		out = append(out, `Answer with one JSON object and nothing else. Its "approved" must be true or false; put your reasons under "reason".`)
	case len(f.Parts) > 0:
		out = append(out, "Answer with one JSON object and nothing else. It must have these keys: "+quoted(f.Parts)+".")
	case len(f.Schema) > 0:
		out = append(out, "Answer with JSON and nothing else.")
	}
	if len(f.Schema) > 0 {
		out = append(out, "The JSON must satisfy this JSON Schema:\n"+string(f.Schema))
	}
	return strings.Join(out, "\n")
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

// reader reads replies of one form.
type reader struct {
	form   Form
	schema *schema.Schema
}

func newReader(f Form) (*reader, error) {
	r := &reader{form: f}
	if len(f.Schema) > 0 {
		s, err := schema.Compile(f.Schema)
		if err != nil {
			return nil, fmt.Errorf("the schema of the reply cannot be used: %w", err)
		}
		r.schema = s
	}
	return r, nil
}

// read finds the value in a reply's text, or says everything that is wrong.
// Only what needs no guessing is mended: fences, text around the JSON, and
// commas before a closing bracket.
func (r *reader) read(text string) (json.RawMessage, []string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, []string{"the reply is empty"}
	}
	switch {
	case r.form.Plain:
		if r.form.Check != nil {
			if problems := r.form.Check(text); len(problems) > 0 {
				return nil, problems
			}
		}
		return step.JSON(text), nil
	case !r.form.strict():
		return loose(text), nil
	}
	var first []string
	for candidate := range candidates(text) {
		problems := r.problems(candidate)
		if len(problems) == 0 {
			return candidate, nil
		}
		if first == nil {
			first = problems
		}
	}
	if r.schema != nil { // which may well ask for a text
		if value := step.JSON(text); len(r.problems(value)) == 0 {
			return value, nil
		}
		// Text that does not even try to be JSON; anything else would hide a mistake.
		if r.form.Under != "" && !strings.ContainsAny(text[:1], "{[`") && !strings.Contains(text, "```") {
			if value := step.JSON(map[string]string{r.form.Under: text}); len(r.problems(value)) == 0 {
				return value, nil
			}
		}
	}
	if first == nil {
		first = []string{"the reply is not JSON"}
	}
	return nil, first
}

// problems is everything in which a value misses the form.
func (r *reader) problems(value json.RawMessage) []string {
	var out []string
	var object map[string]json.RawMessage
	isObject := json.Unmarshal(value, &object) == nil && object != nil
	switch {
	case (r.form.Verdict || len(r.form.Parts) > 0) && !isObject:
		return []string{"the reply is not a JSON object"}
	case r.form.Verdict:
		if a := string(object["approved"]); a != "true" && a != "false" {
			out = append(out, `"approved" is not true or false`)
		}
	}
	for _, part := range r.form.Parts {
		if _, ok := object[part]; !ok {
			out = append(out, fmt.Sprintf("the key %q is missing", part))
		}
	}
	if r.schema != nil {
		found, err := r.schema.Check(value)
		if err != nil {
			return append(out, err.Error())
		}
		for _, p := range found {
			out = append(out, p.String())
		}
	}
	return out
}

// loose is the value of a reply that may be anything: an object or a list when
// the whole text is one, perhaps fenced as JSON; else the text.
func loose(text string) json.RawMessage {
	whole := text
	if info, body, ok := onlyFence(text); ok && strings.EqualFold(info, "json") {
		whole = body
	}
	if strings.HasPrefix(whole, "{") || strings.HasPrefix(whole, "[") {
		if value, ok := parse(whole); ok {
			return value
		}
	}
	return step.JSON(text)
}

// candidates are the places where JSON can be in a reply, the likeliest first:
// the whole text, fenced blocks, and objects and lists in running text.
func candidates(text string) func(yield func(json.RawMessage) bool) {
	return func(yield func(json.RawMessage) bool) {
		if value, ok := parse(text); ok && !yield(value) {
			return
		}
		for _, body := range fences(text) {
			if value, ok := parse(body); ok && !yield(value) {
				return
			}
		}
		const tries = 100 // a text of nothing but brackets must not cost for ever
		for rest, n := text, 0; n < tries; n++ {
			start := strings.IndexAny(rest, "{[")
			if start < 0 {
				return
			}
			rest = rest[start:]
			end := balanced(rest)
			value, ok := json.RawMessage(nil), false
			if end > 0 {
				value, ok = parse(rest[:end])
			}
			if !ok {
				rest = rest[1:]
				continue
			}
			if !yield(value) {
				return
			}
			rest = rest[end:]
		}
	}
}

// parse reads text that is one JSON value, but for commas too many.
func parse(text string) (json.RawMessage, bool) {
	for _, try := range []string{text, withoutTrailingCommas(text)} {
		var b bytes.Buffer
		if json.Compact(&b, []byte(try)) == nil && b.Len() > 0 {
			return b.Bytes(), true
		}
	}
	return nil, false
}

// balanced is the length of the object or list that text begins with, 0 when
// its brackets do not close.
func balanced(text string) int {
	depth := 0
	for i := range skipStrings(text) {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// withoutTrailingCommas leaves out commas that only space separates from a
// closing bracket.
func withoutTrailingCommas(text string) string {
	var drop []int
	comma := -1
	for i := range skipStrings(text) {
		switch text[i] {
		case ',':
			comma = i
		case '}', ']':
			if comma >= 0 {
				drop = append(drop, comma)
			}
			comma = -1
		case ' ', '\t', '\n', '\r':
		default:
			comma = -1
		}
	}
	if drop == nil {
		return text
	}
	var b strings.Builder
	last := 0
	for _, i := range drop {
		b.WriteString(text[last:i])
		last = i + 1
	}
	b.WriteString(text[last:])
	return b.String()
}

// skipStrings gives the positions of text outside of JSON strings, their
// opening quotes included.
func skipStrings(text string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < len(text); i++ {
			if !yield(i) {
				return
			}
			if text[i] != '"' {
				continue
			}
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
}

// fences are the bodies of the fenced blocks of a text, in order.
func fences(text string) []string {
	var out []string
	var body *strings.Builder
	for line := range strings.Lines(text) {
		fence := strings.HasPrefix(strings.TrimLeft(line, " \t"), "```")
		switch {
		case fence && body == nil:
			body = new(strings.Builder)
		case fence:
			out = append(out, strings.TrimSpace(body.String()))
			body = nil
		case body != nil:
			body.WriteString(line)
		}
	}
	return out
}

// onlyFence takes a text apart that is nothing but one fenced block.
func onlyFence(text string) (info, body string, ok bool) {
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return "", "", false
	}
	if inner, ok = strings.CutSuffix(inner, "```"); !ok {
		return "", "", false
	}
	info, body, ok = strings.Cut(inner, "\n")
	return strings.TrimSpace(info), strings.TrimSpace(body), ok && !strings.Contains(body, "```")
}
