package combine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/xslices"
)

// merge sorts the results of branches into slots. Each slot keeps one value.
type merge struct {
	shape  shape
	slots  []*slot
	byID   map[string]*slot
	groups []string // in order of appearance, including groups without items
}

// shape is the form of the merged result.
type shape int

const (
	aList   shape = iota // a list of the slots' values
	byGroup              // an object with a list per group
	byKey                // an object with a key per slot
	one                  // a single value
)

// slot is a place for one value, and the claims for it.
type slot struct {
	group  string
	key    string // a readable name
	claims []*claim
	last   int // index of the most recent claim
	chosen int // index of the chosen claim; -1 if undecided
	why    string
	reason string // given by the critic
}

// claim is one value for a slot, and the branches that returned it.
type claim struct {
	value json.RawMessage
	canon string
	from  []string // one entry per occurrence
}

// layOut sorts the branches' results into slots.
func layOut(set settings, branches []step.Branch) *merge {
	m := &merge{shape: shapeOf(set, branches), byID: map[string]*slot{}}
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

// shapeOf returns the form of the result. A union and a combination by type keep all items. A vote compares whole
// results, and so does a critic, except for collections.
func shapeOf(set settings, branches []step.Branch) shape {
	switch {
	case set.Strategy == kinds.MergeByType:
		return byGroup
	case set.Strategy == kinds.MergeUnion, len(set.DedupeKey) > 0,
		set.Strategy == kinds.MergeCritic && all(branches, isCollection):
		return aList
	case all(branches, isObject):
		return byKey
	}
	return one
}

// items adds each item of a branch's result. Items with the same dedupe key share a slot. An item that lacks a field of
// the key has a separate slot.
func (m *merge) items(set settings, b step.Branch) {
	output, items := split(b.Value)
	if group := text(output["type"]); m.shape == byGroup && group != "" {
		m.groups = append(m.groups, group)
	}
	for i, item := range items {
		own, _ := split(item)
		group := ""
		if m.shape == byGroup {
			group = cmp.Or(text(output["type"]), text(own["type"]), b.Name)
			m.groups = append(m.groups, group)
		}
		id, label := identity(set.DedupeKey, output["type"], own)
		if id == "" {
			id = fmt.Sprintf("\x00%s\x00%d", b.Name, i)
		}
		m.add(b.Name, group, cmp.Or(label, group, "an item"), id, item)
	}
}

// identity returns the dedupe key of an item, and its readable form. Both are empty if the item lacks a field of the
// key. An item without a type has the type of the output.
func identity(key []string, kind json.RawMessage, item map[string]json.RawMessage) (id, label string) {
	absent := func(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }
	var ids, labels []string
	for _, field := range key {
		value := item[field]
		if field == "type" && absent(value) {
			value = kind
		}
		if absent(value) {
			return "", ""
		}
		ids = append(ids, canonical(value))
		labels = append(labels, cmp.Or(text(value), string(value)))
	}
	return strings.Join(ids, "\x00"), strings.Join(labels, ", ")
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // other types leave s empty
	return s
}

// split returns the fields of a result that is an object, and its items: the elements of a list or of "items" in an
// object, or the result itself.
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

func all(branches []step.Branch, is func(json.RawMessage) bool) bool {
	return len(branches) > 0 && !slices.ContainsFunc(branches, func(b step.Branch) bool { return !is(b.Value) })
}

func isObject(value json.RawMessage) bool {
	object, _ := split(value)
	return object != nil
}

// isCollection reports whether a result is a list, or an object with a list of items.
func isCollection(value json.RawMessage) bool {
	var items []json.RawMessage
	object, _ := split(value)
	if object != nil {
		value = object["items"]
	}
	return json.Unmarshal(value, &items) == nil && items != nil
}

type field struct {
	name  string
	value json.RawMessage
}

// fields returns the fields of an object in their order.
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

// agree chooses the value of slots with a single claim and, with vote, of slots with a majority.
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
	return xslices.Filter(m.slots, func(s *slot) bool { return s.chosen < 0 })
}

func (s *slot) choose(i int, why string) { s.chosen, s.why = i, why }

// contradiction describes the claims for a slot.
func (s *slot) contradiction() string {
	sides := make([]string, len(s.claims))
	for i, c := range s.claims {
		sides[i] = fmt.Sprintf("%s: %s", strings.Join(c.from, " and "), diag.Shorten(string(c.value), 200))
	}
	return fmt.Sprintf("%q (%s)", s.key, strings.Join(sides, "; "))
}

// question returns a conflict in the form that the critic sees.
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

// value returns the merged result. Every slot must be decided.
func (m *merge) value() json.RawMessage {
	list := []json.RawMessage{}
	object := map[string]json.RawMessage{}
	groups := map[string][]json.RawMessage{}
	for _, group := range m.groups {
		groups[group] = []json.RawMessage{}
	}
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
		return json.RawMessage("null") // no branch has a result
	}
	return step.JSON(list)
}

// decisions returns a note for each slot with several claims, in the order of the result. A slot without a choice is a
// conflict that fails the step.
func (m *merge) decisions() []step.Note {
	var out []step.Note
	for _, s := range m.slots {
		if len(s.claims) == 1 && len(s.claims[0].from) == 1 {
			continue
		}
		d := journal.MergeDecision{Key: s.key, Why: cmp.Or(s.why, kinds.FailOnConflict), Reason: s.reason}
		for i, c := range s.claims {
			if i == s.chosen {
				d.Kept, d.From = c.value, c.from
			} else {
				d.Dropped = append(d.Dropped, journal.MergeClaim{Value: c.value, From: c.from})
			}
		}
		out = append(out, step.Note{Kind: journal.NoteMerge, Data: d})
	}
	return out
}

// canonical returns JSON in which equal values have equal texts: keys are sorted, and numbers are normalized.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return string(step.JSON(withDecimals(v)))
}

// withDecimals replaces the numbers of a value by their decimals.
func withDecimals(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = withDecimals(v[k])
		}
	case []any:
		for i := range v {
			v[i] = withDecimals(v[i])
		}
	case json.Number:
		return decimal(v)
	}
	return v
}

// decimal returns a number as its digits, without zeros at either end, and an exponent: 1.0 and 1 are equal, and digits
// beyond the precision of a float count.
func decimal(n json.Number) json.Number {
	mantissa, e, _ := strings.Cut(strings.ToLower(n.String()), "e")
	exponent, err := strconv.Atoi(cmp.Or(e, "0"))
	if err != nil {
		return n // an exponent of more than 18 digits
	}
	unsigned, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return "0"
	}
	exponent += len(digits) - len(significant) - len(fraction)
	if negative {
		significant = "-" + significant
	}
	return json.Number(fmt.Sprintf("%se%d", significant, exponent))
}
