//go:build !linux

package pgtest

import (
	"errors"
	"testing"
)

// Server is a PostgreSQL server.
type Server struct{}

// ErrMissing means that servers cannot be started on this system.
var ErrMissing = errors.New("PostgreSQL servers are started on Linux only")

// Start fails.
func Start(...string) (*Server, error) { return nil, ErrMissing }

// Shared skips the test.
func Shared(t testing.TB) *Server {
	t.Helper()
	t.Skip("skipped: ", ErrMissing)
	return nil
}

// StopShared does nothing.
func StopShared() {}

// Remove does nothing.
func (*Server) Remove() {}

// URL returns no URL.
func (*Server) URL(string) string { return "" }

// Create fails.
func (*Server) Create(string) error { return ErrMissing }
