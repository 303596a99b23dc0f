// Command bench measures what `make bench` promises: validation, start-up and
// layout, each beside something known that is measured in the same run.
package main

// Processor time of child processes is used where it can be, because it says
// the same on a busy machine; every figure is the median of several runs.
