// Package stepkind describes the kinds of tasks, the work of leaf steps, to code that does not run them: it checks
// settings, lists agents and tools, bounds costs and defines the contracts of model replies.
package stepkind

// Package step runs the tasks. Each kind is a package below step, is listed once in the registry, and is the only
// package that reads its settings; formats write them. Checks use the Kind interface.
//
// bounds.go holds all assumptions of estimates.
//
// This package and those that check workflows do not depend on models, tools or processes.
