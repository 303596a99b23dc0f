// Command soak executes commands on runs from several processes at once and checks what becomes of the runs. Every pair
// of commands meets in every format, with kills and shifted clocks. Meanwhile other runs have a full disk, and a server
// and a worker with readers that do not read must not grow.
package main
