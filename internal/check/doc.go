// Package check validates programs of all formats (names, order, termination, tools, budgets) and estimates the cost of
// a run.
package check

// flow.go turns a program into a graph of the ways in which its steps can follow each other. The checks of names, order
// and termination query that graph; cost.go finds its most expensive and its cheapest path. No check depends on the
// format: the names that exist come from the program itself.
//
// A correct file must produce no diagnostics. Therefore a check reports an error only if the problem is certain, and a
// warning only if it is probable.
