package ir

import (
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// Unread is the parts of a file that nothing could be made of, after a
// diagnostic that says so. What a program lacks may stand there: a complaint
// that something is not defined, not written or not used asks Explains first,
// so that one mistake is reported once.
type Unread struct {
	// Header says that what the file states before its first step is among them.
	Header bool `json:"header,omitempty"`
	// Steps says that a step, or a way from one to another, is among them.
	Steps bool `json:"steps,omitempty"`
	// Rest says that the file seems to end before its time, so that anything
	// may be among them.
	Rest  bool     `json:"rest,omitempty"`
	Texts []string `json:"texts,omitempty"`
	// Warned are texts that only a warning was given for. They explain no
	// error, else a file that cannot work would pass.
	Warned []string `json:"warned,omitempty"`
}

// Explains reports whether a complaint of some weight is probably only a
// consequence, because a name that it rests on occurs in what was not read. A
// dotted name occurs where something below or around it does.
func (u *Unread) Explains(severity diag.Severity, names ...string) bool {
	return u.Rest || occurs(u.Texts, names) || severity < diag.Error && occurs(u.Warned, names)
}

func occurs(texts, names []string) bool {
	for _, text := range texts {
		for _, name := range names {
			if segments := strings.SplitN(name, ".", 3); len(segments) == 3 {
				name = segments[0] + "." + segments[1]
			}
			if mentions(text, name) {
				return true
			}
		}
	}
	return false
}

// mentions reports whether a text has a name as a whole word, or as the
// beginning of a path.
func mentions(text, name string) bool {
	if name == "" {
		return false
	}
	for at := 0; ; at++ {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(name)
		if (at == 0 || !joins(text[at-1]) && text[at-1] != '.') && (end == len(text) || !joins(text[end])) {
			return true
		}
	}
}

// joins reports whether a byte belongs to the name that it stands beside.
func joins(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= 0x80
}
