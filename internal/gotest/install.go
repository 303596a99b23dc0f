package gotest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"
)

// installTime is how long an installation may take. It is shorter than the time that the tests have, whose end would
// not say what they wait for.
const installTime = 20 * time.Minute

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
	ctx, stop := context.WithTimeoutCause(context.Background(), installTime,
		fmt.Errorf("it is not installed after %s", installTime))
	defer stop()
	cmd := exec.CommandContext(ctx, "go", "install", pkg+"@"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	cmd.WaitDelay = time.Second // its compilers may live on
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("go install %s@%s: %w\n%s", pkg, version, err, out)
	}
	return program, nil
}
