// Package cpython runs the code of workflows in CPython 3.12, compiled to WebAssembly.
//
// The code has a connection to the host, a clock and random numbers that the caller
// supplies, and nothing else: no files, no network, no environment, no threads. Its
// memory is bounded, and it ends when the context ends.
package cpython

// python.wasm.gz is a module whose memory is that of an interpreter that has started
// and has imported host.py and the modules that code usually needs (build/preload.py).
// An instance therefore runs code within milliseconds. "go run ./internal/cpython/build"
// writes it from a published build of CPython; the result is reproducible.
//
// wazero translates the module to machine code once per machine, which takes some
// seconds, and keeps the result in the user's cache folder (cache.go).
