package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

// A transaction goes on while another goroutine waits for a connection to prepare a new statement.
func TestPreparingHoldsUpNoTransaction(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "journal.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const known = "SELECT 1"
	if _, err := s.stmt(known); err != nil {
		t.Fatal(err)
	}
	most := s.reader.Stats().MaxOpenConnections
	for range most - 1 {
		tx, err := s.reader.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
	}
	tx, err := s.reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	prepared := make(chan error, 1)
	go func() {
		_, err := s.stmt("SELECT 2")
		prepared <- err
	}()
	for s.reader.Stats().WaitCount == 0 {
		time.Sleep(time.Millisecond) // nothing announces that a connection is waited for
	}
	read := make(chan error, 1)
	go func() {
		var n int
		read <- s.rowIn(t.Context(), tx, known).Scan(&n)
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the transaction waits for the goroutine that waits for its connection")
	}
	tx.Rollback()
	if err := <-prepared; err != nil {
		t.Error(err)
	}
}
