package contract

import (
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
)

// itemsKey is the key of a worker's reply that holds its items.
const itemsKey = "items"

// form is how a worker's reply holds what becomes part of a merged list.
type form int

const (
	isWhole  form = iota // the reply is what is merged
	isObject             // the items are under itemsKey
	isItem               // the reply is one item
)

// merged returns the form of a worker's reply, by what the author requires and
// describes.
func (b *builder) merged() form {
	if !b.spec.Items {
		return isWhole
	}
	object, items := len(b.spec.Required) > 0, slices.Contains(b.spec.Required, itemsKey)
	for _, words := range b.spec.Expected {
		described := shapeOf(words)
		if described == nil {
			continue
		}
		properties, _ := described["properties"].(map[string]any)
		object = object || described["type"] == "object"
		items = items || properties[itemsKey] != nil
		break
	}
	switch {
	case items:
		return isObject
	case object:
		return isItem
	}
	return isWhole
}

// collectMerged finds the uses of the variable that the reply is merged into,
// as far as they are about every worker's part of it.
func (b *builder) collectMerged() {
	w := &ir.Write{Path: b.spec.Into}
	form := b.merged()
	one := slot{write: w}
	if form == isObject {
		one.at = []string{itemsKey}
	}
	b.slots = append(b.slots, one)
	for _, u := range b.usesOf(w) {
		part := len(u.at) > 0 && u.at[0] == each
		if b.spec.Items && !part && u.How != isItems {
			continue // about the merged list
		}
		switch form {
		case isObject:
			u.at = slices.Concat(one.at, u.at)
		case isItem:
			if !part {
				continue
			}
			u.at = u.at[1:]
		}
		if b.spec.Items {
			u.decision = nil // the merged list decides, not one worker's part of it
		}
		if !slices.ContainsFunc(b.uses, u.same) {
			b.uses = append(b.uses, u)
		}
	}
}

// part returns what the schema of a merged variable says about the reply of
// one worker; nil if it says nothing.
func (b *builder) part(doc map[string]any) map[string]any {
	if b.spec.Into == "" || !b.spec.Items || doc == nil {
		return doc
	}
	if doc["type"] != "array" {
		return nil
	}
	out := maps.Clone(doc)
	if b.merged() == isItem {
		item, _ := doc["items"].(map[string]any)
		if item == nil {
			return nil
		}
		out = maps.Clone(item)
		for _, keyword := range []string{"$defs", "definitions"} {
			if defs, ok := doc[keyword]; ok {
				out[keyword] = defs
			}
		}
		return out
	}
	for _, keyword := range []string{"minItems", "maxItems", "uniqueItems"} {
		delete(out, keyword) // about the merged list
	}
	return out
}
