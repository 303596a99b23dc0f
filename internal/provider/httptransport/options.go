package httptransport

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The common options of an agent, which have the same name for every provider.
// Other options are passed to the provider unchanged.
const (
	Temperature      = "temperature"
	TopP             = "top_p"
	TopK             = "top_k"
	Stop             = "stop" // a string or a list of strings
	Seed             = "seed"
	PresencePenalty  = "presence_penalty"
	FrequencyPenalty = "frequency_penalty"
	// Stream is false to request the complete reply at once.
	Stream = "stream"
)

// OptionNames maps common options to the names that an API has for them.
// Options with the same name are absent; unsupported ones map to "".
type OptionNames map[string]string

// Ignored returns the options of an agent that the API does not support.
func (names OptionNames) Ignored(options json.RawMessage) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(options, &all) != nil {
		return nil // Extra reports the error
	}
	return xslices.Filter(slices.Sorted(maps.Keys(all)), func(key string) bool {
		name, listed := names[key]
		return listed && name == ""
	})
}

// Extra returns the keys that an agent's options add to a request, by the names of the API. It rejects reserved keys in
// every spelling, because they would change what was budgeted or recorded, and keys with other characters than letters,
// digits and underscores, because SDKs treat them as paths. Options that the API does not support are left out; Ignored
// lists them. "stream" stays only if it is false.
func (names OptionNames) Extra(options json.RawMessage, reserved ...string) (map[string]json.RawMessage, error) {
	if len(options) == 0 || string(options) == "null" {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(options, &all); err != nil {
		return nil, &provider.Error{Class: ir.ClassBadRequest, Message: "the agent's options must be a map"}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.ContainsFunc(key,
			func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
			return nil, provider.Errorf(ir.ClassBadRequest,
				"the agent's options have the invalid key %q: use letters, digits and underscores", key)
		}
		if slices.ContainsFunc(reserved, func(one string) bool { return normalized(one) == normalized(key) }) {
			return nil, provider.Errorf(ir.ClassBadRequest,
				"the agent's options cannot set %q, which Espalier sets itself", key)
		}
	}
	switch stream := string(all[Stream]); stream {
	case "", "false":
	case "true":
		delete(all, Stream) // the default
	default:
		return nil, provider.Errorf(ir.ClassBadRequest, "the agent's option %q must be true or false, not %s",
			Stream, stream)
	}
	for key, name := range names {
		value, set := all[key]
		if !set {
			continue
		}
		delete(all, key)
		if _, set := all[name]; name == "" || set {
			continue // the API does not support it, or the agent also sets it by the API's name
		}
		if key == Stop && len(value) > 0 && value[0] == '"' {
			value = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
		}
		all[name] = value
	}
	return all, nil
}

// normalized makes keys comparable: max_tokens and maxTokens are the same.
func normalized(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }
