package report

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordLines returns lines that differ, as the lines of a record do.
func recordLines(from, to int) []byte {
	var b []byte
	for i := from; i < to; i++ {
		b = fmt.Appendf(b, `{"seq":%d,"text":%q}`+"\n", i, strings.Repeat("x", 100))
	}
	return b
}

// put gives lines to a file as a Writer does, and seals the file if that is due.
func put(t *testing.T, f *file, text []byte, seal bool) {
	t.Helper()
	f.pending, f.ends = text, nil
	for i, c := range text {
		if c == '\n' {
			f.ends = append(f.ends, i+1)
		}
	}
	if err := f.flush(false); err != nil {
		t.Fatal(err)
	}
	if seal {
		if err := f.seal(); err != nil {
			t.Fatal(err)
		}
	}
}

func readRecord(t *testing.T, path string) []byte {
	t.Helper()
	in, err := ReadRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A process may be killed anywhere while it seals lines. Readers see all of them once, and the next process continues.
func TestSealingSurvivesAKillAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.audit.ndjson")
	f := &file{path: path, seals: true}
	defer f.close()
	put(t, f, recordLines(0, 300), true)
	put(t, f, recordLines(300, 600), false)
	before := map[string][]byte{}
	for _, name := range []string{path, path + sealedExt} {
		before[name] = mustRead(t, name)
	}
	put(t, f, nil, true)
	sealed := mustRead(t, path+sealedExt)
	start := len(before[path+sealedExt])
	states := map[string]map[string][]byte{
		"before":    before,
		"all":       {path: {}, path + sealedExt: sealed},
		"not moved": {path: before[path], path + sealedExt: sealed},
		"new file":  {path: before[path], path + sealedExt: sealed, emptyPath(path): {}},
	}
	for n := start; n < len(sealed); n += 97 {
		states[fmt.Sprintf("torn after %d", n-start)] = map[string][]byte{
			path: before[path], path + sealedExt: sealed[:n],
		}
	}
	want := recordLines(0, 600)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), filepath.Base(path))
			for from, text := range states[name] {
				to := filepath.Join(filepath.Dir(at), filepath.Base(from))
				if err := os.WriteFile(to, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := readRecord(t, at); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes are read of %d", len(got), len(want))
			}
			next := &file{path: at, seals: true} // compares from the start
			defer next.close()
			put(t, next, want[:40_000/len(recordLines(0, 1))*len(recordLines(0, 1))], false)
			put(t, next, want[next.offset:], false)
			put(t, next, recordLines(600, 700), true)
			put(t, next, recordLines(700, 800), false)
			if got := readRecord(t, at); !bytes.Equal(got, recordLines(0, 800)) {
				t.Errorf("the next process makes %d bytes of %d", len(got), len(recordLines(0, 800)))
			}
			// Any program that reads gzip reads the same.
			in, err := gzip.NewReader(bytes.NewReader(mustRead(t, at+sealedExt)))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(in)
			if err != nil || !bytes.Equal(append(text, mustRead(t, at)...), recordLines(0, 800)) {
				t.Errorf("gzip -dc has %d bytes, %v", len(text), err)
			}
		})
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Two processes write one record. One of them seals it, also when the other was killed while it did so.
func TestSealingIsSeenByOtherWriters(t *testing.T) {
	for _, killed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "run.audit.ndjson")
		a, b := &file{path: path, seals: true}, &file{path: path, seals: true}
		defer a.close()
		defer b.close()
		put(t, a, recordLines(0, 100), false)
		put(t, b, recordLines(0, 100), false)
		plain := mustRead(t, path)
		if killed { // the lines are in both files, and b has its file open
			member, err := newSegment(plain)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeSegment(path+sealedExt, 0, member); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, a, nil, true)
			put(t, a, recordLines(100, 200), true)
		}
		put(t, b, recordLines(100, 300), false)
		put(t, b, nil, true)
		put(t, b, recordLines(300, 400), false)
		if got := readRecord(t, path); !bytes.Equal(got, recordLines(0, 400)) {
			t.Errorf("killed %v: the record has %d bytes of %d", killed, len(got), len(recordLines(0, 400)))
		}
	}
}

// A record that cannot be sealed keeps its lines.
func TestFailedSealingKeepsTheLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.audit.ndjson")
	f := &file{path: path, seals: true}
	defer f.close()
	put(t, f, recordLines(0, 100), false)
	if err := os.Mkdir(path+sealedExt, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.seal(); err == nil {
		t.Error("a folder was written")
	}
	if got := mustRead(t, path); !bytes.Equal(got, recordLines(0, 100)) {
		t.Errorf("%d bytes remain", len(got))
	}
}

// A record whose sealed part was changed is set aside as a whole, and the parts can be read together.
func TestDamagedSegmentsAreSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.audit.ndjson")
	f := &file{path: path, seals: true}
	put(t, f, recordLines(0, 600), true)
	put(t, f, recordLines(600, 700), false)
	f.close()
	sealed := mustRead(t, path+sealedExt)
	sealed[len(sealed)/2] ^= 1
	if err := os.WriteFile(path+sealedExt, sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	f = &file{path: path, seals: true}
	text := recordLines(0, 700)
	f.pending = text
	for i, c := range text {
		if c == '\n' {
			f.ends = append(f.ends, i+1)
		}
	}
	err := f.flush(false)
	aside, ok := err.(*asideError)
	if !ok {
		t.Fatal(err)
	}
	if got := mustRead(t, aside.path+sealedExt); !bytes.Equal(got, sealed) {
		t.Error("the damaged part was not kept")
	}
	for _, name := range []string{path, path + sealedExt} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
