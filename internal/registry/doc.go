// Package builtin is the one list of what ships: formats and step kinds.
package registry

// Only this package imports the leaves. To ship another format or step kind,
// add one line here.
