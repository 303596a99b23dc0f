// Package stepkind describes kinds of leaf work to code that does not run it: how
// their settings are checked, what their tasks name, what they can cost and what
// the replies of models must be.
package stepkind

// Package step runs the work. Each kind lives in a folder below it and is listed
// once, in the registry. It alone knows its settings: formats write them, and no
// other package reads them. Checks ask through Kind.
//
// bounds.go holds every number that an estimate assumes.
//
// This package and those that check workflows do not depend on models, tools or
// processes.
