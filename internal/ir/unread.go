package ir

import (
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// Unread describes the parts of a file that were reported as unreadable. A definition that the program lacks may be in
// one of them. Checks for undefined, unwritten or unused names call Explains first, so that one mistake is reported
// once.
type Unread struct {
	// Header is set if the part before the first step is unreadable.
	Header bool `json:"header,omitempty"`
	// Steps is set if a step, or an edge between steps, is unreadable.
	Steps bool `json:"steps,omitempty"`
	// Rest is set if the file appears to be truncated, so that any definition may be missing.
	Rest  bool     `json:"rest,omitempty"`
	Texts []string `json:"texts,omitempty"`
	// Warned are texts that were reported as warnings only. They do not explain errors: otherwise a file that cannot
	// work would pass validation.
	Warned []string `json:"warned,omitempty"`
}

// Any reports whether some part of the file is unreadable.
func (u *Unread) Any() bool {
	return u.Header || u.Steps || u.Rest || len(u.Texts) > 0 || len(u.Warned) > 0
}

// Explains reports whether a diagnostic of the given severity is probably a consequence of an unreadable part, because
// a name it concerns occurs there. A dotted name matches where its parent or a child of it occurs. More than maxUnread
// unreadable parts explain everything: looking for every name in them would take too long.
func (u *Unread) Explains(severity diag.Severity, names ...string) bool {
	return u.Rest || occurs(u.Texts, names) || severity < diag.Error && occurs(u.Warned, names)
}

// maxUnread is more parts than a file has diagnostics that are shown.
const maxUnread = 200

func occurs(texts, names []string) bool {
	if len(texts) > maxUnread {
		return true
	}
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

// mentions reports whether text contains name as a whole word, or as the beginning of a path.
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

// joins reports whether c can be part of a name.
func joins(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= 0x80
}
