package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// save stores a register that must have a version, and returns the new version.
func save(t testing.TB, s journal.Store, key, value string, version int64) int64 {
	t.Helper()
	next, err := s.Save(t.Context(), journal.Register{Key: key, Data: []byte(value), Version: version})
	if err != nil || next == 0 {
		t.Fatalf("saving %q: version %d, %v", key, next, err)
	}
	return next
}

func load(t testing.TB, s journal.Store, key string) journal.Register {
	t.Helper()
	r, err := s.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func registersSwap(t *testing.T, s *group) {
	refused := func(key string, data []byte, version int64) {
		t.Helper()
		_, err := s.Save(t.Context(), journal.Register{Key: key, Data: data, Version: version})
		wantError(t, err, journal.ErrConflict)
	}
	for _, key := range []string{"a", "\x00\xff", "é", ""} {
		if r := load(t, s, key); r.Version != 0 || r.Data != nil || r.Key != key {
			t.Errorf("a new register is %+v", r)
		}
		refused(key, []byte("x"), 7)
		refused(key, nil, 7)
		first := save(t, s, key, "one", 0)
		refused(key, []byte("x"), 0)
		refused(key, nil, 0)
		second := save(t, s, key, "", first)
		if r := load(t, s, key); second == first || r.Version != second || r.Data == nil || len(r.Data) != 0 {
			t.Errorf("after version %d: %+v", first, r)
		}
		refused(key, []byte("x"), first)
		refused(key, nil, first)
		if v, err := s.Save(t.Context(), journal.Register{Key: key, Version: second}); v != 0 || err != nil {
			t.Errorf("removing: %d, %v", v, err)
		}
		if v, err := s.Save(t.Context(), journal.Register{Key: key}); v != 0 || err != nil {
			t.Errorf("removing what does not exist: %d, %v", v, err)
		}
		// A writer that has read a register does not take a later one for it.
		if third := save(t, s, key, "two", 0); third == first || third == second {
			t.Errorf("version %d is used again", third)
		}
	}
}

func registersList(t *testing.T, s *group) {
	keys := []string{"a", "a/", "a/1", "a/\xff", "a/\xff\xff", "a0", "b", "\xff", "\xff\xff"}
	for _, key := range keys {
		save(t, s, key, "value of "+key, 0)
	}
	for prefix, want := range map[string][]string{
		"": keys, "a/": keys[1:5], "a/\xff": keys[3:5], "\xff": keys[7:], "c": nil, "a": keys[:6],
	} {
		list, err := s.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			got = append(got, r.Key)
			if diff := cmp.Diff(load(t, s, r.Key), r); diff != "" || string(r.Data) != "value of "+r.Key {
				t.Errorf("%q: %s", r.Key, diff)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q lists %q, expected %q", prefix, got, want)
		}
	}
}

func registersRace(t *testing.T, s *group) { raceOnRegister(t, s) }

func registersShared(t *testing.T, a, b *group) {
	v := save(t, a, "k", "one", 0)
	_, err := b.Save(t.Context(), journal.Register{Key: "k", Data: []byte("x")})
	wantError(t, err, journal.ErrConflict)
	save(t, b, "k", "two", v)
	if r := load(t, a, "k"); string(r.Data) != "two" {
		t.Errorf("%+v", r)
	}
	raceOnRegister(t, a, b)
}

// raceOnRegister counts in one register with many writers: no count is lost.
func raceOnRegister(t *testing.T, stores ...*group) {
	const writers, each = 8, 10
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for i := range writers {
		s := stores[i%len(stores)]
		wg.Go(func() {
			for done := 0; done < each; {
				r, err := s.Load(context.Background(), "count")
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				if r.Version != 0 {
					fmt.Sscan(string(r.Data), &n)
				}
				r.Data = fmt.Append(nil, n+1)
				switch _, err := s.Save(context.Background(), r); {
				case err == nil:
					done++
				case errors.Is(err, journal.ErrConflict):
					conflicts.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if r := load(t, stores[0], "count"); string(r.Data) != fmt.Sprint(writers*each) {
		t.Errorf("counted %s of %d with %d conflicts", r.Data, writers*each, conflicts.Load())
	}
}
