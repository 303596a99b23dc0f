// Package python parses Python and finds mistakes in it without running it.
package python

// lex.go, parse.go, parseexpr.go and match.go turn a text into a tree (tree.go). The grammar is that of CPython 3.12;
// tests parse the standard library of the installed python3. analyze.go finds undefined names, missing attributes and
// wrong arguments with the scopes of scope.go and the names of modules in library.txt. Package cpython runs the code.
