// Package protected decides which files a run must never write, such as the configuration of programs, and writes the
// files that are allowed. Package private is about other users of the machine.
package protected

// A file that a model chooses the name of must not become the configuration of
// a program that runs later: git runs hooks and an fsmonitor command, direnv
// runs .envrc, editors and coding agents run tasks and hooks, and Espalier runs
// the commands of espalier.yaml. Such files are nearly always hidden, so the
// rule is default-deny for names that begin with a dot, plus a list of other
// names. It holds for every component of a path in every folder.
//
// Source code and build files (package.json, Makefile, pyproject.toml) are
// allowed: they are what coding workflows produce, and running them takes a
// command that needs consent of its own.
