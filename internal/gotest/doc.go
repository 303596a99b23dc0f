// Package gotest installs the Go programs of others that tests need.
package gotest
