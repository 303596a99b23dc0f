//go:build race && unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// simulatedUserProgram is this test program without the race detector, which makes
// SQLite some thirty times slower: there are a thousand processes to start.
func simulatedUserProgram(t *testing.T) string {
	t.Helper()
	path, err := plainProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var plainProgram = sync.OnceValues(func() (string, error) {
	// Below the folder of the programs that stand in for commands, which is
	// removed when the tests are over.
	person, err := exec.LookPath("espalier-person")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(person), "plain")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "espalier-person")
	if out, err := exec.Command("go", "test", "-c", "-race=false", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})
