package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/canonical"
)

// GateDigest binds what a gate shows to the gate and the run. It is the SHA-256
// of the canonical JSON of {gate, kind, reads, run}, so that other programs can
// compute it.
func GateDigest(run RunID, gate string, kind GateKind, reads map[string]json.RawMessage) string {
	raw, err := json.Marshal(struct {
		Gate  string                     `json:"gate"`
		Kind  GateKind                   `json:"kind"`
		Reads map[string]json.RawMessage `json:"reads"`
		Run   RunID                      `json:"run"`
	}{gate, kind, reads, run})
	if err != nil {
		raw = nil // a value that is not JSON: the digest matches no decision
	}
	if form, err := canonical.JSON(raw); err == nil { // always succeeds for output of encoding/json
		raw = form
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
