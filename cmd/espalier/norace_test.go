//go:build !race && unix

package main

import "testing"

// personProgram is this test program under another name.
func personProgram(*testing.T) string { return "espalier-person" }
