package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
)

// Form describes valid replies. The zero Form accepts any text.
type Form struct {
	contract.Contract
	Plain bool // the reply is text, even if it looks like JSON
	// LastFence selects the last of several fenced blocks instead of the first.
	LastFence bool
	// Check returns the problems of a plain text; nil accepts any.
	Check func(text string) []string
	// Accept accepts values that the contract does not describe; nil accepts none.
	Accept func(value json.RawMessage) bool
}

// strict reports whether a reply can be invalid.
func (f *Form) strict() bool { return f.Check != nil || f.Strict() }

// reader parses replies of one form.
type reader struct {
	form   Form
	schema *schema.Schema
}

// newReader compiles the schema of a form.
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

// read returns the value in a reply's text, or all its problems. It repairs only what is unambiguous: a problem costs
// another call, while a wrong value would enter the run unnoticed.
//
// It looks in this order: an option where any text is allowed; the text itself if the form asks for text or for
// nothing; the content of elements that models put answers into; the whole text; and, for verdicts, words that approve
// or reject.
func (r *reader) read(text string) (json.RawMessage, []string) {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\ufeff")) // a byte order mark
	if text == "" {
		return nil, []string{"the reply is empty"}
	}
	said := withoutReasoning(text)
	if value, ok := r.chosen(said); ok {
		return value, nil
	}
	switch {
	case r.form.Plain:
		if r.form.Check != nil {
			if problems := r.form.Check(text); len(problems) > 0 {
				return nil, problems
			}
		}
		return step.JSON(text), nil
	case r.schema == nil && r.form.Data:
		return parseUntyped(text), nil
	case r.schema == nil:
		return step.JSON(text), nil
	}
	root := target(r.schema.Root())
	if slices.Equal(root.Types, []string{"string"}) {
		return r.readValue(text, root) // JSON inside a text belongs to the text
	}
	answers := elements(said, func(name string) bool {
		return slices.Contains(answerTags, name) || r.form.Name != "" && name == plainKey(r.form.Name)
	})
	if inner, ok := onlyElement(said); ok && len(answers) == 0 && !wants(root, "object") && !wants(root, "array") {
		answers = []string{inner} // the name of the element does not matter
	}
	var values []json.RawMessage
	for _, answer := range answers {
		if value, problems := r.readValue(answer, root); len(problems) == 0 {
			values = append(values, value)
		}
	}
	if len(values) > 0 {
		return only(values)
	}
	value, problems := r.readValue(said, root)
	if len(problems) > 0 && r.form.Verdict {
		if verdict, ok := r.verdict(said); ok {
			return verdict, nil
		}
	}
	return value, problems
}

// readValue returns the value in a text, or the problems of the likeliest candidate. It tries the forms in which models
// write values, the strictest first: XML elements or lines for properties, JSON anywhere in the text, several objects,
// a list or a table in Markdown, a single word or number, and at last text for the property that takes any.
func (r *reader) readValue(text string, root *schema.Node) (json.RawMessage, []string) {
	if object, ok := keyedElements(text, root); ok {
		if value := r.repaired(step.JSON(object)); len(r.problems(value)) == 0 {
			return value, nil
		}
	}
	object, first, isListed := listed(text, root)
	if isListed && first == nil {
		value := r.repaired(step.JSON(object))
		if first = r.problems(value); len(first) == 0 {
			return value, nil
		}
	}
	look := candidates(text, r.form.LastFence, !isListed) // the objects in a list of properties are values of these
	if slices.Equal(root.Types, []string{"string"}) {
		look = onlyWhole(text)
	}
	// Within a tier, all candidates that fit have to be the same value.
	for tier := range look {
		var values []json.RawMessage
		for _, candidate := range tier {
			value, problems := candidate, unusable(candidate)
			if len(problems) == 0 {
				value = r.repaired(candidate)
				problems = r.problems(value)
			}
			if len(problems) == 0 {
				values = append(values, value)
			} else if first == nil {
				first = problems
			}
		}
		if len(values) > 0 {
			return only(values)
		}
	}
	for _, find := range []func(string, *schema.Node) (json.RawMessage, bool){parseLines, parseBullets, parseTable} {
		if found, ok := find(text, root); ok {
			if value := r.repaired(found); len(r.problems(value)) == 0 {
				return value, nil
			}
		}
	}
	fits := len(r.problems(step.JSON(text))) == 0 // the schema may ask for a text
	if problem := brokenJSON(text); first == nil && problem != "" && !fits {
		return nil, []string{"the reply cannot be read as " + r.form.String() + ": " + problem}
	}
	if v, ok := scalar(text, root); ok {
		return step.JSON(v), nil
	}
	if name, only := onlyProperty(root); name != "" && !strings.ContainsAny(text, "{[") {
		if v, ok := scalar(text, only); ok {
			return step.JSON(map[string]any{name: v}), nil
		}
	}
	if fits {
		return step.JSON(text), nil
	}
	// Text that does not even try to be an object; anything else would hide a mistake.
	if r.form.Under != "" && !isListed && !strings.ContainsAny(text[:1], "{[`") && !strings.Contains(text, "```") {
		if value := step.JSON(map[string]string{r.form.Under: text}); len(r.problems(value)) == 0 {
			return value, nil
		}
	}
	if first == nil {
		first = []string{"the reply cannot be read as " + r.form.String()}
	}
	return nil, first
}

// unusable returns the problems of JSON that is ambiguous: keys with two different values, and numbers that are
// too large.
func unusable(value json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var out []string
	var walk func() string // returns the value as canonical text
	// Tokens and not a decoded value, because decoding keeps only the last of several equal keys.
	walk = func() string {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case json.Number:
			if _, err := t.Float64(); err != nil {
				out = append(out, fmt.Sprintf("the number %s is too large", t))
			}
			return t.String()
		case json.Delim:
			var text strings.Builder
			text.WriteRune(rune(t))
			seen := map[string]string{}
			for d.More() {
				if t == '[' {
					text.WriteString(walk() + ",")
					continue
				}
				key, err := d.Token()
				if err != nil {
					return ""
				}
				name, _ := key.(string) // the keys of an object are strings
				one := walk()
				if before, twice := seen[name]; twice && before != one {
					out = append(out, fmt.Sprintf("the key %q has two different values; give only one", name))
				}
				seen[name] = one
				text.WriteString(strconv.Quote(name) + ":" + one + ",")
			}
			_, _ = d.Token() // the closing bracket
			return text.String() + "end"
		}
		return fmt.Sprintf("%T %v", token, token)
	}
	walk()
	return out
}

// distinct returns values without repetitions.
func distinct(values []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, v := range values {
		if !slices.ContainsFunc(out, func(o json.RawMessage) bool { return bytes.Equal(o, v) }) {
			out = append(out, v)
		}
	}
	return out
}

// only returns the one value that a reply contains, perhaps several times, or reports that there are several.
func only(values []json.RawMessage) (json.RawMessage, []string) {
	if values = distinct(values); len(values) > 1 {
		return nil, []string{fmt.Sprintf("the reply contains %d different answers; give only one", len(values))}
	}
	return values[0], nil
}

// chosen returns the option that a reply names, where other replies are allowed.
func (r *reader) chosen(text string) (json.RawMessage, bool) {
	for _, d := range r.form.Choices {
		if d.At != "" || !d.Open {
			continue
		}
		texts := []string{text}
		for tier := range candidates(text, r.form.LastFence, true) {
			if tier = distinct(tier); len(tier) > 1 || len(unusable(tier[0])) > 0 {
				return nil, false
			}
			texts = textsIn(r.repaired(tier[0]))
			break
		}
		var found []any
		for _, text := range texts {
			if v, ok := optionOf(&d, text, len(texts) == 1); ok && !slices.Contains(found, v) {
				found = append(found, v)
			}
		}
		if len(found) == 1 {
			return step.JSON(found[0]), true
		}
	}
	return nil, false
}

// textsIn returns a text or a number, or those of an object.
func textsIn(value json.RawMessage) []string {
	scalarText := func(raw json.RawMessage) (string, bool) {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text, true
		}
		var number json.Number
		return string(raw), json.Unmarshal(raw, &number) == nil
	}
	if text, ok := scalarText(value); ok {
		return []string{text}
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(value, &object) // other values have no texts
	var out []string
	for _, one := range object {
		if text, ok := scalarText(one); ok {
			out = append(out, text)
		}
	}
	return out
}

// maxMentionWords is how many words a reply has at most if an option anywhere in it counts, although other replies are
// allowed. Longer replies are texts of their own.
const maxMentionWords = 20

// optionOf finds the option of a decision that a text names, or, with mention, has as one of its words.
func optionOf(d *contract.Decision, text string, mention bool) (any, bool) {
	var values []any
	for _, o := range d.Options {
		if v, err := schema.Decode(o.Value); err == nil && o.Contained == "" {
			switch v.(type) {
			case string, json.Number, bool:
				values = append(values, v)
			}
		}
	}
	v, ok := findValue(text, func(s string) (any, bool) { return option(s, values) }, true)
	if !ok && mention && len(strings.Fields(text)) <= maxMentionWords {
		return mentioned(text, values)
	}
	return v, ok
}

// choose replaces texts inside a value that name an option of a decision by the option.
func (r *reader) choose(v any) {
	for i := range r.form.Choices {
		d := &r.form.Choices[i]
		if d.At == "" || !d.Open {
			continue
		}
		path := strings.Split(d.At, ".")
		object, _ := v.(map[string]any)
		for _, name := range path[:len(path)-1] {
			object, _ = object[name].(map[string]any)
		}
		last := path[len(path)-1]
		if text, ok := object[last].(string); ok {
			if o, ok := optionOf(d, text, true); ok {
				object[last] = o
			}
		}
	}
}

// repaired returns a value converted to the schema, as far as possible.
func (r *reader) repaired(value json.RawMessage) json.RawMessage {
	v, err := schema.Decode(value)
	if r.schema == nil || err != nil || r.form.Accept != nil && r.form.Accept(value) {
		return value
	}
	before := step.JSON(v)
	v = repair(v, r.schema.Root(), r.form.Name)
	r.choose(v)
	if after := step.JSON(v); !bytes.Equal(before, after) {
		return after
	}
	return value // with its keys in their order
}

// problems returns all differences between a value and the form.
func (r *reader) problems(value json.RawMessage) []string {
	if r.schema == nil || r.form.Accept != nil && r.form.Accept(value) {
		return nil
	}
	found, err := r.schema.Check(value)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, p := range found {
		if p.Path == "" {
			p.Message = "the reply " + p.Message
		}
		out = append(out, p.String())
	}
	return out
}

// parseUntyped returns the value of a reply that may be anything: an object or a list when
// the whole text is one, perhaps fenced as JSON; else the text.
func parseUntyped(text string) json.RawMessage {
	whole := text
	if info, body, ok := onlyFence(text); ok && strings.EqualFold(info, "json") {
		whole = body
	}
	if strings.HasPrefix(whole, "{") || strings.HasPrefix(whole, "[") {
		if value, ok := parsePlain(whole); ok && len(unusable(value)) == 0 {
			return value
		}
	}
	return step.JSON(text)
}

// candidates returns the places where JSON can be in a reply, the likeliest first: the whole text, fenced blocks, and
// objects and lists in running text. Of equally likely places only one can have the answer; with lastFence, a later
// block is likelier. Without running, objects and lists in running text do not count.
func candidates(text string, lastFence, running bool) func(yield func([]json.RawMessage) bool) {
	return func(yield func([]json.RawMessage) bool) {
		if value, ok := parseWhole(text); ok && !yield([]json.RawMessage{value}) {
			return
		}
		var fenced []json.RawMessage
		for _, body := range fences(text) {
			if value, ok := parse(body); ok {
				fenced = append(fenced, value)
			}
		}
		if lastFence {
			for _, value := range slices.Backward(fenced) {
				if !yield([]json.RawMessage{value}) {
					return
				}
			}
		} else if len(fenced) > 0 && !yield(fenced) {
			return
		}
		if values, _ := inText(text); running && len(values) > 0 {
			yield(values)
		}
	}
}

// inText returns the objects and lists in running text, and the first one that cannot be read. Objects and lists inside
// of others do not count, because they are only part of an answer.
func inText(text string) (values []json.RawMessage, broken string) {
	const tries = 100 // limits the cost of a text of nothing but brackets
	for rest, n := text, 0; n < tries; n++ {
		start := strings.IndexAny(rest, "{[")
		if start < 0 {
			break
		}
		rest = rest[start:]
		end := balanced(rest)
		if end == 0 && !jsonStart().MatchString(rest) {
			rest = rest[1:] // a bracket in prose
			continue
		}
		if end == 0 {
			end = len(rest)
		}
		if value, ok := parse(rest[:end]); ok {
			values = append(values, value)
		} else if broken == "" && jsonStart().MatchString(rest) {
			broken = rest[:end]
		}
		rest = rest[end:]
	}
	return values, broken
}

// jsonStart matches text that begins as an object or a list of JSON does.
var jsonStart = lazyregexp.New(`^(?:\{\s*(?:["'“}]|[A-Za-z_][A-Za-z0-9_]*\s*:)|\[\s*["'“{\[])`)

// brokenJSON returns what is wrong with the first object or list in a text that cannot be read, "" if there is none.
func brokenJSON(text string) string {
	_, broken := inText(text)
	if broken == "" {
		return ""
	}
	var value any
	return fmt.Sprintf("its JSON is broken: %v", json.Unmarshal([]byte(broken), &value))
}

// onlyWhole returns the text itself, if it is JSON.
func onlyWhole(text string) func(yield func([]json.RawMessage) bool) {
	return func(yield func([]json.RawMessage) bool) {
		if value, ok := parse(text); ok {
			yield([]json.RawMessage{value})
		}
	}
}

// parseWhole reads text that is one JSON value, or an object without its braces.
func parseWhole(text string) (json.RawMessage, bool) {
	if value, ok := parse(text); ok {
		return value, true
	}
	if !strings.HasPrefix(text, `"`) {
		return nil, false
	}
	return parse("{" + text + "}")
}

// parse reads text that is one JSON value, apart from trailing commas, comments, other quotes, keys and texts without
// quotes, line breaks in strings, the constants of Python and JavaScript, and a missing bracket at the end.
func parse(text string) (json.RawMessage, bool) {
	if value, ok := parsePlain(text); ok {
		return value, true
	}
	// Each try repairs more than the one before. Brackets are added only after all others have failed: a reply that
	// lacks one may be cut off.
	requoted := withoutComments(oneLineStrings(doubleQuoted(text)))
	quotedKeys := withQuotedKeys(requoted)
	tries := []string{withoutComments(oneLineStrings(text)), requoted, quotedKeys, withQuotedTexts(quotedKeys)}
	for _, try := range tries {
		if value, ok := parsePlain(try); ok {
			return value, true
		}
	}
	for _, try := range tries {
		if value, ok := parsePlain(withLastBracket(try)); ok {
			return value, true
		}
	}
	return nil, false
}

// withLastBracket adds the last bracket if only that one is missing. The text before it must end with a bracket or a
// quote: a number may be cut off.
func withLastBracket(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasSuffix(text, "}") && !strings.HasSuffix(text, "]") && !strings.HasSuffix(text, `"`) {
		return text
	}
	var open []byte // the closing brackets of what is open
	for i := range skipStrings(text) {
		switch text[i] {
		case '{':
			open = append(open, '}')
		case '[':
			open = append(open, ']')
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != text[i] {
				return text
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) != 1 {
		return text
	}
	return text + string(open)
}

// parsePlain reads text that is one JSON value, apart from trailing commas and the constants of Python.
func parsePlain(text string) (json.RawMessage, bool) {
	plain := withoutTrailingCommas(text)
	for _, try := range []string{text, plain, withoutPython(plain)} {
		if value, ok := compact(try); ok {
			return value, true
		}
	}
	return nil, false
}

// compact returns JSON without spaces; false if the text is not JSON.
func compact(text string) (json.RawMessage, bool) {
	var b bytes.Buffer
	err := json.Compact(&b, []byte(text))
	return b.Bytes(), err == nil && b.Len() > 0
}

// parseLines reads text that is several objects, one after the other, as a list.
func parseLines(text string, n *schema.Node) (json.RawMessage, bool) {
	if !wants(n, "array") {
		return nil, false
	}
	if _, body, ok := onlyFence(text); ok {
		text = body
	}
	var out []json.RawMessage
	for rest := text; rest != ""; {
		end := 0
		if rest[0] == '{' {
			end = balanced(rest)
		}
		value, ok := parse(rest[:end])
		if !ok {
			return nil, false
		}
		out = append(out, value)
		rest = strings.TrimLeft(rest[end:], ", \t\r\n")
	}
	return step.JSON(out), len(out) > 1
}

// balanced returns the length of the object or list at the start of text; 0 if its brackets do not close.
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

// rewritten replaces parts of a text outside of strings. part returns the length of the part that begins at an offset,
// and what replaces it; a part of length 0 stays. before is the latest character before the offset that is no space.
func rewritten(text string, part func(i int, before byte) (length int, with string)) string {
	var b strings.Builder
	last, before := 0, byte(0)
	for i := range skipStrings(text) {
		if i < last {
			continue
		}
		if n, with := part(i, before); n > 0 {
			b.WriteString(text[last:i] + with)
			last = i + n
		}
		if !isSpace(text[i]) {
			before = text[i]
		}
	}
	return b.String() + text[last:]
}

// isSpace reports whether JSON ignores a character.
func isSpace(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 }

// withoutTrailingCommas leaves out commas that only space separates from a
// closing bracket.
func withoutTrailingCommas(text string) string {
	return rewritten(text, func(i int, _ byte) (int, string) {
		if text[i] != ',' {
			return 0, ""
		}
		rest := strings.TrimLeft(text[i+1:], " \t\r\n")
		if rest != "" && (rest[0] == '}' || rest[0] == ']') {
			return 1, ""
		}
		return 0, ""
	})
}

// withoutComments removes JavaScript comments.
func withoutComments(text string) string {
	return rewritten(text, func(i int, _ byte) (int, string) {
		switch {
		case strings.HasPrefix(text[i:], "//"):
			return max(strings.IndexByte(text[i:], '\n'), 0), ""
		case strings.HasPrefix(text[i:], "/*"):
			if end := strings.Index(text[i:], "*/"); end >= 0 {
				return end + len("*/"), ""
			}
		}
		return 0, ""
	})
}

// doubleQuoted writes strings in single or typographic quotes as JSON does.
func doubleQuoted(text string) string {
	var b strings.Builder
	var end rune // of the string that is open; 0 outside of strings
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
			if r != '\'' {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		case end != 0 && r == '\\':
			escaped = true
		case end != 0 && r == end:
			b.WriteByte('"')
			end = 0
		case end != 0 && r == '"':
			b.WriteString(`\"`)
		case end != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'' || r == '“' || r == '‘':
			end = map[rune]rune{'"': '"', '\'': '\'', '“': '”', '‘': '’'}[r]
			b.WriteByte('"')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// oneLineStrings escapes the line breaks and tabs inside of strings.
func oneLineStrings(text string) string {
	escapes := strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)
	var b strings.Builder
	last := 0 // the end of the latest string
	open := -1
	for i := range skipStrings(text) {
		if open >= 0 { // the first position after a string
			b.WriteString(text[last:open])
			b.WriteString(escapes.Replace(text[open:i]))
			last, open = i, -1
		}
		if text[i] == '"' {
			open = i
		}
	}
	if open >= 0 {
		b.WriteString(text[last:open])
		b.WriteString(escapes.Replace(text[open:]))
		return b.String()
	}
	return b.String() + text[last:]
}

// withQuotedKeys puts quotes around the keys of objects that have none, as in JavaScript.
func withQuotedKeys(text string) string {
	return rewritten(text, func(i int, before byte) (int, string) {
		if before != '{' && before != ',' {
			return 0, ""
		}
		if key := bareKey().FindStringSubmatch(text[i:]); key != nil {
			return len(key[1]), strconv.Quote(key[1])
		}
		return 0, ""
	})
}

// withQuotedTexts puts quotes around the values of objects that are neither JSON nor constants: {"name": Acme}.
func withQuotedTexts(text string) string {
	return rewritten(text, func(i int, before byte) (int, string) {
		if before != ':' {
			return 0, ""
		}
		value := bareText().FindString(text[i:])
		if _, constant := constants[value]; value == "" || constant || json.Valid([]byte(value)) {
			return 0, ""
		}
		return len(value), strconv.Quote(value)
	})
}

// bareText matches a text without quotes, up to the next character that has a meaning in JSON.
var bareText = lazyregexp.New(`^[^\s"{}\[\],:](?:[^"{}\[\],:\n]*[^\s"{}\[\],:])?`)

// bareKey matches a key without quotes.
var bareKey = lazyregexp.New(`^([A-Za-z_][A-Za-z0-9_]*)\s*:`)

// constants maps the constants of other languages to JSON. JSON has no NaN.
var constants = map[string]string{
	"True": "true", "False": "false", "None": "null", "NaN": "null", "-Infinity": "null", "Infinity": "null",
	"undefined": "null",
}

// withoutPython writes the constants of Python and JavaScript outside of strings as JSON does.
func withoutPython(text string) string {
	return rewritten(text, func(i int, _ byte) (int, string) {
		for word, plain := range constants {
			if strings.HasPrefix(text[i:], word) {
				return len(word), plain
			}
		}
		return 0, ""
	})
}

// skipStrings returns the positions of text outside of JSON strings, their
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

// fences returns the bodies of the fenced blocks of a text, in order.
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

// onlyFence returns the parts of a text that is nothing but one fenced block.
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
