// Command bench measures what `make bench` promises: validation, start-up and
// layout, each beside something known that is measured in the same run.
package main

// Everything runs in child processes, by turns, and what counts is the median
// of their processor time, because that says nearly the same on a busy machine.
