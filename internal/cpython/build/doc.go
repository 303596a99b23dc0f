// Command build prepares the interpreter that package cpython embeds. Run it with
// "go run ./internal/cpython/build" from the root of the repository; it needs npm.
//
// It fetches a build of CPython for WASI, verifies its checksum, removes the
// debugging sections, starts the interpreter, imports host.py and the modules of
// preload.py, and writes a module whose memory is the memory of that interpreter. An instance of it
// is ready to run code at once. The result is reproducible: clock and random numbers
// are fixed.
package main
