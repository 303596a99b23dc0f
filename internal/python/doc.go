// Package python is a hermetic subset of Python: lexer, parser with spans, and
// an evaluator that cannot touch the machine.
package python

// A text travels lex.go → parse.go → a tree (tree.go), once; eval.go walks the
// tree. There is no compiler and no other language below: what a program does
// is Python's own semantics, so that tests can hold every program against
// CPython, and every operation that can grow or take long passes through
// Thread.spend or Thread.grow.
//
// The tree is not lowered to Starlark, which was the first plan: it has no
// exceptions, prints floats and containers differently, and its step limit
// does not bound memory, so every operator would have had to become a call of
// ours. Then nothing of it is left but the control flow.
//
// What is not in the subset is reported by the parser as CodeSubset and names
// the construct. A program with such a report is never evaluated.
