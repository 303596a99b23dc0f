// Package stepkind describes the kinds of tasks, the work of leaf steps, to code that does not run them: it checks
// settings, lists agents and tools, bounds costs and defines the contracts of model replies.
package stepkind

// Package kinds has the kinds that ship, with their settings, which formats write; package catalog lists them. A
// package below step runs the tasks of each. Checks use the Kind interface.
//
// bounds.go holds all assumptions of estimates.
//
// This package, the kinds and the packages that check workflows do not depend on models, tools or processes.
