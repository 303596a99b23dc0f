package journal

import (
	"strconv"
	"strings"
)

// appendKey appends "frame/step~visit:part#attempt", without parts that are zero.
func (w Work) appendKey(b []byte) []byte {
	b = w.Place.appendKey(b)
	if w.Part != "" {
		b = append(b, ':')
		b = append(b, w.Part...)
	}
	b = append(b, '#')
	return strconv.AppendInt(b, int64(w.Attempt), 10)
}

func (p Place) appendKey(b []byte) []byte {
	if p.Frame != "" {
		b = append(b, p.Frame...)
		b = append(b, '/')
	}
	b = append(b, p.Step...)
	if p.Visit > 0 {
		b = append(b, '~')
		b = strconv.AppendInt(b, int64(p.Visit), 10)
	}
	return b
}

// Key returns the name of the place: that of its tasks, without part and attempt.
func (p Place) Key() string {
	var room [64]byte
	return string(p.appendKey(room[:0]))
}

// withoutNumbers removes the numbers of a visit and an attempt from the end of a part of a key.
func withoutNumbers(part string) string {
	for _, mark := range []byte{'@', '~'} {
		if i := strings.LastIndexByte(part, mark); i > 0 && strings.Trim(part[i+1:], "0123456789") == "" {
			part = part[:i]
		}
	}
	return part
}

// StepID returns the ID of the step in the key of a place.
func StepID(key string) string {
	return withoutNumbers(key[strings.LastIndexByte(key, '/')+1:])
}

// StepName returns the name by which people know the step in the key of a place: that in the file of the workflow.
// Formats add a colon and a word to it for steps that they generate, such as the gate of a step.
func StepName(key string) string {
	id := StepID(key)
	if name, _, _ := strings.Cut(id, ":"); name != "" {
		return name
	}
	return id
}

// PlaceName returns the key of a place as people read it, without numbers of visits and attempts.
func PlaceName(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = withoutNumbers(parts[i])
	}
	parts[len(parts)-1] = StepName(key)
	return strings.Join(parts, "/")
}
