package combine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// merge is what the branches said, sorted into slots: one for each thing that
// there can be only one of.
type merge struct {
	shape shape
	slots []*slot
	byID  map[string]*slot
}

// shape is what the result is made of.
type shape int

const (
	aList   shape = iota // of the slots' values
	byGroup              // a list for each group
	byKey                // an object: each slot is a key
	one                  // a single value
)

// slot is one thing, and the claims about it.
type slot struct {
	group  string
	key    string // what people call it
	claims []*claim
	last   int // the claim that was made last
	chosen int // -1: not yet
	why    string
	reason string // of the critic
}

// claim is one thing that branches said, and who said it.
type claim struct {
	value json.RawMessage
	canon string
	from  []string // once for each time
}

// layOut sorts the branches' results into slots.
func layOut(set Settings, branches []step.Branch) *merge {
	m := &merge{byID: map[string]*slot{}}
	switch {
	case set.Strategy == ByType:
		m.shape = byGroup
	case len(set.DedupeKey) == 0 && allObjects(branches, set.Strategy == Vote):
		m.shape = byKey
	case len(set.DedupeKey) == 0 && set.Strategy == Vote:
		m.shape = one
	}
	for _, b := range branches {
		switch m.shape {
		case byKey:
			for _, f := range fields(b.Value) {
				m.add(b.Name, "", f.name, f.name, f.value)
			}
		case one:
			m.add(b.Name, "", "the result", "", b.Value)
		default:
			m.items(set, b)
		}
	}
	return m
}

// items adds each item of a branch's result (F22).
func (m *merge) items(set Settings, b step.Branch) {
	output, items := split(b.Value)
	for i, item := range items {
		own, _ := split(item)
		group := cmp.Or(text(output["type"]), text(own["type"]), b.Name)
		lookup := func(field string) json.RawMessage {
			switch value, ok := own[field]; {
			case field == "type" && m.shape == byGroup:
				return step.JSON(group)
			case ok:
				return value
			}
			return output[field]
		}
		id, label := identity(set.DedupeKey, lookup)
		if id == "" && (m.shape == byGroup || len(set.DedupeKey) > 0) {
			id = fmt.Sprintf("%s\x00%d", b.Name, i) // nothing to compare it by: it is a group of its own
		}
		if id == "" {
			id = canonical(item)
		}
		if m.shape != byGroup {
			group = ""
		}
		m.add(b.Name, group, cmp.Or(label, group, "an item"), id, item)
	}
}

// identity returns the dedupe key of an item, and how people read it; empty when
// the item has none of the key's fields.
func identity(key []string, lookup func(string) json.RawMessage) (id, label string) {
	var ids, labels []string
	found := false
	for _, field := range key {
		value := lookup(field)
		found = found || value != nil
		if value == nil {
			value = json.RawMessage("null")
		}
		ids = append(ids, canonical(value))
		labels = append(labels, cmp.Or(text(value), string(value)))
	}
	if !found {
		return "", ""
	}
	return strings.Join(ids, "\x00"), strings.Join(labels, ", ")
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // what is no text is none
	return s
}

// split takes a result apart: its fields if it is an object, and its items:
// those of a list, of "items" in an object, or the result itself.
func split(value json.RawMessage) (object map[string]json.RawMessage, items []json.RawMessage) {
	if json.Unmarshal(value, &items) == nil && items != nil {
		return nil, items
	}
	if json.Unmarshal(value, &object) == nil && object != nil {
		if json.Unmarshal(object["items"], &items) == nil && items != nil {
			return object, items
		}
	}
	return object, []json.RawMessage{value}
}

// allObjects reports whether results can be merged key by key. Those that are
// mere envelopes of items cannot, except in a vote, which compares whole lists.
func allObjects(branches []step.Branch, whole bool) bool {
	for _, b := range branches {
		object, _ := split(b.Value)
		var items []json.RawMessage
		envelope := json.Unmarshal(object["items"], &items) == nil && items != nil
		if object == nil || envelope && !whole {
			return false
		}
	}
	return len(branches) > 0
}

type field struct {
	name  string
	value json.RawMessage
}

// fields returns those of an object, in its own order.
func fields(value json.RawMessage) []field {
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return nil
	}
	var out []field
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return out
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return out
		}
		out = append(out, field{fmt.Sprint(name), v})
	}
	return out
}

func (m *merge) add(from, group, key, id string, value json.RawMessage) {
	id = group + "\x00" + id
	s := m.byID[id]
	if s == nil {
		s = &slot{group: group, key: key, chosen: -1}
		m.byID[id] = s
		m.slots = append(m.slots, s)
	}
	canon := canonical(value)
	for i, c := range s.claims {
		if c.canon == canon {
			c.from, s.last = append(c.from, from), i
			return
		}
	}
	s.claims = append(s.claims, &claim{value: value, canon: canon, from: []string{from}})
	s.last = len(s.claims) - 1
}

// agree chooses where there is nothing to decide, or where most say the same.
func (m *merge) agree(vote bool) {
	for _, s := range m.slots {
		if len(s.claims) == 1 {
			s.choose(0, "duplicate")
			continue
		}
		if !vote {
			continue
		}
		best, tie := 0, false
		for i := 1; i < len(s.claims); i++ {
			switch votes, most := s.claims[i].votes(), s.claims[best].votes(); {
			case votes > most:
				best, tie = i, false
			case votes == most:
				tie = true
			}
		}
		if !tie {
			s.choose(best, "majority")
		}
	}
}

func (c *claim) votes() int { return len(slices.Compact(slices.Sorted(slices.Values(c.from)))) }

func (m *merge) conflicts() []*slot {
	var out []*slot
	for _, s := range m.slots {
		if s.chosen < 0 {
			out = append(out, s)
		}
	}
	return out
}

func (s *slot) choose(i int, why string) { s.chosen, s.why = i, why }

// contradiction says who says what about a slot.
func (s *slot) contradiction() string {
	sides := make([]string, len(s.claims))
	for i, c := range s.claims {
		sides[i] = fmt.Sprintf("%s: %s", strings.Join(c.from, " and "), short(c.value))
	}
	return fmt.Sprintf("%q (%s)", s.key, strings.Join(sides, "; "))
}

func short(value json.RawMessage) string {
	const most = 200
	text := []rune(string(value))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// question returns a conflict as the critic sees it.
func (s *slot) question() json.RawMessage {
	type side struct {
		Number int             `json:"choice"`
		From   []string        `json:"from"`
		Claim  json.RawMessage `json:"claim"`
	}
	out := struct {
		About  string `json:"about"`
		Claims []side `json:"claims"`
	}{About: s.key}
	for i, c := range s.claims {
		out.Claims = append(out.Claims, side{i + 1, c.from, c.value})
	}
	return step.JSON(out)
}

// value puts the result together. Every slot has been decided.
func (m *merge) value() json.RawMessage {
	list := []json.RawMessage{}
	object := map[string]json.RawMessage{}
	groups := map[string][]json.RawMessage{}
	for _, s := range m.slots {
		v := s.claims[s.chosen].value
		list = append(list, v)
		object[s.key] = v
		groups[s.group] = append(groups[s.group], v)
	}
	switch {
	case m.shape == byGroup:
		return step.JSON(groups)
	case m.shape == byKey:
		return step.JSON(object)
	case m.shape == one && len(list) == 1:
		return list[0]
	case m.shape == one:
		return json.RawMessage("null") // there are no votes
	}
	return step.JSON(list)
}

// decisions returns the notes of what was chosen, in the order of the result.
// Where only one branch said something there was nothing to choose.
func (m *merge) decisions() []step.Note {
	var out []step.Note
	for _, s := range m.slots {
		kept := s.claims[s.chosen]
		if len(s.claims) == 1 && len(kept.from) == 1 {
			continue
		}
		d := journal.MergeDecision{Key: s.key, Kept: kept.value, From: kept.from, Why: s.why, Reason: s.reason}
		for i, c := range s.claims {
			if i != s.chosen {
				d.Dropped = append(d.Dropped, c.value)
			}
		}
		out = append(out, step.Note{Kind: journal.NoteMerge, Data: d})
	}
	return out
}

// canonical returns a form of JSON in which equal values are equal texts: keys in
// order, numbers by their value.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return string(step.JSON(plain(v)))
}

func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			if n := int64(f); float64(n) == f && n < 1<<53 && n > -1<<53 {
				return n // 1.0 and 1 are one number
			}
			return f
		}
	}
	return v
}
