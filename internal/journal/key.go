package journal

import "strconv"

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
