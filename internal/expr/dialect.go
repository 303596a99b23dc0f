package expr

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// dialect holds the differences between the conditions of formats.
type dialect struct {
	// words are the operators written with letters. They are case-insensitive and reserved.
	words map[string]tokenKind
	// constants are case-sensitive.
	constants map[string]value
	// elsewhere maps spellings of other languages to constants, for diagnostics.
	elsewhere map[string]string
	// symbols reports whether && || ! are part of the language. Otherwise they are accepted with a note.
	symbols bool
	// calculates reports whether the dialect has arithmetic, chained comparisons and conditions about the items of
	// lists: any(x > 1 for x in list).
	calculates bool
	functions  map[string]*function
	profile    profile
	// The remaining fields are set by dialects with their own grammar.
	parse  func(p *parser) *node
	lint   func(p *parser, root *node)
	lookup func(env Env, path []string) value
	// bare returns the path that a name without a root reads first.
	bare func(path []string) []string
}

// function is a function of one or two arguments. A function that is another notation for an operator only has an op.
type function struct {
	takes   int
	op      op
	operand kind // allowed kinds of the first argument
	result  kind
	run     func(a, b value) (value, Problem)
}

// profile defines how a dialect converts and compares values.
type profile struct {
	// truth returns whether a condition with this value holds.
	truth func(v value) (bool, Problem)
	equal func(a, b value) (bool, Problem)
	// order returns a negative number, 0 or a positive number. It returns false if the values have no order; then every
	// comparison is false.
	order    func(a, b value) (int, bool, Problem)
	contains func(whole, part value) (bool, Problem)
}

// rules returns the rules of a dialect, or nil if it is unknown or foreign.
func (d Dialect) rules() *dialect {
	switch d {
	case AgentFlow:
		return &agentFlow
	case AIFlow:
		return &aiflow
	case AIFlowReference:
		return &aiflowReference
	case NOF:
		return &nof
	}
	return nil
}

// The two dialects of AIFLOW share the loose profile; they differ in their grammar and in how names are looked up.
var aiflow, aiflowReference = aiflowDialect(false), aiflowDialect(true)

// aiflowDialect returns a dialect of AIFLOW; with exact, that of the reference program.
func aiflowDialect(exact bool) dialect {
	return dialect{
		parse: parseAIFlow(exact), lint: (*parser).lintAIFlow, lookup: lookupAIFlow(exact), bare: bareAIFlow,
		profile: profile{truth: looseTruth, equal: looseEqual, order: looseOrder, contains: looseContains},
	}
}

// agentFlow is the dialect of Agent Flow, which is strict: values of different types are never equal, and a condition
// is true, false or null.
var agentFlow = dialect{
	words: map[string]tokenKind{
		"and": tokAnd, "or": tokOr, "not": tokNot, "contains": tokContains, "in": tokIn, "is": tokIs,
	},
	constants: map[string]value{
		"null": null(), "true": boolean(true), "false": boolean(false),
	},
	elsewhere: map[string]string{
		"none": "null", "nil": "null", "undefined": "null", "null": "null", "true": "true", "false": "false",
	},
	functions: map[string]*function{
		"contains": {takes: 2, op: opContains},
		"len":      {takes: 1, operand: sized | kindNull, result: kindNumber | kindNull, run: lengthOf},
		"text":     {takes: 1, operand: anyKind, result: kindText, run: textOf},
		"lower":    onText(strings.ToLower),
		"upper":    onText(strings.ToUpper),
		"trim":     onText(strings.TrimSpace),
	},
	profile: profile{truth: strictTruth, equal: strictEqual, order: strictOrder, contains: strictContains},
}

// nof extends the dialect of Agent Flow by the constants, arithmetic and comparisons of Python.
var nof = dialect{
	words: agentFlow.words, functions: nofFunctions(), profile: agentFlow.profile, calculates: true,
	constants: map[string]value{
		"None": null(), "True": boolean(true), "False": boolean(false),
		"null": null(), "true": boolean(true), "false": boolean(false),
	},
	elsewhere: map[string]string{"nil": "None", "undefined": "None"},
}

// nofFunctions returns the functions of Agent Flow, and any and all.
func nofFunctions() map[string]*function {
	out := maps.Clone(agentFlow.functions)
	out["any"] = &function{takes: 1, operand: kindList | kindNull, result: kindBool, run: quantified(true)}
	out["all"] = &function{takes: 1, operand: kindList | kindNull, result: kindBool, run: quantified(false)}
	return out
}

// quantified returns any or all: whether an item of a list is not empty, zero or false, or every one.
func quantified(wanted bool) func(a, b value) (value, Problem) {
	return func(a, _ value) (value, Problem) {
		switch a.kind {
		case kindNull:
			return boolean(!wanted), ""
		case kindList:
		default:
			return value{}, ProblemType
		}
		for _, item := range a.ref.([]any) {
			v := of(item)
			holds := v.length() > 0 || v.kind&(kindBool|kindNumber) != 0 && v.num != 0
			if holds == wanted {
				return boolean(wanted), ""
			}
		}
		return boolean(!wanted), ""
	}
}

// lengthOf implements len. The length of null is null, so that comparisons with it are false.
func lengthOf(a, _ value) (value, Problem) {
	if a.kind == kindNull {
		return a, ""
	}
	n := a.length()
	if n < 0 {
		return value{}, ProblemType
	}
	return number(float64(n)), ""
}

// textOf implements text.
func textOf(a, _ value) (value, Problem) {
	s, problem := a.canonical()
	return text(s), problem
}

// onText adapts a function of strings. null stays null.
func onText(change func(string) string) *function {
	const kinds = kindText | kindNull
	return &function{takes: 1, operand: kinds, result: kinds, run: func(a, _ value) (value, Problem) {
		switch {
		case a.kind == kindNull:
			return a, ""
		case a.kind != kindText:
			return value{}, ProblemType
		case len(a.str) > maxResult:
			return value{}, ProblemSize
		}
		return text(change(a.str)), ""
	}}
}

// strictTruth accepts true, false and null, which is false. Other values are an error rather than a guess.
func strictTruth(v value) (bool, Problem) {
	switch v.kind {
	case kindBool:
		return v.num != 0, ""
	case kindNull:
		return false, ""
	default:
		return false, ProblemNotCondition
	}
}

// strictEqual compares without conversion.
func strictEqual(a, b value) (bool, Problem) {
	visits := maxVisits
	return deepEqual(a, b, &visits, maxLevels)
}

// deepEqual compares without conversion: values of different types are unequal. It stops after *visits values.
func deepEqual(a, b value, visits *int, levels int) (bool, Problem) {
	if *visits--; *visits < 0 || levels == 0 {
		return false, ProblemSize
	}
	if a.kind != b.kind {
		return false, ""
	}
	switch a.kind {
	case kindNull:
		return true, ""
	case kindBool:
		return a.num == b.num, ""
	case kindNumber:
		return sameNumber(a, b), ""
	case kindText:
		return a.str == b.str, ""
	case kindList:
		x, y := a.ref.([]any), b.ref.([]any)
		if len(x) != len(y) {
			return false, ""
		}
		for i := range x {
			if same, problem := deepEqual(of(x[i]), of(y[i]), visits, levels-1); !same || problem != "" {
				return false, problem
			}
		}
		return true, ""
	case kindObject:
		x, y := a.ref.(map[string]any), b.ref.(map[string]any)
		if len(x) != len(y) {
			return false, ""
		}
		// The order is fixed so that exceeding the limit is deterministic.
		for _, key := range slices.Sorted(maps.Keys(x)) {
			other, ok := y[key]
			if !ok {
				return false, ""
			}
			if same, problem := deepEqual(of(x[key]), of(other), visits, levels-1); !same || problem != "" {
				return false, problem
			}
		}
		return true, ""
	default:
		return false, ProblemType
	}
}

// strictOrder orders numbers, and texts by their bytes. null and NaN have no order, so that comparisons with a value
// that is missing are false.
func strictOrder(a, b value) (int, bool, Problem) {
	switch {
	case a.kind == kindNull || b.kind == kindNull:
		return 0, false, ""
	case a.kind == kindNumber && b.kind == kindNumber:
		if a.num != a.num || b.num != b.num { // NaN
			return 0, false, ""
		}
		return cmp.Compare(a.num, b.num), true, ""
	case a.kind == kindText && b.kind == kindText:
		return strings.Compare(a.str, b.str), true, ""
	default:
		return 0, false, ProblemType
	}
}

// strictContains looks for a text in a text, for an item of a list, or for a key of an object. null contains nothing; a
// text or an object does not contain null.
func strictContains(whole, part value) (bool, Problem) {
	named := whole.kind == kindText || whole.kind == kindObject // what can only contain texts
	switch {
	case whole.kind == kindNull, named && part.kind == kindNull:
		return false, ""
	case whole.kind == kindText && part.kind == kindText:
		return strings.Contains(whole.str, part.str), ""
	case whole.kind == kindList:
		visits := maxVisits
		for _, item := range whole.ref.([]any) {
			if same, problem := deepEqual(of(item), part, &visits, maxLevels); same || problem != "" {
				return same, problem
			}
		}
		return false, ""
	case whole.kind == kindObject && part.kind == kindText:
		_, ok := whole.ref.(map[string]any)[part.str]
		return ok, ""
	}
	return false, ProblemType
}
