package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
)

// Definition is what a run pins: the program, and the files it was made from.
type Definition struct {
	Program *ir.Program `json:"program"`
	// Path is where the workflow's file lies, relative to the project root.
	Path string `json:"path"`
	// Sources are the files that went into it, the workflow's own first.
	Sources []ir.File `json:"sources"`

	once sync.Once
	raw  []byte
	hash string
	err  error
}

// Encode gives the definition's bytes and their hash. It works them out once:
// a definition does not change any more when the first run has begun with it.
func (d *Definition) Encode() (raw []byte, hash string, err error) {
	d.once.Do(func() {
		if d.raw, d.err = json.Marshal(d); d.err == nil {
			d.hash = hashOf(d.raw)
		}
	})
	return d.raw, d.hash, d.err
}

func decodeDefinition(raw []byte) (*Definition, error) {
	d := &Definition{}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("the pinned definition cannot be read: %w", err)
	}
	return d, nil
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
