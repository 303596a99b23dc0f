// Package formattest is the proof that formats mean what they say: small
// workflows are compiled, run on the real engine with scripted models and a
// virtual clock, and what happened is compared with what is written down.
package formattest

// There are two suites, both made of text files in testdata.
//
// programs/NAME holds the same program in several formats. program.txtar says
// what it does and what must come of it: the outcome, the output and the order
// of the steps that do work. FORMAT.txtar holds the files of one format, the
// first of which is run; FORMAT.cannot.txt says why a format cannot express
// the program. A format joins by its files and by one line in the list
// "columns"; from then on every program needs one of the two.
//
// runs/FORMAT holds what is particular to one format, one file for each
// decision or feature: the workflow, a script of replies, what people do, and
// the record of all that happened. "go test -update" writes the records anew;
// read the difference.
//
// Everything is in test files, because it stands above all layers.
