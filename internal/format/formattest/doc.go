// Package formattest tests the semantics of all formats: it compiles small workflows, runs them
// on the real engine with scripted models and a virtual clock, and compares the events with
// recorded ones.
package formattest

// There are two suites, both defined by text files in testdata.
//
// programs/NAME contains the same program in several formats. program.txtar describes it and
// its required result: the outcome, the output and the order of the steps that do work.
// FORMAT.txtar contains the files of one format, the first of which is run; FORMAT.cannot.txt
// states why a format cannot express the program. A format joins the suite with its files and
// one entry in the list "columns"; from then on every program needs one of the two.
//
// runs/FORMAT contains one file for each decision or feature of a format: the workflow, a
// script of replies, the actions of people, and the record of all events. "go test -update"
// rewrites the records; review the diff.
//
// Everything is in test files, because the package is above all layers.
