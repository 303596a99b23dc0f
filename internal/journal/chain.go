package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Every append has a hash that covers its body and the hash of the run's
// previous append, so the hash of the last append covers the whole run. Stores
// keep the hash beside the body. Tombstones of removed runs form a chain of
// their own.
//
// An append of an earlier release has no stored hash. The hashes of later
// appends cover it nevertheless: the chain is always computed from the first
// body on.

// ChainHash is the hash of a chain up to one of its links.
type ChainHash [sha256.Size]byte

// ChainStart returns the hash before the first append of a run. It depends on
// the run, so that the appends of one run do not form a valid chain of another.
func ChainStart(run RunID) ChainHash { return sha256.Sum256([]byte("espalier run\n" + run)) }

// TombstoneStart returns the hash before the first tombstone of a store.
func TombstoneStart() ChainHash { return sha256.Sum256([]byte("espalier tombstones\n")) }

// Next returns the hash of the chain after one more link.
func (h ChainHash) Next(body []byte) ChainHash {
	sum := sha256.New()
	sum.Write(h[:])
	sum.Write(body)
	sum.Sum(h[:0])
	return h
}

// String returns the hash in hex.
func (h ChainHash) String() string { return hex.EncodeToString(h[:]) }

// ParseChainHash converts a stored hash. It reports false if there is none.
func ParseChainHash(stored []byte) (h ChainHash, ok bool) {
	return h, copy(h[:], stored) == len(h) && len(stored) == len(h)
}

// Link is one link of a chain as it is stored.
type Link struct {
	Pos  Pos // of an append; the number of a tombstone
	Seq  Seq // of the last event of an append
	Body []byte
	Hash []byte // empty if the link was written by a release without hashes
}

// ChainReader reads chains as they are stored, without decoding them.
type ChainReader interface {
	// Links reads the appends of a run in order.
	Links(ctx context.Context, run RunID) iter.Seq2[Link, error]
	// Tombstones reads the tombstones of the store in order.
	Tombstones(ctx context.Context) iter.Seq2[Link, error]
}

// ChainHead is the end of the chain of a run.
type ChainHead struct {
	Run      RunID
	Seq      Seq // of the last event
	Hash     ChainHash
	Unhashed int // appends that have no stored hash
}

// VerifyChain computes the chain of a run and compares it with the stored
// hashes. Damage is a *CorruptError. It calls each for each link if each is not nil.
func VerifyChain(ctx context.Context, r ChainReader, run RunID, each func(Link, ChainHash)) (ChainHead, error) {
	head := ChainHead{Run: run, Hash: ChainStart(run)}
	for link, err := range r.Links(ctx, run) {
		if err != nil {
			return head, err
		}
		head.Seq, head.Hash = link.Seq, head.Hash.Next(link.Body)
		if err := head.compare(&link); err != nil {
			return head, &CorruptError{Run: run, Pos: link.Pos, Why: err}
		}
		if each != nil {
			each(link, head.Hash)
		}
	}
	return head, nil
}

var errLink = errors.New("the stored hash does not match the content: it, or something before it, was changed")

func (h *ChainHead) compare(link *Link) error {
	if len(link.Hash) == 0 {
		h.Unhashed++
		return nil
	}
	if stored, ok := ParseChainHash(link.Hash); !ok || stored != h.Hash {
		return errLink
	}
	return nil
}

// Removal is the reason for which runs are removed.
type Removal struct {
	By  Actor  `json:"by,omitzero"`
	At  Millis `json:"at"`
	Why string `json:"why,omitempty"`
	// Damaged means that the run cannot be read. It is removed although it has not finished or the hash of its chain is
	// lost; a lost hash is zero in the tombstone.
	Damaged bool `json:"damaged,omitempty"`
}

// Tombstone is what remains of a run that was removed.
type Tombstone struct {
	Run  RunID  `json:"run"`
	Name string `json:"name,omitempty"`
	Seq  Seq    `json:"seq"`  // of the run's last event
	Hash string `json:"hash"` // of the run's chain
	Removal
}

// NewTombstone returns the tombstone of a run.
func NewTombstone(name string, head ChainHead, why Removal) Tombstone {
	return Tombstone{Run: head.Run, Name: name, Seq: head.Seq, Hash: head.Hash.String(), Removal: why}
}

// Encode returns the body of the tombstone.
func (t Tombstone) Encode() []byte {
	body, err := json.Marshal(t)
	if err != nil {
		panic(err) // it has only strings and numbers
	}
	return body
}

// VerifyTombstones computes the chain of the tombstones, calls each for each of
// them, and returns the last hash. Damage is a *CorruptError.
func VerifyTombstones(ctx context.Context, r ChainReader, each func(Tombstone, ChainHash)) (ChainHash, error) {
	head := ChainHead{Hash: TombstoneStart()}
	for link, err := range r.Tombstones(ctx) {
		if err != nil {
			return head.Hash, err
		}
		head.Hash = head.Hash.Next(link.Body)
		var t Tombstone
		err := head.compare(&link)
		if err == nil && head.Unhashed > 0 {
			err = errors.New("it has no hash")
		}
		if err == nil {
			err = json.Unmarshal(link.Body, &t)
		}
		if err != nil {
			return head.Hash, fmt.Errorf("%w: tombstone %d: %w", ErrCorrupt, link.Pos, err)
		}
		if each != nil {
			each(t, head.Hash)
		}
	}
	return head.Hash, nil
}
