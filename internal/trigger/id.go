package trigger

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/journal"
)

// RunID returns the id of the run that a firing starts. Equal parts give equal
// ids, and different ones give different ids.
func RunID(workflow, trigger string, cause ...string) journal.RunID {
	h := sha256.New()
	for _, part := range append([]string{"espalier firing 1", workflow, trigger}, cause...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8: defined by the application
	id[8] = id[8]&0x3f | 0x80
	return journal.RunID(id.String())
}

// scheduled returns the cause of a firing at a scheduled time.
func scheduled(at time.Time) string { return at.UTC().Format(time.RFC3339) }
