// Package gotest installs the Go programs of others that tests need.
package gotest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Install returns the path of the program that a package is, and installs it into the user's cache if it is not there.
// That takes minutes for the servers that tests start.
func Install(pkg, version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := path.Base(pkg)
	dir := filepath.Join(cache, "espalier-tests", name+"-"+version)
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cmd := exec.Command("go", "install", pkg+"@"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s@%s: %w\n%s", pkg, version, err, out)
	}
	return program, nil
}
