package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/report/audit"
)

type keys struct {
	private, public []byte
	sign            audit.Signer
	check           audit.SignatureCheck
}

func newKeys(t *testing.T) (k keys) {
	t.Helper()
	var err error
	if k.private, k.public, err = audit.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	if k.sign, err = audit.KeySigner(k.private); err != nil {
		t.Fatal(err)
	}
	if k.check, err = audit.KeyCheck(k.public); err != nil {
		t.Fatal(err)
	}
	return k
}

// anchoredStore returns a store with three finished runs and one that continues.
func anchoredStore(t *testing.T, k keys) (*memorytest.Store, []byte) {
	t.Helper()
	s := memorytest.New()
	t.Cleanup(func() { s.Close() })
	for _, id := range []journal.RunID{"a", "b", "early"} {
		journaltest.Append(t, s, journaltest.Start(id, "me"))
		journaltest.Append(t, s, journaltest.Finish(id, 1, 1))
	}
	journaltest.Append(t, s, journaltest.Start("c", "me"))
	remove(t, s, "early")
	var text bytes.Buffer
	made, err := audit.WriteAnchor(t.Context(), &text, s, time.Now(), k.sign)
	if err != nil || made.Runs != 3 || made.Tombstones != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	return s, text.Bytes()
}

func remove(t *testing.T, s journal.Admin, runs ...journal.RunID) {
	t.Helper()
	if err := s.Remove(t.Context(), journal.Removal{At: 5}, runs...); err != nil {
		t.Fatal(err)
	}
}

// other replaces parts of a store, as a person with access to its files can.
type other struct {
	*memorytest.Store
	links      map[journal.RunID]journal.ChainReader // a rewritten run
	hidden     []journal.RunID
	tombstones []journal.Link
}

func (o other) Links(ctx context.Context, run journal.RunID) iter.Seq2[journal.Link, error] {
	if from := o.links[run]; from != nil {
		return from.Links(ctx, run)
	}
	return o.Store.Links(ctx, run)
}

func (o other) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for e, err := range o.Store.Runs(ctx, f) {
			if !slices.Contains(o.hidden, e.ID) && !yield(e, err) {
				return
			}
		}
	}
}

func (o other) Tombstones(ctx context.Context) iter.Seq2[journal.Link, error] {
	if o.tombstones == nil {
		return o.Store.Tombstones(ctx)
	}
	return func(yield func(journal.Link, error) bool) {
		for _, l := range o.tombstones {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// A rewritten store has valid chains; only the anchor shows that they are others.
func TestAnchorFindsWhatChainsCannot(t *testing.T) {
	k := newKeys(t)
	rewritten := memorytest.New()
	defer rewritten.Close()
	start := journaltest.Start("a", "me")
	start.Events[0].At++
	journaltest.Append(t, rewritten, start)
	journaltest.Append(t, rewritten, journaltest.Finish("a", 1, 1))
	cut := memorytest.New()
	defer cut.Close()
	journaltest.Append(t, cut, journaltest.Start("a", "me"))

	for name, c := range map[string]struct {
		change func(s *memorytest.Store) audit.AnchorSource
		want   string // faults
		counts string // removed and new runs
	}{
		"nothing": {func(s *memorytest.Store) audit.AnchorSource { return s }, "", "0 0"},
		"runs continue and start": {func(s *memorytest.Store) audit.AnchorSource {
			journaltest.Append(t, s, journaltest.Steps("c", 1, 1, 2))
			journaltest.Append(t, s, journaltest.Start("d", "me"))
			return s
		}, "", "0 1"},
		"removed": {func(s *memorytest.Store) audit.AnchorSource { remove(t, s, "a", "b"); return s }, "", "2 0"},
		"continued and removed": {func(s *memorytest.Store) audit.AnchorSource {
			journaltest.Append(t, s, journaltest.Finish("c", 1, 1))
			remove(t, s, "c")
			return s
		}, "", "1 0"},
		"removed and started again": {func(s *memorytest.Store) audit.AnchorSource {
			remove(t, s, "a")
			again := journaltest.Start("a", "me")
			again.Events[0].At = 77
			journaltest.Append(t, s, again)
			return s
		}, "", "1 1"},
		"gone": {
			func(s *memorytest.Store) audit.AnchorSource { return other{Store: s, hidden: []journal.RunID{"b"}} },
			"b: the run was removed, and there is no tombstone for it", "0 0",
		},
		"rewritten": {
			func(s *memorytest.Store) audit.AnchorSource {
				return other{Store: s, links: map[journal.RunID]journal.ChainReader{"a": rewritten}}
			},
			"a: the run was rewritten: its first 2 events are not those of the anchor", "0 0",
		},
		"cut off": {
			func(s *memorytest.Store) audit.AnchorSource {
				return other{Store: s, links: map[journal.RunID]journal.ChainReader{"a": cut}}
			},
			"a: the run ends with event 1, but had 2 events", "0 0",
		},
		"tombstones gone": {
			func(s *memorytest.Store) audit.AnchorSource {
				remove(t, s, "a")
				return other{Store: s, tombstones: []journal.Link{}}
			},
			": the store has 0 tombstones, but had 1\na: the run was removed, and there is no tombstone for it", "0 0",
		},
		"tombstones rewritten": {
			func(s *memorytest.Store) audit.AnchorSource {
				remove(t, rewrittenTombstones(t), "early")
				return other{Store: s, tombstones: slices.Collect(links(t, rewrittenTombstones(t)))}
			},
			": tombstones from before the anchor were changed", "0 0",
		},
	} {
		s, text := anchoredStore(t, k)
		got, err := audit.VerifyAnchor(t.Context(), text, c.change(s), k.check)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var faults []string
		for _, f := range got.Faults {
			faults = append(faults, fmt.Sprintf("%s: %s", f.Run, f.Message))
		}
		if all := strings.Join(faults, "\n"); all != c.want || got.OK != (c.want == "") {
			t.Errorf("%s: %q", name, all)
		}
		if counts := fmt.Sprint(got.Removed, got.New); counts != c.counts {
			t.Errorf("%s: %s removed and new", name, counts)
		}
	}
}

// Earlier anchors call the id of a run "run".
func TestEarlierAnchorsAreVerified(t *testing.T) {
	s, text := anchoredStore(t, newKeys(t))
	lines := slices.Collect(bytes.Lines(text))
	n := len(lines) - 2
	list := bytes.Join(lines[:n], nil)
	earlier := bytes.ReplaceAll(list, []byte(`"run_id":`), []byte(`"run":`))
	sum := func(text []byte) []byte { return fmt.Appendf(nil, "%x", sha256.Sum256(text)) }
	statement := bytes.Replace(lines[n], sum(list), sum(earlier), 1)
	signed := func([]byte, audit.Signature) error { return nil }
	got, err := audit.VerifyAnchor(t.Context(), slices.Concat(earlier, statement, lines[n+1]), s, signed)
	if err != nil || !got.OK || got.Runs != 3 || bytes.Equal(list, earlier) {
		t.Errorf("%+v, %v", got, err)
	}
}

// rewrittenTombstones returns a store with one tombstone that is not the one of
// anchoredStore.
func rewrittenTombstones(t *testing.T) *memorytest.Store {
	t.Helper()
	s := memorytest.New()
	t.Cleanup(func() { s.Close() })
	for _, id := range []journal.RunID{"late", "early"} {
		journaltest.Append(t, s, journaltest.Start(id, "me"))
		journaltest.Append(t, s, journaltest.Finish(id, 1, 1))
	}
	remove(t, s, "late")
	return s
}

func links(t *testing.T, s journal.ChainReader) iter.Seq[journal.Link] {
	return func(yield func(journal.Link) bool) {
		for l, err := range s.Tombstones(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(l) {
				return
			}
		}
	}
}

// No byte of an anchor can be changed without being found.
func TestAnchorsCannotBeChanged(t *testing.T) {
	k, stranger := newKeys(t), newKeys(t)
	s, text := anchoredStore(t, k)
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if got, err := audit.VerifyAnchor(t.Context(), changed, s, k.check); err == nil && got.OK &&
			i < bytes.LastIndexByte(text[:len(text)-1], '\n') {
			t.Fatalf("byte %d was changed, and nothing was found:\n%s", i, changed)
		}
	}
	if _, err := audit.VerifyAnchor(t.Context(), text, s, stranger.check); !errors.Is(err, audit.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	if _, err := audit.VerifyAnchor(t.Context(), nil, s, k.check); err == nil {
		t.Error("an empty file is an anchor")
	}
}

// Nothing is signed over a damaged store.
func TestNoAnchorOverDamage(t *testing.T) {
	k := newKeys(t)
	s, _ := anchoredStore(t, k)
	broken := other{Store: s, links: map[journal.RunID]journal.ChainReader{"b": wrongHashes{s}}}
	var text bytes.Buffer
	if _, err := audit.WriteAnchor(t.Context(), &text, broken, time.Now(), k.sign); !errors.Is(err,
		journal.ErrCorrupt) {
		t.Error(err)
	}
}

type wrongHashes struct{ *memorytest.Store }

func (w wrongHashes) Links(ctx context.Context, run journal.RunID) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		for l, err := range w.Store.Links(ctx, run) {
			l.Hash = bytes.Repeat([]byte{1}, 32)
			if !yield(l, err) {
				return
			}
		}
	}
}

// OpenSSL accepts the signature and the keys.
func TestOpenSSLVerifiesAnchors(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl")
	}
	k := newKeys(t)
	_, text := anchoredStore(t, k)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	statement := lines[len(lines)-2]
	signature, err := k.sign(statement)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"key": k.public, "private": k.private, "statement": statement, "signature": signature.Signature,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(openssl, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	verify := []string{
		"pkeyutl", "-verify", "-pubin", "-inkey", "key", "-rawin", "-in", "statement", "-sigfile", "signature",
	}
	if out, err := run(verify...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, err := run("pkeyutl", "-sign", "-inkey", "private", "-rawin", "-in", "statement", "-out", "theirs")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs, err := os.ReadFile(filepath.Join(dir, "theirs"))
	if err != nil || k.check(statement, audit.Signature{Algorithm: audit.Ed25519, Signature: theirs}) != nil {
		t.Errorf("the signature of OpenSSL is refused: %v", err)
	}
}
