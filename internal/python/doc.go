// Package python implements a hermetic subset of Python: a lexer, a parser with
// spans, and an evaluator without access to the machine.
package python

// lex.go and parse.go turn a text into a tree (tree.go); eval.go walks the tree.
// The semantics are those of CPython, so tests compare the output of programs
// with it.
//
// Invariant: every operation whose time or result size depends on its operands
// calls Thread.spend or Thread.grow before it does the work. Programs come from
// untrusted files, and nothing else bounds them.
//
// Starlark is not used underneath: it has no exceptions, prints floats and
// containers differently, and its step limit does not bound memory, so every
// operator would have to be replaced by a function of this package.
//
// The parser reports constructs outside of the subset as CodeSubset. A program
// with such a diagnostic is never evaluated.
