package contract

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Probe is a place in the reply and the values that a simulation tries there.
type Probe struct {
	At     string            `json:"at,omitempty"`
	Values []json.RawMessage `json:"values"`
}

// unlike is a text that no author writes as an option.
const unlike = "something else"

// probes lists the values that make the comparisons of each place come out in
// different ways. What belongs to no option comes first: it is the way that a
// second visit leads out of.
func (b *builder) probes(decisions []Decision) []Probe {
	var out []Probe
	places := [][]string{}
	for _, u := range b.uses {
		if !slices.Contains(u.at, each) && !slices.ContainsFunc(places, func(at []string) bool { return slices.Equal(at, u.at) }) {
			places = append(places, u.at)
		}
	}
	for _, at := range places {
		if values := b.probe(at, decisions); len(values) > 1 {
			out = append(out, Probe{At: join(at), Values: values})
		}
	}
	return out
}

func (b *builder) probe(at []string, decisions []Decision) []json.RawMessage {
	node := b.find(at)
	var values []json.RawMessage
	add := func(all ...any) {
		for _, v := range all {
			raw := encode(v)
			if !slices.ContainsFunc(values, func(o json.RawMessage) bool { return string(o) == string(raw) }) && accepts(node, raw) {
				values = append(values, raw)
			}
		}
	}
	kind, _ := node["type"].(string)
	for _, u := range b.uses {
		if !slices.Equal(u.at, at) {
			continue
		}
		if u.how == isOrder && u.other == "number" {
			add(u.near-1, u.near, u.near+1)
		}
		switch constant := u.value.(type) {
		case float64:
			switch u.how {
			case isEqual, isOrder:
				add(constant-1, constant, constant+1)
			case isSized:
				for _, n := range []int{max(int(constant)-1, 0), max(int(constant), 0), int(constant) + 1} {
					add(ofLength(kind, min(n, mostLength)))
				}
			}
		case string:
			if u.how == isSearched {
				if kind == "array" {
					add([]any{}, []any{constant})
				} else {
					add(unlike, "This has "+constant+" in it.")
				}
			}
		}
		switch {
		case u.how == isTruth && !u.loose, kind == "boolean":
			add(false, true)
		case u.how == isSized && u.value == nil:
			add(ofLength(kind, 0), ofLength(kind, 1))
		}
	}
	for _, d := range decisions {
		if d.At != join(at) {
			continue
		}
		if d.Open {
			add(unlike)
		}
		for _, value := range anyList(node["enum"]) { // declared, and not among the options
			if raw := encode(value); !slices.ContainsFunc(d.Options, func(o Option) bool { return string(o.Value) == string(raw) }) {
				add(value)
				break
			}
		}
		for _, o := range d.Options {
			add(o.Value)
		}
	}
	return values
}

const mostLength = 100

// ofLength is a value with a number of characters or items.
func ofLength(kind string, n int) any {
	if kind == "array" {
		out := make([]any, n)
		for i := range out {
			out[i] = "item"
		}
		return out
	}
	return strings.Repeat("x", n)
}

// strideOf counts the combinations of earlier choices by which a run comes to a
// step: simulations with consecutive seeds try all of them before they try the
// next value here.
func strideOf(p *ir.Program, s *ir.Step) int {
	return 1
}
