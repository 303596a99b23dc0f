package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
)

// Definition is what a run pins: the program, and the files it was made from.
type Definition struct {
	Program *ir.Program `json:"program"`
	// Path is where the workflow's file lies, relative to the project root.
	Path string `json:"path"`
	// Sources are the files that went into it, the workflow's own first.
	Sources []ir.File `json:"sources"`

	once     sync.Once
	raw      []byte
	hash     string
	compiled *Compiled
	err      error
}

var definitions = sync.OnceValue(jsonfast.New[Definition])

// Prepare does what has to be done once before runs can be started. Start does it
// if nobody else has.
func Prepare() {
	definitions()
	journal.Prepare()
}

// Prepare makes a definition ready for runs, once: it does not change any more
// then. Start does it if nobody else has; in a goroutine of its own it takes
// no time from whoever has other things to do before.
func (d *Definition) Prepare() {
	d.once.Do(func() {
		var exact bool
		if d.raw, exact, d.err = definitions().AppendExact(make([]byte, 0, d.roughSize()), d); d.err != nil {
			return
		}
		// As json.Marshal writes it: the hash of a definition stays what it was.
		if slices.ContainsFunc([]string{"<", ">", "&", "\u2028", "\u2029"}, func(c string) bool { return bytes.Contains(d.raw, []byte(c)) }) {
			var b bytes.Buffer
			json.HTMLEscape(&b, d.raw)
			d.raw, exact = b.Bytes(), false
		}
		d.hash = hashOf(d.raw)
		// What runs is what was written, as for those who resume it: reading it
		// again is for when that might be something else.
		if exact {
			d.compiled = compile(d, d.raw)
		} else {
			d.compiled, d.err = decodeCompiled(d.raw)
		}
	})
}

// roughSize is about how long the definition's bytes are: growing a long text
// costs more than writing it.
func (d *Definition) roughSize() int {
	size := 4 << 10
	for i := range d.Program.Blocks {
		size += 768 * len(d.Program.Blocks[i].Steps)
	}
	return size
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
