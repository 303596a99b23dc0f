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

// Definition is what a run pins: the program, and the files that it was compiled
// from.
type Definition struct {
	Program *ir.Program `json:"program"`
	// Path is the path of the workflow's file, relative to the project root.
	Path string `json:"path"`
	// Sources are the files of the program, the workflow's own first.
	Sources []ir.File `json:"sources"`

	once     sync.Once
	raw      []byte
	hash     string
	compiled *Compiled
	err      error
}

// definitions encodes and decodes definitions. It is built on first use.
var definitions = sync.OnceValue(jsonfast.New[Definition])

// Prepare initializes what all definitions and facts share. Start does it if it
// has not been done: calling it earlier, concurrently with other work, makes the
// start faster.
func Prepare() {
	definitions()
	journal.Prepare()
}

// Prepare encodes and compiles a definition, once. The definition must not change
// afterwards. Start does it if it has not been done.
func (d *Definition) Prepare() {
	d.once.Do(func() {
		if d.raw, d.err = definitions().Append(nil, d); d.err != nil {
			return
		}
		// Escape as json.Marshal does: the hash of a definition must not change.
		if slices.ContainsFunc(
			[]string{"<", ">", "&", "\u2028", "\u2029"},
			func(c string) bool { return bytes.Contains(d.raw, []byte(c)) },
		) {
			var b bytes.Buffer
			json.HTMLEscape(&b, d.raw)
			d.raw = b.Bytes()
		}
		d.hash = hashOf(d.raw)
		// A run executes the stored form, as it does after a resume.
		d.compiled, d.err = decodeCompiled(d.raw)
	})
}

// Encode returns the encoded definition and its hash.
func (d *Definition) Encode() (raw []byte, hash string, err error) {
	d.Prepare()
	return d.raw, d.hash, d.err
}

// decodeDefinition decodes the stored form of a definition.
func decodeDefinition(raw []byte) (*Definition, error) {
	d := &Definition{}
	if err := definitions().Read(raw, d); err != nil {
		return nil, fmt.Errorf("the pinned definition cannot be read: %w", err)
	}
	return d, nil
}

// hashOf returns the hash under which a store keeps a blob: SHA-256 in hexadecimal.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
