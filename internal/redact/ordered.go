package redact

import (
	"bytes"
	"encoding/json"
)

// Ordered is JSON, but keeps the order of the members of objects. It costs more than JSON, which is tried first: most
// values have nothing to redact.
func (r *Rules) Ordered(raw json.RawMessage) (json.RawMessage, bool, error) {
	hidden, found, err := r.JSON(raw)
	if err != nil || !found {
		return raw, found, err
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	open, err := in.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return hidden, true, err // a single value has no order
	}
	out := append([]byte(nil), raw[bytes.IndexAny(raw, "{[")])
	for first := true; in.More(); first = false {
		if !first {
			out = append(out, ',')
		}
		var key json.Token
		if open == json.Delim('{') {
			if key, err = in.Token(); err != nil {
				return nil, false, err
			}
		}
		var part json.RawMessage
		if err := in.Decode(&part); err != nil {
			return nil, false, err
		}
		if out, err = r.appendPart(out, key, part); err != nil {
			return nil, false, err
		}
	}
	if open == json.Delim('{') {
		return append(out, '}'), true, nil
	}
	return append(out, ']'), true, nil
}

// appendPart appends a member of an object, or an item of a list if key is nil.
// A member whose name decides is redacted as a whole.
func (r *Rules) appendPart(out []byte, key json.Token, part json.RawMessage) ([]byte, error) {
	if name, ok := key.(string); ok {
		raw, err := json.Marshal(map[string]json.RawMessage{name: part})
		if err != nil {
			return nil, err
		}
		hidden, found, err := r.JSON(raw)
		if err != nil {
			return nil, err
		}
		var one map[string]json.RawMessage
		if err := json.Unmarshal(hidden, &one); err != nil {
			return nil, err
		}
		for shown, value := range one { // there is one
			quoted, err := json.Marshal(shown)
			if err != nil {
				return nil, err
			}
			out = append(append(out, quoted...), ':')
			if scalar := part[0] != '{' && part[0] != '['; found && (scalar || value[0] != part[0]) {
				return append(out, value...), nil
			}
		}
	}
	inner, _, err := r.Ordered(part)
	return append(out, inner...), err
}
