// Package builtin is the tools that are always there: files, commands and
// requests over HTTP, each kept where it belongs.
package builtin

// Files are reached through os.Root, one step of the path at a time, and every
// step is looked at before it is taken and compared after: a folder that turns
// into a link in between is noticed. What holds the records of runs, and what
// decides which tools there are, cannot be reached even inside the project.
