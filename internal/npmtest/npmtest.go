package npmtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Install makes sure that a package is there, such as "@scope/name@1.2.3", and
// returns the folder that npm has put it into: programs are in its
// node_modules/.bin. It is fetched once for all tests, into the user's cache.
func Install(t testing.TB, pkg string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(cache, "espalier-tests", "npm")
	dir := filepath.Join(home, strings.NewReplacer("/", "+", "@", "").Replace(pkg))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatalf("this test needs %s: install Node.js with npm", pkg)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	// Beside its place, and then into it at once: another test may be doing
	// the same.
	fresh, err := os.MkdirTemp(home, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	install := exec.Command(npm, "install", "--prefix", fresh, "--no-audit", "--no-fund", "--ignore-scripts",
		"--loglevel=error", pkg)
	install.Dir = fresh
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install %s: %v\n%s", pkg, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Program is a program that a package brings along.
func Program(t testing.TB, pkg, name string) string {
	t.Helper()
	path := filepath.Join(Install(t, pkg), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(fmt.Errorf("%s has no program %s: %w", pkg, name, err))
	}
	return path
}

// ModelServer is a server of models that we did not write, at a version that is
// known to work.
const ModelServer = "@copilotkit/aimock@1.43.0"

// Serve runs a script in Node.js with the folder of a package, and more, and
// returns the first line that it prints: its address. It ends with the test, by
// the end of its input.
func Serve(t testing.TB, script, pkg string, more ...string) string {
	t.Helper()
	lines := Lines(t, script, pkg, more...)
	return lines()
}

// Lines is like Serve, and returns a function that waits for the next line that
// the script prints.
func Lines(t testing.TB, script, pkg string, more ...string) func() string {
	t.Helper()
	server := exec.Command("node", append([]string{script, Install(t, pkg)}, more...)...)
	server.Stderr = t.Output()
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = server.Wait() // how it ends is its own business
	})
	lines := bufio.NewReader(out)
	return func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
}
