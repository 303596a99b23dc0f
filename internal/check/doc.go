// Package check is what must hold for any program, whatever format it was
// written in: names, order, ends, tools, budgets; and what a run can cost.
package check

// flow.go turns a program into a graph of the ways in which its steps can
// follow each other; names, order and ends are questions to that graph, and
// cost.go finds the longest and the cheapest way through it. Nothing here
// asks for the format: what a name may be comes from the program itself.
//
// Sound is apart: it holds the formats to what a program must be, and speaks to
// programmers. What authors are told about has a code and a page.
//
// A file that is right must come through without a word. So every check asks
// for certainty before it says "error", and for probability before it says
// "warning".
