package ir

import "strings"

// Unread is the parts of a file that nothing could be made of, after an error
// or a warning that says so. What is missing from a program may stand there:
// a complaint that something is not defined, not written or not used asks
// Mentions first, so that one mistake is reported once.
type Unread struct {
	// Header says that what the file states before its first step is among them.
	Header bool     `json:"header,omitempty"`
	Texts  []string `json:"texts,omitempty"`
}

// Mentions reports whether one of the names, or a path that begins with it,
// occurs in what was not read.
func (u *Unread) Mentions(names ...string) bool {
	for _, text := range u.Texts {
		for _, name := range names {
			if mentions(text, name) {
				return true
			}
		}
	}
	return false
}

// MentionsPath is Mentions for a dotted path of the state: what stands below
// or around it counts as well.
func (u *Unread) MentionsPath(path string) bool {
	if len(u.Texts) == 0 {
		return false
	}
	root, rest, dotted := strings.Cut(path, ".")
	if dotted {
		first, _, _ := strings.Cut(rest, ".")
		root += "." + first
	}
	return u.Mentions(root)
}

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
