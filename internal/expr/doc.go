// Package expr implements the conditions and templates of workflows: one grammar with a dialect and a coercion profile
// per format, parsed, checked and evaluated without side effects.
package expr

// A condition is lexed, parsed and linted once, when its file is read. The result is a small tree, which Eval walks
// without allocating.
//
// The differences between formats are the fields of the struct dialect: words, constants, functions and a profile. A
// profile consists of four functions that define truth, equality, order and containment. A new format adds a dialect in
// dialect.go and shares the grammar in parse.go. AIFLOW's grammar cannot be expressed that way, so aiflow.go has a
// parser that produces the same tree; its profile is in coerce.go. AWF's conditions are expr-lang and its texts are Go
// templates; both are hidden behind the interface foreign in awf.go.
//
// The strict profile, used by Agent Flow:
//   - a name without a value is null;
//   - == and != compare anything, and values of two types are never equal;
//   - < <= > >= compare number with number and text with text (by bytes). With
//     null they are false; any other pair is an error;
//   - contains (and `in` with the operands swapped) looks for a part of a text,
//     an element of a list or a key of an object. null contains nothing;
//   - a condition is true or false, null counts as false, everything else is
//     an error. The operands of and, or, not are conditions;
//   - empty is null, "", [] and {}; numbers and booleans never are;
//   - .length and len() count characters, elements or keys. The length of
//     null is null. A key called "length" takes precedence over the accessor.
//
// Conditions come from untrusted files: the length of the text, nesting, lists and results are limited, and an operator
// visits each part of its operands at most once.
