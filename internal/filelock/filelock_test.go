package filelock_test

import (
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/filelock"
)

func open(t *testing.T, path string) *filelock.File {
	t.Helper()
	l, err := filelock.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestSharedAndExclusiveLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := open(t, path), open(t, path), open(t, path)
	try := func(what string, f func() (bool, error), want bool) {
		t.Helper()
		if got, err := f(); err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	try("a exclusive", a.TryExclusive, true)
	try("b exclusive beside exclusive", b.TryExclusive, false)
	try("b shared beside exclusive", b.TryShared, false)
	if err := a.Unlock(); err != nil {
		t.Fatal(err)
	}
	try("b shared", b.TryShared, true)
	try("c shared beside shared", c.TryShared, true)
	try("a exclusive beside shared", a.TryExclusive, false)
	c.Close()
	try("a exclusive beside one shared", a.TryExclusive, false)
	b.Close()
	try("a exclusive when all are gone", a.TryExclusive, true)
}

func TestLockWaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := open(t, path), open(t, path)
	if err := a.Exclusive(); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- b.Shared() }()
	a.Unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.OpenExisting(path + "-not"); err == nil {
		t.Error("a file that is not there was opened")
	}
}
