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
	pin  *pinned
	err  error
}

var definitions = sync.OnceValue(wire.New[Definition])

// Prepare makes a definition ready for runs, once: it does not change any more
// then. Start does it if nobody else has; in a goroutine of its own it takes
// no time from whoever has other things to do before.
func (d *Definition) Prepare() {
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
		// What runs is what was written, as for those who resume it.
		d.pin, d.err = newPinned(d.raw)
	})
}

// Encode gives the definition's bytes and their hash.
func (d *Definition) Encode() (raw []byte, hash string, err error) {
	d.Prepare()
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
