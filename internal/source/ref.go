package source

import "fmt"

// RefProblem is the reason why a reference to another file cannot be followed.
type RefProblem string

// The reasons why a reference cannot be followed.
const (
	RefMissing  RefProblem = "missing"  // the file does not exist
	RefAbsolute RefProblem = "absolute" // absolute paths are never followed
	RefEscapes  RefProblem = "escapes"  // leaves the project root, by .. or a symbolic link
	RefNotFile  RefProblem = "notfile"  // a directory, a device, …
	RefTooLarge RefProblem = "toolarge"
	RefUnread   RefProblem = "unreadable"
)

// RefError reports a reference that cannot be followed.
type RefError struct {
	Ref     string
	Problem RefProblem
	Detail  string   // the error of the operating system, or the places searched
	Near    []string // similar names that exist
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
