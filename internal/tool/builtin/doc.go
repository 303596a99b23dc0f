// Package builtin implements the tools that are always available: files, commands and HTTP requests, each confined to
// its permitted area.
package builtin

// Files are opened through os.Root, one element of the path at a time. Each element is inspected before it is opened
// and compared afterwards, so that a folder that is replaced by a link in between is detected. The records of runs, and
// the files that decide which tools exist, are inaccessible even inside the project.
