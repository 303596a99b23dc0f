// Package pgtest starts PostgreSQL servers for tests.
package pgtest

// A server is a new cluster in a temporary folder that accepts connections
// through a Unix socket only. PostgreSQL refuses to run as root; a test that
// runs as root starts it as the user postgres or nobody.
