package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// An anchor is a file that fixes the content of a whole store at one time. It
// has one JSON object per line: one for each run with the head of its chain, a
// statement about these lines and the tombstones, and a signature of the line
// of the statement without its line feed.

// AnchorFormat is the format of anchors.
const AnchorFormat = "espalier-anchor/1"

// anchoredRun is the line of one run in an anchor.
type anchoredRun struct {
	Run     journal.RunID `json:"run_id"`
	Earlier journal.RunID `json:"run,omitempty"` // the same in earlier anchors
	Seq     journal.Seq   `json:"seq"`
	Hash    string        `json:"hash"`
}

// Statement is what an anchor says about a store.
type Statement struct {
	Anchor     string    `json:"anchor"`
	At         time.Time `json:"at"`
	Runs       int       `json:"runs"`
	List       string    `json:"list_sha256"` // of the lines of the runs
	Tombstones int       `json:"tombstones"`
	Head       string    `json:"tombstone_head"`
}

// Signature is the last line of an anchor.
type Signature struct {
	Algorithm string `json:"algorithm"`
	Signature []byte `json:"signature"`
}

// The algorithms of signatures.
const (
	Ed25519       = "ed25519"
	SignedCommand = "command" // whatever an external command has printed
)

// Signer signs the statement of an anchor.
type Signer func(statement []byte) (Signature, error)

// SignatureCheck returns nil if a signature is valid for a statement.
type SignatureCheck func(statement []byte, s Signature) error

// ErrSignature means that the signature of an anchor is not valid.
var ErrSignature = errors.New("the signature of the anchor is not valid")

// GenerateKey returns a new ed25519 key pair, PEM encoded (PKCS #8 and PKIX).
func GenerateKey() (private, public []byte, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	rawPrivate, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return nil, nil, err
	}
	rawPublic, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawPrivate}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: rawPublic}), nil
}

// KeySigner returns the Signer of a PEM encoded private key.
func KeySigner(private []byte) (Signer, error) {
	block, _ := pem.Decode(private)
	if block == nil {
		return nil, errors.New("the file has no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an ed25519 private key")
	}
	return func(statement []byte) (Signature, error) {
		return Signature{Ed25519, ed25519.Sign(key, statement)}, nil
	}, nil
}

// KeyCheck returns the SignatureCheck of a PEM encoded public key.
func KeyCheck(public []byte) (SignatureCheck, error) {
	block, _ := pem.Decode(public)
	if block == nil {
		return nil, errors.New("the file has no PEM block")
	}
	if block.Type == "PRIVATE KEY" {
		return nil, errors.New("the file has a private key; give the public one")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("the key is not an ed25519 public key")
	}
	return func(statement []byte, s Signature) error {
		if s.Algorithm != Ed25519 {
			return fmt.Errorf("%w: its algorithm is %q, not %s", ErrSignature, s.Algorithm, Ed25519)
		}
		if !ed25519.Verify(key, statement, s.Signature) {
			return fmt.Errorf("%w: the key has not signed this statement", ErrSignature)
		}
		return nil
	}, nil
}

// AnchorSource is the part of a store that anchors need.
type AnchorSource interface {
	journal.Reader
	journal.ChainReader
}

// WriteAnchor verifies the chains of all runs and writes an anchor over them.
func WriteAnchor(ctx context.Context, w io.Writer, s AnchorSource, at time.Time, sign Signer) (Statement, error) {
	statement := Statement{Anchor: AnchorFormat, At: at.UTC().Truncate(time.Millisecond)}
	head, err := journal.VerifyTombstones(ctx, s, func(journal.Tombstone, journal.ChainHash) { statement.Tombstones++ })
	if err != nil {
		return statement, err
	}
	statement.Head = head.String()
	out := bufio.NewWriter(w)
	list := sha256.New()
	for entry, err := range s.Runs(ctx, journal.Filter{}) {
		if err != nil {
			return statement, err
		}
		head, err := journal.VerifyChain(ctx, s, entry.ID, nil)
		if errors.Is(err, journal.ErrUnknownRun) {
			continue // removed in the meantime
		}
		if err != nil {
			return statement, err
		}
		if head.Seq < entry.Seq {
			return statement, &journal.CorruptError{
				Run: entry.ID, Why: fmt.Errorf("events %d to %d are missing", head.Seq+1, entry.Seq),
			}
		}
		if err := writeLine(io.MultiWriter(out, list),
			anchoredRun{Run: entry.ID, Seq: head.Seq, Hash: head.Hash.String()}); err != nil {
			return statement, err
		}
		statement.Runs++
	}
	statement.List = hexSum(list)
	line, err := json.Marshal(statement)
	if err != nil {
		return statement, err
	}
	signature, err := sign(line)
	if err != nil {
		return statement, err
	}
	if err := errors.Join(writeLine(out, json.RawMessage(line)), writeLine(out, signature)); err != nil {
		return statement, err
	}
	return statement, out.Flush()
}

// writeLine writes a value as one line of JSON.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// hexSum returns the end of a hash as text.
func hexSum(h interface{ Sum(b []byte) []byte }) string { return hex.EncodeToString(h.Sum(nil)) }

// readAnchor returns the runs and the statement of an anchor whose signature is
// valid.
func readAnchor(text []byte, check SignatureCheck) (map[journal.RunID]anchoredRun, *Statement, error) {
	lines := slices.Collect(bytes.Lines(text))
	n := len(lines) - 2
	if n < 0 || !bytes.HasSuffix(text, []byte("\n")) {
		return nil, nil, errors.New("the file is not an anchor, or it is not complete")
	}
	var statement Statement
	var signature Signature
	signed := bytes.TrimSuffix(lines[n], []byte("\n"))
	if json.Unmarshal(signed, &statement) != nil || json.Unmarshal(lines[n+1], &signature) != nil ||
		statement.Anchor != AnchorFormat {
		return nil, nil, fmt.Errorf("the file is not an anchor in the format %s", AnchorFormat)
	}
	if err := check(signed, signature); err != nil {
		return nil, nil, err
	}
	list := sha256.New()
	runs := make(map[journal.RunID]anchoredRun, n)
	for i, line := range lines[:n] {
		list.Write(line)
		var r anchoredRun
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, nil, fmt.Errorf("line %d of the anchor is not a run: %w", i+1, err)
		}
		r.Run = cmp.Or(r.Run, r.Earlier)
		runs[r.Run] = r
	}
	if hexSum(list) != statement.List || n != statement.Runs || len(runs) != n {
		return nil, nil, fmt.Errorf("%w: its list of runs was changed", ErrSignature)
	}
	return runs, &statement, nil
}

// AnchorFault is a difference between an anchor and a store.
type AnchorFault struct {
	Run     journal.RunID `json:"run_id,omitempty"` // empty if the store as a whole is meant
	Message string        `json:"message"`
}

// AnchorReport is the result of VerifyAnchor.
type AnchorReport struct {
	OK      bool      `json:"ok"`
	At      time.Time `json:"at"`
	Runs    int       `json:"runs"`    // in the anchor
	Removed int       `json:"removed"` // of these, with a tombstone
	New     int       `json:"new"`     // runs that are not in the anchor
	// Tombstones are those of anchored runs that were removed since.
	Tombstones []AnchorTombstone `json:"tombstones,omitempty"`
	Faults     []AnchorFault     `json:"faults,omitempty"`
}

// AnchorTombstone is the tombstone of an anchored run. Its JSON has the names and times of other reports; that of a
// journal.Tombstone is hashed, and remains as it is.
type AnchorTombstone struct {
	Run      journal.RunID `json:"run_id"`
	Workflow string        `json:"workflow,omitempty"`
	Seq      journal.Seq   `json:"seq"`
	Hash     string        `json:"hash"`
	By       journal.Actor `json:"by,omitzero"`
	At       time.Time     `json:"at"`
	Why      string        `json:"why,omitempty"`
	Damaged  bool          `json:"damaged,omitempty"`
}

// VerifyAnchor compares a store with an anchor, and verifies the chains of all
// runs. An error means that the anchor cannot be used or the store cannot be read.
func VerifyAnchor(ctx context.Context, text []byte, s AnchorSource, check SignatureCheck) (*AnchorReport, error) {
	runs, statement, err := readAnchor(text, check)
	if err != nil {
		return nil, err
	}
	v := &anchorVerifier{
		s: s, runs: runs, statement: statement, tombstones: map[journal.RunID][]journal.Tombstone{},
		out: AnchorReport{At: statement.At, Runs: len(runs)},
	}
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	v.out.OK = len(v.out.Faults) == 0
	return &v.out, nil
}

// anchorVerifier compares a store with an anchor.
type anchorVerifier struct {
	s          AnchorSource
	runs       map[journal.RunID]anchoredRun
	statement  *Statement
	tombstones map[journal.RunID][]journal.Tombstone // since the anchor
	out        AnchorReport
}

// fault reports that the store contradicts the anchor. run is "" if the fault is not about one run.
func (v *anchorVerifier) fault(run journal.RunID, format string, args ...any) {
	v.out.Faults = append(v.out.Faults, AnchorFault{run, fmt.Sprintf(format, args...)})
}

// verify checks the runs of the store, the tombstones, and that every run of the anchor is in one of the two.
func (v *anchorVerifier) verify(ctx context.Context) error {
	var entries []journal.RunID
	for entry, err := range v.s.Runs(ctx, journal.Filter{}) {
		if err != nil {
			return err
		}
		entries = append(entries, entry.ID)
	}
	// After the list: a run that is removed in the meantime has a tombstone.
	if err := v.readTombstones(ctx); err != nil {
		return err
	}
	for _, id := range entries {
		if err := v.run(ctx, id); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.runs)) {
		if !v.removed(id) {
			v.fault(id, "the run was removed, and there is no tombstone for it")
		}
	}
	return nil
}

// readTombstones verifies that the tombstones continue those of the anchor.
func (v *anchorVerifier) readTombstones(ctx context.Context) error {
	n, at := 0, journal.TombstoneStart()
	_, err := journal.VerifyTombstones(ctx, v.s, func(t journal.Tombstone, hash journal.ChainHash) {
		if n++; n <= v.statement.Tombstones {
			at = hash
			return
		}
		v.tombstones[t.Run] = append(v.tombstones[t.Run], t)
	})
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		v.fault("", "%v", err)
	case err != nil:
		return err
	case n < v.statement.Tombstones:
		v.fault("", "the store has %d tombstones, but had %d", n, v.statement.Tombstones)
	case at.String() != v.statement.Head:
		v.fault("", "tombstones from before the anchor were changed")
	}
	return nil
}

// run verifies the chain of a run that is in the store.
func (v *anchorVerifier) run(ctx context.Context, id journal.RunID) error {
	want, anchored := v.runs[id]
	same := false
	head, err := journal.VerifyChain(ctx, v.s, id, func(l journal.Link, hash journal.ChainHash) {
		same = same || l.Seq == want.Seq && hash.String() == want.Hash
	})
	switch {
	case errors.Is(err, journal.ErrUnknownRun): // removed in the meantime
		return nil
	case errors.Is(err, journal.ErrCorrupt):
		v.fault(id, "%v", err)
	case err != nil:
		return err
	case !anchored:
		v.out.New++
	case same:
	case v.removed(id): // and started again with the same id
		v.out.New++
	case head.Seq < want.Seq:
		v.fault(id, "the run ends with event %d, but had %d events", head.Seq, want.Seq)
	default:
		v.fault(id, "the run was rewritten: its first %d events are not those of the anchor", want.Seq)
	}
	delete(v.runs, id)
	return nil
}

// removed reports whether a tombstone accounts for an anchored run. That of a damaged run does so whatever its hash is:
// the hash may be lost.
func (v *anchorVerifier) removed(id journal.RunID) bool {
	want := v.runs[id]
	for _, t := range v.tombstones[id] {
		if t.Damaged || t.Seq > want.Seq || t.Seq == want.Seq && t.Hash == want.Hash {
			v.out.Removed++
			v.out.Tombstones = append(v.out.Tombstones, AnchorTombstone{
				Run: t.Run, Workflow: t.Name, Seq: t.Seq, Hash: t.Hash,
				By: t.By, At: t.At.Time(), Why: t.Why, Damaged: t.Damaged,
			})
			return true
		}
	}
	return false
}
