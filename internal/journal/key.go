package journal

import (
	"strconv"
	"strings"
)

var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E", "#", "%23", ":", "%3A", "@", "%40")

// KeySegment returns the name of a step or branch as the paths of frames contain it.
func KeySegment(name string) string {
	if !strings.ContainsAny(name, "%/~#:@") {
		return name
	}
	return escaper.Replace(name)
}

// appendKey appends "frame/step~visit:part#attempt", without parts that are zero.
func (w TaskID) appendKey(b []byte) []byte {
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

// PlaceName returns the key of a place as people read it: "each.check[2]" is step check in the third round of the loop
// each, or of the innermost loop around it, and "call › check" is step check of the workflow that step call calls. It
// has no numbers of visits and attempts, nor names of branches.
func PlaceName(key string) string { return placeName(key, StepName(key)) }

// LocalName is PlaceName within the run of the step, without the steps that called the run.
func LocalName(key string) string { return PlaceName(local(key)) }

// LocalID is LocalName with the ID of the step, which tells steps that a format has generated from those of the file.
func LocalID(key string) string { return placeName(local(key), StepID(key)) }

func local(key string) string {
	const call = "/" + FrameCall + "/"
	if i := strings.LastIndex(key, call); i >= 0 {
		return key[i+len(call):]
	}
	return key
}

func placeName(key, step string) string {
	parts := strings.Split(key, "/")
	if len(parts)%2 == 0 { // not a step after pairs of a step and its frame: a name has a slash
		return key
	}
	var b strings.Builder
	round := ""
	for i := 0; i+1 < len(parts); i += 2 {
		b.WriteString(withoutNumbers(parts[i]))
		switch frame := parts[i+1]; {
		case frame == FrameCall:
			b.WriteString(round + " › ")
			round = ""
			continue
		case strings.Trim(frame, "0123456789") == "":
			round = "[" + frame + "]"
		}
		b.WriteByte('.')
	}
	return b.String() + step + round
}

// PlaceNames returns places as people read them: by name or, if two have the same name, by key.
func PlaceNames(keys []string) []string {
	names, seen := make([]string, len(keys)), make(map[string]bool, len(keys))
	for i, key := range keys {
		names[i] = PlaceName(key)
		if seen[names[i]] {
			return keys
		}
		seen[names[i]] = true
	}
	return names
}

// FrameCall is the name of the frame of a child run.
const FrameCall = "call"
