package expr

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// The dialects of AWF. Conditions are written in expr-lang and texts are Go templates; both read the same names.
const (
	AWF         Dialect = "awf"          // a condition, or any value
	AWFLenient  Dialect = "awf-lenient"  // a condition that is false if it cannot be evaluated
	AWFTemplate Dialect = "awf-template" // a text
	AWFItems    Dialect = "awf-items"    // a list: JSON, or words separated by commas
	AWFNumber   Dialect = "awf-number"   // a number: plain, or computed
	AWFOutputs  Dialect = "awf-outputs"  // a JSON object of values and templates
)

// foreign is an expression parsed by another library.
type foreign interface {
	// paths returns the names that it reads, with their offsets in the text.
	paths() []foreignPath
	eval(env Env) (any, error)
}

// foreignPath is a name that a foreign expression reads.
type foreignPath struct {
	written    []string
	start, end int
	any        bool   // read as part of all names
	guarded    bool   // read only if it exists, or if what it is part of is not empty
	members    bool   // a block is rendered for its members only
	computed   bool   // a member is read whose name is computed
	text       string // the identifier that holds the text of the value; "" if the value itself is read
}

// foreign reports whether expressions of the dialect are parsed by another library.
func (d Dialect) foreign() bool {
	switch d {
	case AWF, AWFLenient, AWFTemplate, AWFItems, AWFNumber, AWFOutputs:
		return true
	}
	return false
}

// MissingIsFalse reports whether a condition on a missing value is false rather than an error.
func (d Dialect) MissingIsFalse() bool { return d == AWF || d == AWFLenient }

// ErrorIsFalse reports whether a condition that cannot be evaluated counts as false. Eval and Bool return the error
// nevertheless, for the records.
func (d Dialect) ErrorIsFalse() bool { return d == AWFLenient }

// OmitsRoots reports whether names may be written without the variable that they are part of.
func (d Dialect) OmitsRoots() bool { return d == AIFlow || d == AIFlowReference }

// AcceptsEveryValue reports whether conditions convert values of every type, so that none is wrong.
func (d Dialect) AcceptsEveryValue() bool { return d == AIFlowReference }

// MissingIsExpected reports whether replies often lack what a condition reads, so that nothing follows from it.
func (d Dialect) MissingIsExpected() bool { return d == AIFlow }

// MissingItemFails reports whether an index beyond the end of a list is an error.
func (d Dialect) MissingItemFails() bool { return d == AWF }

// ParseWithin is like Parse and ParseValue, which are the same for the dialects of AWF, for a text that the file
// contains with quotes, escapes or folding. within returns the span of a part of the text.
func ParseWithin(d Dialect, text string, at source.Span, within func(start, end int) source.Span) (*Expr, diag.List) {
	e := &Expr{Dialect: d, Text: text, Span: at, within: within}
	var list diag.List
	report := func(code diag.Code, start, end int, message, help string) {
		e.broken = true
		list.Errorf(code, within(start, end), help, "%s", message)
	}
	switch {
	case d != AWFTemplate && strings.TrimSpace(text) == "":
		report(CodeEmpty, 0, len(text), "The condition is empty.",
			"Write a condition such as inputs.name != \"\", or remove the key.")
		return e, list
	case d != AWFTemplate && d != AWFItems && d != AWFOutputs && len(text) > maxText:
		report(CodeTooLong, maxText, len(text), "The expression is too long.",
			"Let a step compute the decision and compare its result.")
		return e, list
	case strings.TrimSpace(text) == "":
		e.other = &template{text: text}
		return e, nil
	}
	var other foreign
	switch d {
	case AWFTemplate:
		other = readTemplate(text, report)
	case AWFItems:
		other = readItems(text, report)
	case AWFNumber:
		other = readNumber(text, report)
	case AWFOutputs:
		other = readOutputs(text, report)
	default:
		other = readCondition(text, report)
	}
	if !e.broken {
		e.other = other
	}
	return e, list
}

// parseForeign parses an expression of a foreign dialect.
func parseForeign(d Dialect, text string, at source.Span) (*Expr, diag.List) {
	return ParseWithin(d, text, at, func(start, end int) source.Span { return place(at, text, start, end) })
}

// reporter reports an error in the bytes [start, end) of a text.
type reporter func(code diag.Code, start, end int, message, help string)

// StateFields returns the properties of a step's state in AWF.
func StateFields() []string {
	return []string{
		"Status", "Output", "Stderr", "ExitCode", "Error", "Response", "JSON", "Outputs",
		"TokensUsed", "TokensInput", "TokensOutput", "TokensEstimated", "Conversation",
	}
}

// canonicalField returns a property of a state as StateFields spells it. Case and underscores do not matter: exit_code
// is ExitCode.
func canonicalField(name string) string {
	plain := plainName(name)
	if plain == "data" {
		return "Response" // its name in AWF's documentation
	}
	for _, f := range StateFields() {
		if strings.ToLower(f) == plain {
			return f
		}
	}
	return name
}

// facts are the properties below some roots: by their names in AWF, those in the program.
var facts = map[string]map[string]string{
	"workflow": {"ID": "id", "Name": "name", "CurrentState": "step", "StartedAt": "started", "Duration": "duration"},
	"error":    {"Message": "error", "Type": "class", "State": "step", "ExitCode": "exit"},
	"context":  {"WorkingDir": "WorkingDir", "User": "User", "Hostname": "Hostname"},
}

// AWFFact reports whether a name below workflow, error, context or loop exists, and returns the names that do. Other
// names always exist.
func AWFFact(written []string) (known []string, ok bool) {
	if len(written) < 2 {
		return nil, true
	}
	known = slices.Sorted(maps.Keys(facts[written[0]]))
	if written[0] == "loop" {
		known = []string{"Item", "Index", "Index1", "First", "Last", "Length", "Parent"}
	}
	fact := plainName(written[1])
	is := func(name string) bool { return strings.ToLower(name) == fact }
	return known, len(known) == 0 || slices.ContainsFunc(known, is)
}

// plainName returns a name without case and underscores, by which names are compared.
func plainName(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

// awfPath returns the program variable of a name in an AWF file. It does not change written.
func awfPath(written []string) []string {
	if len(written) == 0 {
		return written
	}
	out := slices.Clone(written)
	rest := out[1:]
	rename := func(root string) {
		out[0] = root
		for name, fact := range facts[written[0]] {
			if len(rest) > 0 && strings.ToLower(name) == plainName(rest[0]) {
				rest[0] = fact
				break
			}
		}
	}
	switch written[0] {
	case "inputs":
		out[0] = "input"
	case "states":
		// The documented form for branches is states.parallel.steps.branch.output.
		if len(out) > 3 && out[2] == "steps" {
			out = append([]string{"states", out[3]}, out[4:]...)
		}
		if len(out) > 2 {
			out[2] = canonicalField(out[2])
		}
	case "workflow":
		rename("run")
	case "error":
		rename("last")
	case "context":
		rename("context")
	case "loop":
		for i := range rest {
			name := plainName(rest[i])
			rest[i] = name
			if name != "parent" {
				break
			}
		}
	}
	return out
}

// roots are the first segments of all names in AWF.
var roots = []string{"inputs", "states", "workflow", "env", "context", "awf", "loop", "error"}

// lookup returns the value of a name in an AWF file.
func lookup(env Env, written []string) (any, bool) {
	path := awfPath(written)
	if env == nil {
		return nil, false
	}
	last := path[len(path)-1]
	if path[0] == "loop" && slices.Contains(path[:len(path)-1], "item") {
		return env.Lookup(path) // a property of the item
	}
	switch {
	case path[0] == "loop" && last == "index1":
		v, ok := env.Lookup(append(slices.Clone(path[:len(path)-1]), "index"))
		if n, isNumber := v.(float64); ok && isNumber {
			return n + 1, true
		}
		return nil, false
	case path[0] == "loop" && last == "item":
		v, ok := env.Lookup(path)
		if !ok {
			if _, inLoop := env.Lookup(path[:len(path)-1]); inLoop {
				return "null", true // a while loop has no item
			}
		}
		return v, ok
	case path[0] == "loop" && (len(path) == 1 || last == "parent"):
		v, ok := env.Lookup(path)
		return loopObject(v), ok
	case path[0] == "run" && len(path) == 1:
		return allFacts(env, "workflow", runFact), true
	case path[0] == "run" && len(path) == 2:
		return runFact(env, last)
	case path[0] == "last" && len(path) == 1:
		return allFacts(env, "error", errorFact), true
	case path[0] == "last" && len(path) == 2:
		return errorFact(env, last)
	}
	v, ok := env.Lookup(path)
	if path[0] == "states" && (!ok || v == nil) {
		return withoutState(path, v, ok)
	}
	return v, ok
}

// allFacts returns the properties of a root, by their names in AWF.
func allFacts(env Env, root string, value func(env Env, fact string) (any, bool)) map[string]any {
	all := map[string]any{}
	for name, fact := range facts[root] {
		if v, ok := value(env, fact); ok {
			all[name] = v
		}
	}
	return all
}

// withoutState returns what is known of a state that has no such property: before the first step there are no states,
// and only models use tokens.
func withoutState(path []string, v any, ok bool) (any, bool) {
	switch {
	case len(path) == 1:
		return map[string]any{}, true
	case len(path) == 3 && (path[2] == "TokensUsed" || path[2] == "TokensInput" || path[2] == "TokensOutput"):
		return 0.0, true
	case len(path) == 3 && path[2] == "TokensEstimated":
		return false, true
	}
	return v, ok
}

// errorFact returns a property of the failed step. Its exit code is part of its value, and so is its name if hooks have
// run since.
func errorFact(env Env, fact string) (any, bool) {
	switch fact {
	case "exit":
		if v, ok := env.Lookup([]string{"last", "value", "ExitCode"}); ok {
			return v, true
		}
		return -1.0, true // not a command, or it did not start
	case "step":
		if v, ok := env.Lookup([]string{"last", "value", HookedState}); ok {
			return v, true
		}
	}
	return env.Lookup([]string{"last", fact})
}

// HookedState is the key under which a step that forwards the result of another step stores the name of that step.
const HookedState = "EndedState"

// runFact returns a property of the run, with times in the format of AWF.
func runFact(env Env, fact string) (any, bool) {
	number := func(name string) (float64, bool) {
		v, ok := env.Lookup([]string{"run", name})
		n, isNumber := v.(float64)
		return n, ok && isNumber
	}
	switch fact {
	case "started":
		n, ok := number("started")
		return time.UnixMilli(int64(n)).UTC().Format(time.RFC3339), ok
	case "duration":
		began, ok := number("started")
		now, also := number("at")
		return time.Duration(int64(now-began) * int64(time.Millisecond)).String(), ok && also
	}
	return env.Lookup([]string{"run", fact})
}

// loopObject returns the variables of a loop under the names of AWF.
func loopObject(v any) any {
	o, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for name, key := range map[string]string{
		"Index": "index", "First": "first", "Last": "last", "Length": "length", "Item": "item",
	} {
		out[name], out[key] = o[key], o[key]
	}
	if n, ok := o["index"].(float64); ok {
		out["Index1"], out["index1"] = n+1, n+1
	}
	if parent, ok := o["parent"]; ok {
		out["Parent"] = loopObject(parent)
		out["parent"] = out["Parent"]
	}
	return out
}

// valueTree returns the values of names as one tree, and reports whether one is missing. Short names come first: the
// value of a name contains those of longer ones, which then need no place of their own. Names whose text is read
// instead (foreignPath.text) are not in the tree.
func valueTree(env Env, paths []foreignPath, convert func(written []string, v any) any) (map[string]any, bool) {
	tree, missing := map[string]any{}, false
	sorted := slices.Clone(paths)
	slices.SortStableFunc(sorted, func(a, b foreignPath) int { return len(a.written) - len(b.written) })
	for _, p := range sorted {
		v, ok := lookup(env, p.written)
		if !ok {
			missing = true
		}
		if !ok || p.text != "" {
			continue
		}
		at := tree
		last := len(p.written) - 1
		for _, name := range p.written[:last] {
			next, isMap := at[name].(map[string]any)
			switch whole := at[name].(type) { // its parent is read, too
			case object:
				next, isMap = whole, true
			case untrustedObject:
				next, isMap = whole, true
			case trustedObject:
				next, isMap = whole, true
			}
			if !isMap {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		if _, there := at[p.written[last]]; !there {
			at[p.written[last]] = convert(p.written, v)
		}
	}
	return tree, missing
}

// withIntegers returns a value with its integral numbers as int, so that 1000000 is not printed as 1e+06. It copies
// lists and objects, because an Env may share them.
func withIntegers(v any) any {
	switch x := v.(type) {
	case []any:
		x = slices.Clone(x)
		for i := range x {
			x[i] = withIntegers(x[i])
		}
		return x
	case map[string]any:
		x = maps.Clone(x)
		for k := range x {
			x[k] = withIntegers(x[k])
		}
		return x
	}
	return wholeNumber(v)
}

// wholeNumber returns an integral number as int, and every other value as it is.
func wholeNumber(v any) any {
	if x, ok := v.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int(x)
	}
	return v
}

// plainData converts the result of another library to float64, []any and map[string]any.
func plainData(v any) (any, error) {
	switch x := v.(type) {
	case nil, bool, string, float64:
		return v, nil
	case int:
		return float64(x), nil
	case int64: // float64 would round it
		return x, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(raw, &out)
	return out, err
}

// coerced converts a text that looks like a number or a boolean, as AWF does with inputs in conditions: "007" equals 7.
func coerced(s string) any {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f
	}
	switch strings.ToLower(s) {
	case "true":
		return true
	case "false":
		return false
	}
	return s
}
