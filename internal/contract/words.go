package contract

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/schema"
)

// shapeOf reads what an author wrote about a reply, such as "List of objects:
// { fact, source, confidence }", as a JSON Schema. It is nil when the words
// speak of plain text, or of nothing that this reader knows: then a text is
// as good a reply as any.
func shapeOf(expected string) map[string]any {
	expected = strings.TrimSpace(expected)
	if doc := schemaIn(expected); doc != nil {
		return doc
	}
	if start := strings.IndexByte(expected, '{'); start >= 0 {
		return braced(expected, start)
	}
	if doc := bulleted(expected); doc != nil {
		return doc
	}
	if strings.ContainsRune(expected, '\n') {
		return nil
	}
	if doc := keyed(expected); doc != nil {
		return doc
	}
	if asJSON().MatchString(expected) {
		doc, _ := decode(AnyData).(map[string]any)
		return doc
	}
	if proseWords().MatchString(expected) {
		return nil
	}
	return plainShape(strings.TrimRight(expected, ". "))
}

// proseWords are words for texts without structure.
var proseWords = lazyregexp.New(
	`(?i)\b(markdown|prose|text|paragraphs?|sentences?|bullets?|bulleted|words|html|essay|letter|page)\b`)

// schemaIn returns the JSON Schema that a text consists of, or nil. Other objects in JSON, such as an example of a
// reply, have no type and properties that make a valid schema.
func schemaIn(text string) map[string]any {
	if !strings.HasPrefix(text, "{") {
		return nil
	}
	doc, err := schema.Decode([]byte(text))
	if err != nil {
		return nil
	}
	object, _ := doc.(map[string]any)
	_, typed := object["type"].(string)
	_, fields := object["properties"].(map[string]any)
	if !typed || !fields {
		return nil
	}
	if _, err := schema.CompileValue(object); err != nil {
		return nil
	}
	return object
}

// introduces reports whether braces behind this text list keys. In a sentence that merely contains
// a {placeholder}, they do not.
func introduces(before string) bool {
	before = strings.TrimSpace(before)
	if before == "" || strings.ContainsAny(before[len(before)-1:], ":[(=") || countBefore().MatchString(before) {
		return true
	}
	switch before = strings.ToLower(before); before[len(strings.TrimRightFunc(before, inWord)):] {
	case "object", "objects", "json", "of", "with", "each", "like", "form", "shape", "keys", "fields", "as",
		"record", "records", "entries", "items", "map", "maps", "entry":
		return true
	}
	return false
}

// severalOf reports whether the braces behind this text describe one item of a list.
func severalOf(before string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(before), func(r rune) bool { return !inWord(r) }) {
		switch word {
		case "list", "lists", "array", "arrays", "objects", "records", "entries", "items", "each":
			return true
		}
	}
	return strings.HasSuffix(strings.TrimSpace(before), "[")
}

// inWord reports whether a character is part of a word of a description.
func inWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// braced reads an object in braces that words lead up to.
func braced(text string, start int) map[string]any {
	before := text[:start]
	end := closing(text, start)
	if end < 0 || !introduces(before) {
		return nil
	}
	object := objectOf(text[start+1:end], 0)
	if object == nil {
		return nil
	}
	if severalOf(before) {
		list := listOf(object)
		if m := countBefore().FindStringSubmatch(before); m != nil {
			limitItems(list, strings.ToLower(m[1]), strings.ToLower(m[2]))
		}
		return list
	}
	return object
}

// countWords matches how many items a list has.
const countWords = `(at most|up to|no more than|at least|exactly)\s+` +
	`(\d{1,4}|one|two|three|four|five|six|seven|eight|nine|ten)`

// countBefore matches a number of items in any case of letters.
var countBefore = lazyregexp.New(`(?i)\b` + countWords + `\b`)

// ofObjects matches words that say that something is an object.
var ofObjects = lazyregexp.New(`\b(objects?|json|records?)\b`)

// bulletLine matches an item of a list of keys: a name, then its type or its description.
var bulletLine = lazyregexp.New("^[-*•]\\s+[\"'`*]*[A-Za-z_]\\w*[\"'`*]*\\s*(\\(|:|[-–—]\\s|$)")

// bulleted reads "An object with:" and a list of keys below it.
func bulleted(text string) map[string]any {
	head, rest, _ := strings.Cut(text, "\n")
	head = strings.ToLower(strings.TrimSpace(head))
	if !strings.HasSuffix(head, ":") || !ofObjects().MatchString(head) {
		return nil
	}
	var fields []string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !bulletLine().MatchString(line) {
			return nil
		}
		fields = append(fields, strings.ReplaceAll(strings.TrimLeft(line, "-*• "), "*", ""))
	}
	object := fieldsOf(fields, 0)
	if object != nil && severalOf(head) {
		return listOf(object)
	}
	return object
}

var (
	asJSON    = lazyregexp.New(`(?i)^(?:.*\b(?:as|in)\s+)?(?:valid\s+|raw\s+)?json\.?$`)
	keysWords = lazyregexp.New(`(?i)^(.*\bobjects?)\s+(?:with|containing|that ha(?:s|ve))\s+(?:the\s+)?` +
		`(?:keys?|fields?|propert(?:y|ies))\b:?\s+(.+)$`)
)

// keyed reads "JSON object with keys title (string), score (number) and tags".
func keyed(text string) map[string]any {
	m := keysWords().FindStringSubmatch(strings.TrimRight(text, ". "))
	if m == nil {
		return nil
	}
	words := splitOutside(m[2], " ")
	for i, word := range words {
		if word == "and" {
			words[i] = ","
		}
	}
	fields := splitOutside(strings.Join(words, " "), ",;")
	for _, f := range fields {
		if name, _, _ := strings.Cut(f, "("); strings.Contains(strings.TrimSpace(name), " ") {
			return nil // a sentence
		}
	}
	object := fieldsOf(fields, 0)
	if object != nil && severalOf(m[1]) {
		return listOf(object)
	}
	return object
}

// plainShape reads a short description without keys. Only what leaves little
// doubt counts: "A list of actions", "true or false", "low | medium | high".
func plainShape(text string) map[string]any {
	if m := labeled().FindStringSubmatch(text); m != nil && strings.Contains(m[1], "|") && !manyOf().MatchString(text) {
		text = m[1] // "verdict: approved | rejected"
	}
	doc := typeOf(text, 0)
	switch {
	case doc["description"] != nil || len(doc) == 0:
		return nil
	case doc["type"] == "string":
		return nil // any text will do
	case doc["type"] == nil && !strings.ContainsAny(text, "|/") && !manyOf().MatchString(text):
		return nil // "a letter or a call" are no two words to choose from
	}
	return doc
}

// listOf returns the schema of a list.
func listOf(items map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": items}
}

// nesting yields the offset of every character from start on that is outside quotes, and how many brackets are open
// after it.
func nesting(text string, start int) iter.Seq2[int, int] {
	return func(yield func(i, depth int) bool) {
		depth, quote := 0, byte(0)
		for i := start; i < len(text); i++ {
			switch c := text[i]; {
			case quote != 0:
				if c == quote {
					quote = 0
				}
				continue
			case c == '"' || c == '`':
				quote = c
				continue
			case c == '{' || c == '[' || c == '(':
				depth++
			case c == '}' || c == ']' || c == ')':
				depth--
			}
			if !yield(i, depth) {
				return
			}
		}
	}
}

// closing finds the bracket that closes the one at start, or -1.
func closing(text string, start int) int {
	for i, depth := range nesting(text, start) {
		if depth == 0 && strings.IndexByte("}])", text[i]) >= 0 {
			return i
		}
	}
	return -1
}

// splitOutside cuts at any of the separators that stand outside brackets and quotes.
func splitOutside(text, separators string) []string {
	var out []string
	from := 0
	for i, depth := range nesting(text, 0) {
		if depth == 0 && strings.IndexByte(separators, text[i]) >= 0 {
			out = append(out, text[from:i])
			from = i + 1
		}
	}
	return append(out, text[from:])
}

// maxProseDepth bounds the nesting of descriptions, which come from files.
const maxProseDepth = 12

// objectOf reads the fields between braces.
func objectOf(inside string, depth int) map[string]any {
	return fieldsOf(rejoinFields(splitOutside(inside, ",;\n")), depth)
}

// oneOfWords announces a list of values.
var oneOfWords = lazyregexp.New(`(?i)\b(one|any|either) of\b`)

// rejoinFields puts together what belongs to one field although it has commas:
// "level: one of low, medium or high".
func rejoinFields(fields []string) []string {
	var out []string
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		for i+1 < len(fields) && !strings.ContainsAny(fields[i+1], ":{") &&
			!strings.Contains(f, " or ") && oneOfWords().MatchString(f) {
			i++
			f += "," + fields[i]
		}
		out = append(out, f)
	}
	return out
}

// field matches a field in prose. The groups are the name, the mark of an optional field, the text in parentheses, and
// the text after a colon, an equals sign or a dash.
var field = lazyregexp.New("(?s)^[\"'`]?([A-Za-z_][\\w-]*(?: [A-Za-z_][\\w-]*){0,2})[\"'`]?(\\?)?" +
	"\\s*(?:\\(([^)]*)\\))?\\s*(?:(?:[:=]|\\s[-–—]\\s)(.*))?$")

// fieldsOf returns the schema of an object with these fields, or nil if one of the texts describes no field.
func fieldsOf(fields []string, depth int) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, f := range fields {
		f = strings.TrimSpace(f)
		if f == "" || strings.Trim(f, ".…") == "" || f == "etc" || f == "etc." {
			continue
		}
		parts := field().FindStringSubmatch(f)
		if parts == nil || depth > maxProseDepth {
			return nil
		}
		name := strings.ReplaceAll(parts[1], " ", "_")
		words := strings.TrimSpace(parts[4])
		doc := typeOf(words, depth+1)
		if words == "" || doc["description"] != nil {
			if inner := typeOf(strings.TrimSpace(parts[3]), depth+1); parts[3] != "" && inner["description"] == nil {
				doc = inner
			}
		}
		if _, twice := properties[name]; !twice && parts[2] == "" {
			required = append(required, name)
		}
		properties[name] = doc
	}
	if len(properties) == 0 {
		return nil
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

var (
	articles = lazyregexp.New(`(?i)^(a|an|the|optional|required|json|short|brief|single|one)\s+`)
	several  = lazyregexp.New(`(?i)^(?:(?:ordered|sorted|numbered|possibly empty|non-empty)\s+)?` +
		`(?:lists?|arrays?)\b\s*(?:of\b|:)?\s*(.*)$`)
	manyOf  = lazyregexp.New(`(?i)^(?:one|any|either) of:?\s+(.+)$`)
	between = lazyregexp.New(`(?i)^(?:(integer|int|number|float|decimal|whole number|score|rating)\b\s*)?` +
		`[(\[]?\s*(?:from\s+|between\s+)?` +
		`(-?\d{1,9}(?:\.\d{1,9})?)\s*(?:to|and|-|–|\.\.+|…)\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*%?[)\]]?$`)
	labeled = lazyregexp.New(`^[A-Za-z_][\w-]*(?: [A-Za-z_][\w-]*)?\s*:\s*(.+)$`)
	orWord  = lazyregexp.New(`(?:^|\s+)or\s+`)
	numeral = lazyregexp.New(`^-?(0|[1-9]\d{0,8})(\.\d{1,9})?$`)
	limited = lazyregexp.New(`(?i)^(integer|int|whole number|number|float|decimal)\s*(?:of\s+)?` +
		`(>=|<=|>|<|≥|≤|at least|at most)\s*` +
		`(-?\d{1,9}(?:\.\d{1,9})?)$`)
	howMany = lazyregexp.New(`(?i)^` + countWords + `\s+(.+)$`)
	objects = lazyregexp.New(`(?i)^(?:objects?|maps?|records?|dict(?:ionary)?)\b\s*(?:with|of|:)?\s*`)
)

// typeOf reads the words for a type. Words that it does not know are kept as
// a description, and the name of the key decides.
func typeOf(words string, depth int) map[string]any {
	words = strings.TrimSpace(strings.TrimRight(words, ". "))
	if depth > maxProseDepth || words == "" {
		return map[string]any{}
	}
	if doc := types()[strings.ToLower(words)]; doc != nil && doc["type"] != "array" {
		return maps.Clone(doc) // the usual case, without patterns
	}
	for articles().MatchString(words) {
		if manyOf().MatchString(words) {
			break
		}
		words = articles().ReplaceAllString(words, "")
	}
	if doc := bracketed(words, depth); doc != nil {
		return doc
	}
	if m := manyOf().FindStringSubmatch(words); m != nil {
		return alternatives(splitWords(m[1]), depth)
	}
	if parts := splitOutside(words, "|"); len(parts) > 1 {
		return alternatives(parts, depth)
	}
	if inner, ok := strings.CutSuffix(words, "[]"); ok {
		return listOf(typeOf(inner, depth+1))
	}
	if m := several().FindStringSubmatch(words); m != nil {
		if doc := bracketed(m[1], depth); doc["type"] == "array" { // "List: [ string ]" is one list
			return doc
		}
		limit := howMany().FindStringSubmatch(m[1])
		if limit != nil {
			m[1] = limit[3]
		}
		item := typeOf(singularWords(m[1]), depth+1)
		if d, ok := item["description"].(string); ok {
			item = map[string]any{"title": lastWord(d)}
		}
		list := listOf(item)
		if limit != nil {
			limitItems(list, strings.ToLower(limit[1]), strings.ToLower(limit[2]))
		}
		return list
	}
	if strings.ContainsAny(words, "0123456789") {
		if m := limited().FindStringSubmatch(words); m != nil {
			doc := named(m[1])
			doc[bounds[strings.ToLower(m[2])]] = json.Number(m[3])
			return doc
		}
		if m := between().FindStringSubmatch(words); m != nil {
			return rangeOf(m[1], m[2], m[3])
		}
	}
	if numeral().MatchString(words) || len(words) > 1 && words[0] == '"' && words[len(words)-1] == '"' {
		return literalType(words) // an example of the value
	}
	if doc := named(words); doc != nil {
		return doc
	}
	if parts := strings.Split(words, "/"); len(parts) > 1 && !strings.ContainsAny(words, " :") {
		return alternatives(parts, depth)
	}
	if parts := orWord().Split(words, -1); len(parts) > 1 && len(words) < 60 && !strings.Contains(words, ",") {
		return alternatives(parts, depth)
	}
	return map[string]any{"description": words}
}

// bounds are the keywords for the words of a limit.
var bounds = map[string]string{
	">=": "minimum", "≥": "minimum", "at least": "minimum", ">": "exclusiveMinimum",
	"<=": "maximum", "≤": "maximum", "at most": "maximum", "<": "exclusiveMaximum",
}

// limitItems limits the length of a list.
func limitItems(list map[string]any, words, count string) {
	small := []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if i := slices.Index(small, count); i >= 0 {
		count = strconv.Itoa(i + 1)
	}
	count = strings.TrimLeft(count, "0")
	count = cmp.Or(count, "0")
	if words == "at least" || words == "exactly" {
		list["minItems"] = json.Number(count)
	}
	if words != "at least" {
		list["maxItems"] = json.Number(count)
	}
}

// bracketed reads { … }, [ … ] and "object with { … }".
func bracketed(words string, depth int) map[string]any {
	rest := words
	if m := objects().FindString(words); m != "" {
		if rest = words[len(m):]; !strings.HasPrefix(rest, "{") {
			return nil
		}
	}
	if rest == "" || rest[0] != '{' && rest[0] != '[' {
		return nil
	}
	end := closing(rest, 0)
	if end < 0 {
		return nil
	}
	inside := strings.TrimSpace(rest[1:end])
	if rest[0] == '{' {
		if doc := objectOf(inside, depth); doc != nil {
			return doc
		}
		return map[string]any{"type": "object"}
	}
	if parts := splitOutside(inside, ",\n"); len(parts) > 1 && !strings.ContainsAny(inside, "{[") {
		return listOf(alternatives(parts, depth))
	}
	return listOf(typeOf(singularWords(inside), depth+1))
}

// types are the words for types.
var types = sync.OnceValue(func() map[string]map[string]any {
	return map[string]map[string]any{
		"boolean": {"type": "boolean"}, "bool": {"type": "boolean"}, "true or false": {"type": "boolean"},
		"true/false": {"type": "boolean"}, "yes or no": {"type": "boolean"}, "yes/no": {"type": "boolean"},
		"true": {"type": "boolean"}, "false": {"type": "boolean"}, "flag": {"type": "boolean"},
		"integer": {"type": "integer"}, "int": {"type": "integer"}, "whole number": {"type": "integer"},
		"count": {"type": "integer"}, "number": {"type": "number"}, "float": {"type": "number"},
		"decimal": {"type": "number"}, "percentage": {"type": "number"}, "string": {"type": "string"},
		"str": {"type": "string"}, "text": {"type": "string"}, "markdown": {"type": "string"},
		"sentence": {"type": "string"}, "paragraph": {"type": "string"}, "word": {"type": "string"},
		"date": {"type": "string", "format": "date"}, "iso date": {"type": "string", "format": "date"},
		"yyyy-mm-dd": {"type": "string", "format": "date"}, "timestamp": {"type": "string", "format": "date-time"},
		"datetime": {"type": "string", "format": "date-time"}, "date-time": {"type": "string", "format": "date-time"},
		"iso timestamp": {"type": "string", "format": "date-time"}, "email": {"type": "string", "format": "email"},
		"email address": {"type": "string", "format": "email"}, "url": {"type": "string", "format": "uri"},
		"uri": {"type": "string", "format": "uri"}, "link": {"type": "string", "format": "uri"},
		"uuid": {"type": "string", "format": "uuid"}, "object": {"type": "object"}, "map": {"type": "object"},
		"dict": {"type": "object"}, "list": {"type": "array"}, "array": {"type": "array"}, "null": {"type": "null"},
	}
})

// named reads a word for a type, alone or with more about it in brackets or
// after a dash or a comma.
func named(words string) map[string]any {
	lower := strings.ToLower(words)
	if end := strings.IndexAny(lower, "(,;"); end > 0 {
		lower = lower[:end]
	}
	if end := strings.Index(lower, " - "); end > 0 {
		lower = lower[:end]
	}
	doc := types()[strings.TrimSpace(lower)]
	if doc == nil {
		return nil
	}
	return maps.Clone(doc)
}

// alternatives reads what was written with | or "or" between.
func alternatives(parts []string, depth int) map[string]any {
	var values, docs []any
	for _, p := range parts {
		p = strings.TrimSpace(p)
		doc := named(p)
		switch {
		case p == "":
			continue
		case doc != nil && p != "true" && p != "false" && p != "null":
			docs = append(docs, doc)
		case bracketed(p, depth) != nil:
			docs = append(docs, bracketed(p, depth))
		default:
			values = append(values, literal(p))
		}
	}
	if len(values) > 0 {
		docs = append(docs, map[string]any{"enum": values})
	}
	switch len(docs) {
	case 0:
		return map[string]any{}
	case 1:
		return docs[0].(map[string]any)
	}
	return map[string]any{"anyOf": docs}
}

// literal returns the value that a word stands for: true, false, null, a number, or the text without its quotes.
func literal(word string) any {
	switch {
	case word == "true" || word == "false":
		return word == "true"
	case word == "null":
		return nil
	case numeral().MatchString(word):
		return json.Number(word)
	}
	return strings.Trim(word, "\"'`")
}

// literalType returns the schema of values like a word.
func literalType(word string) map[string]any {
	number, ok := literal(word).(json.Number)
	switch {
	case !ok:
		return map[string]any{"type": "string"}
	case strings.ContainsRune(number.String(), '.'):
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

// rangeOf reads "1 to 5". From 0 to 1 means the fractions between.
func rangeOf(word, low, high string) map[string]any {
	kind := "integer"
	switch strings.ToLower(word) {
	case "number", "float", "decimal":
		kind = "number"
	}
	if strings.ContainsRune(low+high, '.') || low == "0" && high == "1" {
		kind = "number"
	}
	x, _ := strconv.ParseFloat(low, 64) // both are numerals
	y, _ := strconv.ParseFloat(high, 64)
	if x > y {
		low, high = high, low
	}
	return map[string]any{"type": kind, "minimum": json.Number(low), "maximum": json.Number(high)}
}

// splitWords cuts "a, b or c".
func splitWords(text string) []string {
	var out []string
	for _, p := range splitOutside(text, ",|") {
		for _, q := range orWord().Split(p, -1) {
			if q = strings.TrimSpace(q); q != "" {
				out = append(out, q)
			}
		}
	}
	return out
}

// singularWords makes "strings" one string, in the words for a list's items.
func singularWords(words string) string {
	if words == "" || strings.ContainsAny(words, "{[(|") {
		if rest, ok := strings.CutPrefix(words, "objects"); ok {
			return "object" + rest
		}
		return words
	}
	return Singular(words)
}

// lastWord returns the last word of a text in lower case; "" if there is none.
func lastWord(words string) string {
	all := strings.FieldsFunc(strings.ToLower(words),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// Singular returns the name of one of the things that a plural names.
func Singular(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, "ies") && len(name) > 4:
		return name[:len(name)-3] + "y"
	case strings.HasSuffix(lower, "s") && !strings.HasSuffix(lower, "ss") && len(name) > 2:
		return name[:len(name)-1]
	}
	return name
}
