package chat

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
)

// approvedKey is the property of a verdict that decides.
const approvedKey = "approved"

// verdict reads a reply that approves or rejects in other words than the contract asks for: "Rejected: no tests",
// {"decision": "approved"}.
func (r *reader) verdict(text string) (json.RawMessage, bool) {
	accept := func(object map[string]any) (json.RawMessage, bool) {
		value := r.repaired(step.JSON(object))
		return value, len(r.problems(value)) == 0
	}
	// If the reply has JSON, only the object in it counts, not the words around it.
	for tier := range candidates(text, r.form.LastFence, true) {
		var object map[string]any
		if tier = distinct(tier); len(tier) != 1 || len(unusable(tier[0])) > 0 {
			return nil, false
		}
		if v, err := schema.Decode(tier[0]); err == nil {
			object, _ = v.(map[string]any)
		}
		approved, ok := verdictIn(object)
		if !ok {
			return nil, false
		}
		out := maps.Clone(object)
		out[approvedKey] = approved
		return accept(out)
	}
	// Otherwise a word that decides. An approval with a reservation is no verdict; a rejection with one is.
	v, ok := findValue(text, verdictWord, false)
	if !ok && len(strings.Fields(text)) <= maxMentionWords {
		if word, found := mentioned(text, []any{"approved", "approve", "rejected", "reject"}); found {
			v, ok = verdictWord(word.(string))
		}
	}
	if !ok || v == true && reserved(text) {
		return nil, false
	}
	out := map[string]any{approvedKey: v}
	if _, ok := verdictWord(stripMarkup(text)); !ok && r.schema.Root().Properties["reason"] != nil {
		out["reason"] = text
	}
	return accept(out)
}

// verdictIn returns the verdict of an object: that of "approved", or the only one that its values name.
func verdictIn(object map[string]any) (approved, ok bool) {
	if text, isText := object[approvedKey].(string); isText {
		v, ok := verdictWord(stripMarkup(text))
		return v == true, ok
	}
	if _, there := object[approvedKey]; there {
		return false, false
	}
	var found []any
	add := func(v any) {
		if !slices.Contains(found, v) {
			found = append(found, v)
		}
	}
	for key, value := range object {
		named, isVerdict := verdictWord(plainKey(key)) // {"rejected": true}
		switch value := value.(type) {
		case bool:
			if isVerdict {
				add(named == value)
			}
		case string:
			if v, ok := verdictWord(stripMarkup(value)); ok {
				add(v)
			}
		}
	}
	return len(found) == 1 && found[0] == true, len(found) == 1
}

var (
	approvals  = []string{"approved", "approve", "approves", "accepted", "accept", "pass", "passed", "lgtm"}
	rejections = []string{
		"rejected", "reject", "rejects", "not approved", "disapproved", "denied", "declined", "fail", "failed",
	}
)

// verdictWord reads a word that approves or rejects.
func verdictWord(s string) (any, bool) {
	s = strings.ToLower(s)
	switch {
	case slices.Contains(approvals, s):
		return true, true
	case slices.Contains(rejections, s):
		return false, true
	}
	return truth(s)
}

// reserved reports whether a text has a word that restricts an approval: "Approved, but only after the tests pass".
func reserved(text string) bool {
	words := strings.Fields(
		"but except pending provided assuming with only perhaps maybe possibly probably likely unsure")
	said := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.ContainsFunc(said, func(w string) bool {
		return slices.Contains(words, w) || slices.Contains(conditions, w) || postpones(w)
	})
}
