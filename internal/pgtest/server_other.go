//go:build !linux

package pgtest

import "testing"

// Server is a PostgreSQL server.
type Server struct{}

// Shared skips the test: servers are started on Linux only.
func Shared(t testing.TB) *Server {
	t.Helper()
	t.Skip("skipped: PostgreSQL is started by tests on Linux only")
	return nil
}

// StopShared does nothing.
func StopShared() {}
