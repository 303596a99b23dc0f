package journal

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// DeriveRunID returns a run id that follows from its parts. Equal parts give
// equal ids, and different ones give different ids. The first part says what the
// id is derived for.
func DeriveRunID(parts ...string) RunID {
	h := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8: defined by the application
	id[8] = id[8]&0x3f | 0x80
	return RunID(id.String())
}
