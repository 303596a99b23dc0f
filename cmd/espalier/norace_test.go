//go:build !race && unix

package main

import "testing"

// simulatedUserProgram is this test program under another name.
func simulatedUserProgram(*testing.T) string { return "espalier-person" }
