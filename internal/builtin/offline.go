package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/source"
)

// Simulated returns the model that makes up its replies, the same ones for the
// same seed.
func Simulated(seed uint64) provider.Model { return simulated.Model{Seed: seed} }

// Script reads a file of replies. It is usable unless the list has an error.
func Script(f *source.File) (*scripted.Script, diag.List) { return scripted.Parse(f) }

// MakeUp makes a value up that fits a schema, always the same one for a key.
func MakeUp(schema json.RawMessage, key string) (json.RawMessage, error) {
	hash := fnv.New64a()
	hash.Write([]byte(key))
	request := provider.Request{Schema: schema, MaxTokens: 4096, For: provider.Purpose{Key: key}}
	for chunk, err := range Simulated(hash.Sum64()).Generate(context.Background(), request) {
		if err != nil {
			return nil, err
		}
		if chunk.Reply != nil {
			if raw := json.RawMessage(chunk.Reply.Text()); json.Valid(raw) {
				return raw, nil
			}
		}
	}
	return nil, errors.New("nothing can be made up for the schema of the tool")
}
