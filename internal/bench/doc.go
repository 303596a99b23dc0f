// Command bench measures what `make bench` promises: validation, start-up and layout, each relative to a known baseline
// that is measured in the same run.
package main

// Everything runs in alternating child processes, and the median of their CPU time counts, because it hardly depends on
// the load of the machine.
