package httptransport

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The options of an agent that formats write in the same way for every
// provider. Any other is the provider's own, and passed on as it is.
const (
	Temperature      = "temperature"
	TopP             = "top_p"
	TopK             = "top_k"
	Stop             = "stop" // a text, or a list of texts
	Seed             = "seed"
	PresencePenalty  = "presence_penalty"
	FrequencyPenalty = "frequency_penalty"
	// Stream is false when the server shall send the reply as a whole.
	Stream = "stream"
)

// Dialect is what a server calls the common options where it has a word of its
// own. What it has not at all is called "".
type Dialect map[string]string

// Ignored returns the options among an agent's that the server does not have.
func (d Dialect) Ignored(options json.RawMessage) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(options, &all) != nil {
		return nil // Extra reports it
	}
	return xslices.Filter(slices.Sorted(maps.Keys(all)), func(key string) bool {
		word, known := d[key]
		return known && word == ""
	})
}

// Extra returns what an agent's options add to a request, in the server's own words.
// Keys that would change what was reserved or recorded are refused, in every
// spelling; so is what is no key but a path, by which the libraries reach into
// other values.
func (d Dialect) Extra(options json.RawMessage, ours ...string) (map[string]json.RawMessage, error) {
	if len(options) == 0 || string(options) == "null" {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(options, &all); err != nil {
		return nil, &provider.Error{Class: provider.BadRequest, Message: "the options of the agent are not a map"}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.ContainsFunc(key,
			func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
			return nil, provider.Errorf(provider.BadRequest, "the options of the agent cannot have the key %q", key)
		}
		if slices.ContainsFunc(ours, func(our string) bool { return spelling(our) == spelling(key) }) {
			return nil, provider.Errorf(provider.BadRequest, "the options of the agent cannot set %q: Espalier does",
				key)
		}
	}
	switch stream := string(all[Stream]); stream {
	case "", "false":
	case "true":
		delete(all, Stream) // as always
	default:
		return nil, provider.Errorf(provider.BadRequest, "the option %q of the agent is true or false, not %s", Stream,
			stream)
	}
	for key, word := range d {
		value, set := all[key]
		if !set {
			continue
		}
		delete(all, key)
		if _, own := all[word]; word == "" || own {
			continue // it has none, or its own word has been used as well
		}
		if key == Stop && len(value) > 0 && value[0] == '"' {
			value = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
		}
		all[word] = value
	}
	return all, nil
}

// spelling returns a key as it sounds: max_tokens and maxTokens are the same.
func spelling(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }
