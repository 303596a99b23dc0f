package source

import "fmt"

// RefProblem says why a reference to another file could not be followed.
type RefProblem string

// The ways in which following a reference fails.
const (
	RefMissing  RefProblem = "missing"  // nothing is there
	RefAbsolute RefProblem = "absolute" // absolute paths are never followed
	RefEscapes  RefProblem = "escapes"  // leaves the project root, by .. or by a symbolic link
	RefNotFile  RefProblem = "notfile"  // a folder, a device, …
	RefTooLarge RefProblem = "toolarge"
	RefUnread   RefProblem = "unreadable"
)

// RefError is a reference that could not be followed.
type RefError struct {
	Ref     string
	Problem RefProblem
	Detail  string   // what the operating system said, or where was looked
	Near    []string // names that exist and look alike
}

func (e *RefError) Error() string {
	switch e.Problem {
	case RefMissing:
		return fmt.Sprintf("there is no file %q", e.Ref)
	case RefAbsolute:
		return fmt.Sprintf("%q is an absolute path", e.Ref)
	case RefEscapes:
		return fmt.Sprintf("%q leads outside the project", e.Ref)
	case RefNotFile:
		return fmt.Sprintf("%q is not a regular file", e.Ref)
	case RefTooLarge:
		return fmt.Sprintf("%q is too large: %s", e.Ref, e.Detail)
	default:
		return fmt.Sprintf("%q cannot be read: %s", e.Ref, e.Detail)
	}
}
