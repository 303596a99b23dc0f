package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Models often give the right value in the wrong form: "Yes." for true, "seven"
// for 7, {"score": "7"} where a number was asked for, a key too many. repair
// changes such a value into what the schema asks for, provided that there is
// only one way to read it. What is ambiguous stays as it is and is reported.

// repair converts a value to a schema. name is the key of the value.
func repair(v any, n *schema.Node, name string) any {
	n = target(n)
	if n == nil || n.Accepts(v) {
		return v
	}
	// The first alternative that the value can be converted to, in the order of the schema.
	for _, other := range slices.Concat(n.AnyOf, n.OneOf) {
		if w := repair(v, other, name); n.Accepts(w) {
			return w
		}
	}
	// Convert the value by its own type. What does not fit afterwards is reported by the schema.
	switch v := v.(type) {
	case map[string]any:
		if wants(n, "object") {
			out := repairObject(v, n)
			if inner, ok := onlyValue(v, n); ok && !n.Accepts(out) {
				if w := repair(inner, n, ""); n.Accepts(w) {
					return w
				}
			}
			return out
		}
		if inner, ok := unwrap(v, n, name); ok {
			return inner
		}
	case []any:
		if !wants(n, "array") {
			if inner, ok := onlyItem(v); ok && wants(n, "object") {
				if w := repair(inner, n, name); n.Accepts(w) {
					return w
				}
			}
			return asProperty(v, n)
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = repair(item, n.Items, "")
		}
		return out
	case string:
		if w, ok := scalar(v, n); ok {
			return w
		}
		if w, ok := quoted(v, n); ok {
			return w
		}
	case json.Number:
		if wants(n, "string") {
			return v.String()
		}
		return asProperty(v, n)
	case bool:
		if wants(n, "string") {
			return strconv.FormatBool(v)
		}
		return asProperty(v, n)
	}
	return v
}

// asProperty puts a value under the only property that an object can have, if it fits there.
func asProperty(v any, n *schema.Node) any {
	if name, only := onlyProperty(n); name != "" {
		if object := map[string]any{name: repair(v, only, "")}; n.Accepts(object) {
			return object
		}
	}
	return v
}

// onlyProperty returns the property of an object that has one, unless it is a text: any reply could be that.
func onlyProperty(n *schema.Node) (string, *schema.Node) {
	if !wants(n, "object") || len(n.Properties) != 1 || len(n.Required) != 1 {
		return "", nil
	}
	only := target(n.Properties[n.Required[0]])
	if only == nil || len(only.Types) == 0 && only.Enum == nil ||
		slices.Contains(only.Types, "string") && only.Enum == nil {
		return "", nil
	}
	return n.Required[0], only
}

// onlyValue returns the object that is the only value of another one: {"result": {…}}. A property of the schema is not
// a wrapper.
func onlyValue(object map[string]any, n *schema.Node) (map[string]any, bool) {
	for key, v := range object {
		inner, ok := v.(map[string]any)
		return inner, ok && len(object) == 1 && n.Properties[key] == nil
	}
	return nil, false
}

// onlyItem returns the object that is the only item of a list.
func onlyItem(list []any) (map[string]any, bool) {
	if len(list) != 1 {
		return nil, false
	}
	inner, ok := list[0].(map[string]any)
	return inner, ok
}

// quoted reads an object or a list that a reply has as a string.
func quoted(text string, n *schema.Node) (any, bool) {
	if !wants(n, "object") && !wants(n, "array") || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return nil, false
	}
	raw, ok := parse(text)
	if !ok {
		return nil, false
	}
	v, err := schema.Decode(raw)
	if err != nil {
		return nil, false
	}
	v = repair(v, n, "")
	return v, n.Accepts(v)
}

// target follows references that have no other keywords beside them.
func target(n *schema.Node) *schema.Node {
	for range 10 {
		if n == nil || n.Ref == nil || len(n.Types) > 0 {
			break
		}
		n = n.Ref
	}
	return n
}

// wants reports whether a schema asks for a type.
func wants(n *schema.Node, kind string) bool {
	if len(n.Types) > 0 {
		return slices.Contains(n.Types, kind)
	}
	return kind == "object" && (len(n.Properties) > 0 || len(n.Required) > 0) || kind == "array" && n.Items != nil
}

// repairObject repairs the properties, finds misspelled keys, and leaves out
// what the schema does not allow.
func repairObject(object map[string]any, n *schema.Node) any {
	out := maps.Clone(object)
	// Rename keys that differ only in case, spaces and punctuation, if just one key means the property.
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		if _, there := out[name]; there {
			continue
		}
		var same []string
		for key := range out {
			if _, declared := n.Properties[key]; !declared && plainKey(key) == plainKey(name) {
				same = append(same, key)
			}
		}
		if len(same) == 1 {
			out[name] = out[same[0]]
			delete(out, same[0])
		}
	}
	// Leave out keys that are not allowed, and null for optional properties that cannot be null; repair the others.
	for _, key := range slices.Sorted(maps.Keys(out)) {
		about := property(n, key)
		switch {
		case n.AdditionalProperties != nil && n.AdditionalProperties.Never() && !declared(n, key):
			delete(out, key)
		case out[key] == nil && !slices.Contains(n.Required, key) && len(about) > 0 &&
			about[0] != nil && !about[0].Accepts(nil):
			delete(out, key)
		case len(about) > 0 && about[0] != nil:
			out[key] = repair(out[key], about[0], "")
		}
	}
	fillNulls(out, n)
	return out
}

// fillNulls adds null for required properties that may be null, to an object that has others of the schema.
func fillNulls(object map[string]any, n *schema.Node) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(object)),
		func(key string) bool { return n.Properties[key] != nil }) {
		return
	}
	for _, name := range n.Required {
		_, there := object[name]
		if about := n.Properties[name]; !there && about != nil && slices.Contains(about.Types, "null") {
			object[name] = nil
		}
	}
}

// declared reports whether a schema has a property of that name.
func declared(n *schema.Node, key string) bool {
	_, ok := n.Properties[key]
	return ok || slices.ContainsFunc(n.PatternProperties,
		func(p schema.PatternProperty) bool { return p.Pattern.MatchString(key) })
}

// plainKey returns a key without what models vary: case, spaces and punctuation.
func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// unwrap takes a value out of an object around it: from under its name, or the
// only one that fits.
func unwrap(object map[string]any, n *schema.Node, name string) (any, bool) {
	for key, v := range object {
		if name != "" && plainKey(key) == plainKey(name) {
			w := repair(v, n, "")
			return w, n.Accepts(w)
		}
	}
	var found []any
	for _, v := range object {
		if _, isText := v.(string); wants(n, "string") && n.Enum == nil && !isText {
			continue // the object is the text
		}
		if w := repair(v, n, ""); n.Accepts(w) {
			found = append(found, w)
		}
	}
	if len(found) != 1 || wants(n, "string") && len(object) > 1 {
		return nil, false
	}
	return found[0], true
}

// scalar reads a boolean, a number or one of several values from a text.
func scalar(text string, n *schema.Node) (any, bool) {
	var match func(string) (any, bool)
	switch {
	case wants(n, "object"), wants(n, "array"), wants(n, "boolean") && wants(n, "number"):
		return nil, false // too much that a word may stand for
	case n.Enum != nil:
		match = func(s string) (any, bool) { return option(s, n.Enum) }
	case wants(n, "boolean"):
		match = truth
	case wants(n, "number"), wants(n, "integer"):
		match = numeralOf
	default:
		return nil, false
	}
	v, ok := findValue(text, match, false)
	if !ok && n.Enum != nil {
		v, ok = mentioned(text, n.Enum)
	}
	return v, ok && n.Accepts(v)
}

// findValue looks for a value in a text: the whole text, a sentence of its own,
// what a sentence says that something is, what a sentence begins with, and at
// last the only value there is, if a sentence ends with it. Two different
// values in the same place are no answer. exact leaves out the last place.
func findValue(text string, match func(string) (any, bool), exact bool) (any, bool) {
	if v, ok := match(stripMarkup(text)); ok {
		return v, true
	}
	if boxes := boxed().FindAllStringSubmatch(text, -1); len(boxes) > 0 { // the final answer, as in mathematics
		v, ok := match(stripMarkup(boxes[0][1]))
		same := !slices.ContainsFunc(boxes, func(m []string) bool { return m[1] != boxes[0][1] })
		return v, ok && same
	}
	// Each place that may have the value, the clearest first. Within a place, all sentences count.
	said := sentences(text)
	for _, part := range []func(string) string{
		func(s string) string { return s },
		stated,
		func(s string) string { return opening(s, match) },
		func(s string) string { return opening(stated(s), match) },
	} {
		var found []any
		for _, s := range said {
			if v, ok := match(stripMarkup(part(s))); ok && !slices.Contains(found, v) {
				found = append(found, v)
			}
		}
		if len(found) > 0 {
			return found[0], len(found) == 1
		}
	}
	if exact {
		return nil, false
	}
	return last(said, match)
}

// last returns the only value that the sentences mention, if one of them ends with it. A number is not the only one if
// another word has a digit, as in "7th of 10".
func last(said []string, match func(string) (any, bool)) (any, bool) {
	var found []any
	ends, unread := false, false
	for _, s := range said {
		// Take the longest run of words at each position that is a value.
		words := strings.Fields(s)
		for from := 0; from < len(words); from++ {
			matched := false
			for to := min(from+maxValueWords, len(words)); to > from; to-- { // "six and a half" is not six
				v, ok := match(stripMarkup(strings.Join(words[from:to], " ")))
				if !ok {
					continue
				}
				if denies(words[:from]) || from > 0 && limits(words[from-1]) {
					return nil, false
				}
				if !slices.Contains(found, v) {
					found = append(found, v)
				}
				ends = ends || to == len(words)
				from, matched = to-1, true
				break
			}
			unread = unread || !matched && strings.ContainsAny(words[from], "0123456789")
		}
	}
	if len(found) != 1 || !ends {
		return nil, false
	}
	_, number := found[0].(json.Number)
	return found[0], !number || !unread
}

// maxValueWords is how many words a value has at most.
const maxValueWords = 8

// denies reports whether one of the words makes a sentence say the opposite.
func denies(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		w = strings.ToLower(strings.Trim(w, ",;:"))
		return slices.Contains(denials, w) || strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t")
	})
}

var (
	denials = strings.Fields("not never no neither nor cannot")
	// conditions make a sentence say what may be or should be.
	conditions = strings.Fields("without if when after can could may might should must needs")
)

// limits reports whether a word gives the number after it another meaning: "less than 7", "at least 7", "> 7".
func limits(word string) bool {
	words := strings.Fields("than least most under over above below < > <= >= ≤ ≥ minus negative")
	return slices.Contains(words, strings.ToLower(word))
}

// mentioned returns the only one of several texts that is among the words of a text, unless a sentence with it denies
// it or has a condition. Texts of one character and words such as "no" are too common to count.
func mentioned(text string, values []any) (any, bool) {
	// Options are compared by their plain keys, over several words at most.
	options := map[string]any{}
	for _, v := range values {
		key := plainKey(optionText(v))
		if _, isText := v.(string); isText && len(key) > 1 && !slices.Contains(denials, key) {
			options[key] = v
		}
	}
	var found []any
	for _, sentence := range sentences(text) {
		words := strings.FieldsFunc(sentence, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '’'
		})
		var others []string // the words outside of options
		for from := 0; from < len(words); from++ {
			to := min(from+maxValueWords, len(words))
			for to > from && options[plainKey(strings.Join(words[from:to], ""))] == nil {
				to--
			}
			if to == from {
				others = append(others, words[from])
				continue
			}
			if v := options[plainKey(strings.Join(words[from:to], ""))]; !slices.Contains(found, v) {
				found = append(found, v)
			}
			from = to - 1
		}
		conditional := slices.ContainsFunc(others, func(w string) bool {
			return postpones(w) || slices.Contains(conditions, strings.ToLower(w))
		})
		if len(others) < len(words) && (denies(others) || conditional) {
			return nil, false
		}
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

var (
	boxed       = lazyregexp.New(`\\(?:boxed|fbox)\s*\{(?:\\text\{)?([^{}]*)\}`)
	sentenceEnd = lazyregexp.New(`[.!?](?:\s+|$)|\n+`)
	// A colon between digits separates nothing: "12:30" does not state 30.
	statement = lazyregexp.New(`(?i)^(.*)(?:(\bis|\bwould be|\bto be)|[^\d]:|:\s|[=→])\s*(\S.*)$`)
	// A comma, a colon or a dash before a digit separates no clause: "7,5" and "7–8" are not 7.
	lead  = lazyregexp.New(`^([^,;:—–(]+?)(?:([;(])|(?:[,:—–]|\s-\s)\s*(?:[^\s\d]|$))`)
	hedge = lazyregexp.New(`(?i)^(?:or|maybe|perhaps|possibly|probably|even|up to|to)\s+`)
)

// sentences cuts a text into sentences and lines; fences are left out.
func sentences(text string) []string {
	var out []string
	for _, s := range sentenceEnd().Split(text, -1) {
		if s = strings.TrimSpace(s); s != "" && !strings.HasPrefix(s, "```") {
			out = append(out, s)
		}
	}
	return out
}

// stated returns what a sentence says that something is: "Score: 7", "the answer is yes", but not "I don't think the
// answer is yes".
func stated(s string) string {
	m := statement().FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	clause := strings.Fields(m[1][strings.LastIndexAny(m[1], ",;")+1:])
	if m[2] != "" && (denies(clause) || slices.ContainsFunc(clause, postpones)) {
		return ""
	}
	return m[3]
}

// postpones reports whether a word makes a clause say what is not yet so: "before this is approved".
func postpones(word string) bool {
	return slices.Contains(strings.Fields("before until unless once"), strings.ToLower(word))
}

// opening returns what a sentence begins with, up to a comma: "Yes, because …". It returns "" if the rest of the
// sentence is another value: "seven, maybe eight".
func opening(s string, match func(string) (any, bool)) string {
	m := lead().FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	rest := strings.TrimLeft(s[len(m[1]):], " \t,;:—–(-")
	for hedge().MatchString(rest) {
		rest = hedge().ReplaceAllString(rest, "")
	}
	first, _ := match(stripMarkup(m[1]))
	if other, ok := match(stripMarkup(rest)); ok && other != first {
		return ""
	}
	return m[1]
}

// stripMarkup returns a text without the quotes, brackets, code fences and punctuation around a value.
func stripMarkup(text string) string {
	text = strings.TrimSpace(text)
	if _, body, ok := onlyFence(text); ok {
		text = body
	}
	text = strings.Trim(text, " \t\n\"'`*_“”‘’()[]~≈")
	if inner, ok := strings.CutPrefix(text, "<"); ok && strings.HasSuffix(inner, ">") { // but not "> 7"
		text = strings.TrimSuffix(inner, ">")
	}
	return strings.TrimSpace(strings.TrimRight(text, ".!?,;: \"'`*_“”‘’"))
}

// truth reads a word for true or false.
func truth(s string) (any, bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "y", "correct":
		return true, true
	case "false", "no", "n", "incorrect":
		return false, true
	}
	return nil, false
}

var (
	digits = lazyregexp.New(`^(?:(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?$`)
	// A fraction such as 3/4 has no scale that people rate on.
	outOf   = lazyregexp.New(`(?i)^(.+?)\s*\(?(?:/\s*(?:5|10|20|50|100|five|ten|hundred)|\bout of\s*\S+)$`)
	counted = lazyregexp.New(`(?i)^[$€£¥]\s*|\s*(?:[$€£¥]|\b(?:points?|stars?|euros?|dollars?|eur|usd|gbp|chf))$`)
	signed  = lazyregexp.New(`(?i)^(?:([-−]|(?:minus|negative)\s+)|\+)?(\S.*)$`)
)

// numeralOf reads a number in digits or as a word, with a sign and a currency, alone or "out of ten".
func numeralOf(s string) (any, bool) {
	if m := outOf().FindStringSubmatch(counted().ReplaceAllString(s, "")); m != nil {
		s = m[1]
	}
	m := signed().FindStringSubmatch(s)
	if m == nil {
		return nil, false // no value, or several lines
	}
	unsigned := counted().ReplaceAllString(m[2], "")
	if m[2] == s && unsigned != s { // "$-5"
		if m = signed().FindStringSubmatch(unsigned); m == nil {
			return nil, false
		}
		unsigned = m[2]
	}
	n, ok := unsignedNumber(strings.Join(strings.Fields(strings.ToLower(unsigned)), " "))
	if ok && m[1] != "" {
		n = "-" + n
	}
	return json.Number(n), ok
}

// unsignedNumber reads a number without a sign, and returns it as JSON.
func unsignedNumber(s string) (string, bool) {
	if !digits().MatchString(s) {
		return spelledNumber(s)
	}
	s = strings.TrimLeft(strings.ReplaceAll(s, ",", ""), "0")
	if s == "" || s[0] < '0' || s[0] > '9' {
		s = "0" + s
	}
	_, err := json.Number(s).Float64()
	return s, err == nil
}

// spelledNumber reads a number in words, with a fraction: "six and a half", "seven point five", "half".
func spelledNumber(s string) (string, bool) {
	switch s {
	case "half", "a half", "one half":
		return "0.5", true
	}
	// A fraction at the end, a decimal point in words, and then the whole number.
	fraction := ""
	for words, digits := range map[string]string{
		" and a half": ".5", " and one half": ".5", " and a quarter": ".25",
		" and three quarters": ".75", " and three-quarters": ".75",
	} {
		if rest, ok := strings.CutSuffix(s, words); ok {
			s, fraction = rest, digits
		}
	}
	if rest, ok := strings.CutPrefix(s, "point "); ok {
		s = "zero point " + rest
	}
	if whole, rest, ok := strings.Cut(s, " point "); ok && fraction == "" {
		s, fraction = whole, "."
		for digit := range strings.FieldsSeq(rest) {
			n := slices.Index(small[:10], digit)
			if n < 0 {
				return "", false
			}
			fraction += strconv.Itoa(n)
		}
	}
	if digits().MatchString(s) && fraction != "" && !strings.ContainsAny(s, ".e,") { // "6 and a half"
		whole, ok := unsignedNumber(s)
		return whole + fraction, ok
	}
	n, ok := spelled(s)
	return strconv.Itoa(n) + fraction, ok
}

var (
	small = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
		"fifteen sixteen seventeen eighteen nineteen")
	tens = strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
)

// spelled reads a number below one million that is written in words.
func spelled(s string) (int, bool) {
	// The order of the map does not matter: "hundred" is not tried while there is "thousand".
	for word, factor := range map[string]int{"thousand": 1000, "hundred": 100} {
		left, right, ok := strings.Cut(" "+s+" ", " "+word+" ")
		if !ok || factor == 100 && strings.Contains(s, "thousand") {
			continue
		}
		many, okLeft := 1, true
		if left = strings.TrimSpace(left); left != "" && left != "a" {
			many, okLeft = spelled(left)
		}
		rest, okRight := 0, true
		if right = strings.TrimSpace(strings.TrimPrefix(right, "and ")); right != "" {
			rest, okRight = spelled(right)
		}
		small := many > 0 && many < 1000 && rest < factor && (factor == 1000 || many < 100 && many%10 > 0)
		return many*factor + rest, okLeft && okRight && small
	}
	// Numbers below one hundred.
	if n := slices.Index(small, s); n >= 0 {
		return n, true
	}
	ten, one, compound := strings.Cut(strings.ReplaceAll(s, "-", " "), " ")
	n := slices.Index(tens, ten)
	if n < 0 {
		return 0, false
	}
	n = (n + 2) * 10
	if !compound {
		return n, true
	}
	unit := slices.Index(small[:10], one)
	return n + unit, unit > 0
}

// option finds the one of several values that a text names.
func option(s string, values []any) (any, bool) {
	for _, v := range values {
		if optionText(v) == s {
			return v, true
		}
	}
	found := xslices.Filter(values, func(v any) bool {
		return plainKey(optionText(v)) == plainKey(s) && plainKey(s) != ""
	})
	if number, ok := numeralOf(s); ok && len(found) == 0 { // "two" for 2
		for _, v := range values {
			if n, isNumber := v.(json.Number); isNumber && sameNumber(n, number.(json.Number)) {
				found = append(found, v)
			}
		}
	}
	if is, ok := truth(s); ok && len(found) == 0 && slices.Contains(values, is) { // "yes" for true
		return is, true
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

// sameNumber reports whether two numbers are equal, however they are written.
func sameNumber(a, b json.Number) bool {
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

// optionText returns the text of an option; "" for a value that no word can name.
func optionText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// keyedLine is a line such as "Score: 7", "- **Score**: 7" or "score = 7".
var keyedLine = lazyregexp.New("^[-*•\\s]*[*_`\"']*(\\pL[\\pL\\pN _-]{0,60}?)[*_`\"']*\\s*[:=][*_`]*\\s*(.*)$")

// listed reads an object from a Markdown table or from lines such as "Score: 7". It reports false unless the text has
// all required properties, or nothing but properties.
func listed(text string, n *schema.Node) (object map[string]any, problems []string, ok bool) {
	if !wants(n, "object") || len(n.Properties) == 0 {
		return nil, nil, false
	}
	object, alone := tableObject(text, n)
	if object == nil {
		object, problems, alone = keyed(text, n)
	}
	for _, name := range n.Required {
		if object[name] == nil || object[name] == "" {
			return object, problems, alone
		}
	}
	return object, problems, len(object) > 0
}

// keyed reads an object whose properties are on lines of their own. Lines that name no property continue a text, and
// are ignored elsewhere. alone reports whether there are none. JSON that begins on a line of its own is not read.
func keyed(text string, n *schema.Node) (object map[string]any, problems []string, alone bool) {
	// Properties by their plain names; two with the same one cannot be told apart.
	names := map[string]string{}
	for name := range n.Properties {
		if _, twice := names[plainKey(name)]; twice {
			return nil, nil, false
		}
		names[plainKey(name)] = name
	}
	// current is the property whose text the next lines continue.
	values, current, alone := map[string]string{}, "", true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			continue
		}
		name, value := "", ""
		m := keyedLine().FindStringSubmatch(line)
		if m != nil {
			name, value = names[plainKey(m[1])], m[2]
		}
		if strings.ContainsAny(line, "{}") &&
			(name == "" || isText(n.Properties[name]) || balanced(value) != len(value)) {
			return nil, nil, false
		}
		switch _, twice := values[name]; {
		case name != "" && twice:
			problems = []string{fmt.Sprintf("the reply gives %q more than once; give it once", name)}
		case name != "":
			current, values[name] = name, value
		case current != "" && m == nil && isText(n.Properties[current]):
			values[current] += "\n" + line
		case line != "":
			alone = false
		}
	}
	object = map[string]any{}
	for name, value := range values {
		object[name] = strings.TrimSpace(value)
		if raw, ok := parse(strings.TrimSpace(value)); ok && !isText(n.Properties[name]) {
			if v, err := schema.Decode(raw); err == nil {
				object[name] = v
			}
		}
	}
	return object, problems, alone && len(object) > 0
}

// keyedElements reads an object whose properties are XML elements. Prose may precede the line that begins with the
// first element; JSON may not.
func keyedElements(text string, n *schema.Node) (map[string]any, bool) {
	before, text, ok := strings.Cut("\n"+text, "\n<")
	if !ok || !wants(n, "object") || strings.ContainsAny(before, "{[") {
		return nil, false
	}
	text = "<" + text
	object := map[string]any{}
	for name := range n.Properties {
		switch found := elements(text, func(tag string) bool { return tag == plainKey(name) }); len(found) {
		case 0:
		case 1:
			object[name] = found[0]
		default:
			return nil, false
		}
	}
	return object, len(object) > 0
}

// isText reports whether a schema takes any text.
func isText(n *schema.Node) bool {
	n = target(n)
	return n != nil && n.Enum == nil && n.Const == nil && (len(n.Types) == 0 || slices.Contains(n.Types, "string"))
}
