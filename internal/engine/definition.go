package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/wire"
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

var definitions = sync.OnceValue(wire.New[Definition])

// Encode gives the definition's bytes and their hash. It works them out once:
// a definition does not change any more when the first run has begun with it.
func (d *Definition) Encode() (raw []byte, hash string, err error) {
	d.once.Do(func() {
		plain, err := definitions().Append(nil, d)
		if d.err = err; err != nil {
			return
		}
		// As json.Marshal writes it: the hash of a definition stays what it was.
		var b bytes.Buffer
		json.HTMLEscape(&b, plain)
		d.raw = b.Bytes()
		d.hash = hashOf(d.raw)
	})
	return d.raw, d.hash, d.err
}

func decodeDefinition(raw []byte) (*Definition, error) {
	d := &Definition{}
	if err := definitions().Read(raw, d); err != nil {
		return nil, fmt.Errorf("the pinned definition cannot be read: %w", err)
	}
	return d, nil
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
