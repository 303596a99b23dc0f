// Command soak executes commands on one run from several processes at once and
// checks what becomes of the run.
package main
