// Package expr is the conditions that workflows are written with: one grammar,
// a dialect and a coercion profile per format; parsed, checked and evaluated
// without side effects.
package expr

// A condition travels lex → parse → lint, once, when its file is read, and is
// then a small tree that Eval walks without allocating.
//
// What differs between formats is one value of the struct dialect: words,
// constants, functions and a profile. The profile is four functions that say
// what counts as true, equal, smaller and contained. A new format adds a
// dialect in dialect.go; the grammar in parse.go stays one, unless the format
// is defined by a grammar that cannot be part of it: AIFLOW's is in aiflow.go,
// and makes the same tree. Its profile is in loose.go.
//
// The meaning of the strict profile, which Agent Flow has:
//   - a name that leads nowhere is null;
//   - == and != compare anything, and values of two types are never equal;
//   - < <= > >= compare number with number and text with text (by bytes). With
//     null they are false; any other pair is an error;
//   - contains (and `in`, its mirror image) looks for a part of a text, an
//     element of a list or a key of an object. null contains nothing;
//   - a condition is true or false, null counts as false, everything else is
//     an error. The operands of and, or, not are conditions;
//   - empty is null, "", [] and {}; numbers and booleans never are;
//   - .length and len() count characters, elements or keys. The length of
//     null is null. A key called "length" wins over the accessor.
//
// Nothing can run away: text, nesting, lists and results are capped, and an
// operator looks at each part of its operands at most once.
