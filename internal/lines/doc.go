// Command lines counts the product code, and how the commits of the restructuring changed its size.
//
// A line counts if it holds a Go token: comments and blank lines do not count. Product code is every Go and assembly
// file except tests (_test.go), test data, generated files, packages for tests (their names end in "test") and the
// packages arch, bench, lines and soak. Code that moves from a product package to a package for tests counts as
// removed.
//
// Commits of the restructuring have the trailer "House: yes" or are listed in commits.txt. One of these also changes
// behavior: 1821cc5b replaces our evaluator of Python, eight of whose functions were to be split, by CPython. It makes
// up most of what the restructuring has removed, so the sum is also printed without it. Merges do not count: their
// changes belong to the commits that they merge. The argument -all shows all commits since the start.
package main
