package cpython

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// task is the first line that Host reads.
type task struct {
	Code     []block        `json:"code"`
	Function string         `json:"function"`
	State    map[string]any `json:"state"`
	SDK      bool           `json:"sdk"`
}

type block struct {
	Code string `json:"code"`
}

// report is the last line that Host writes.
type report struct {
	Printed string `json:"printed"`
	Logged  string `json:"logged"`
	Done    bool   `json:"done"`
	Failed  string `json:"failed"`
	Line    int    `json:"line"`
}

// play runs a program and returns its last message.
func play(t *testing.T, ctx context.Context, e Environment, code string) (report, error) {
	t.Helper()
	line, err := json.Marshal(task{Code: []block{{code}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e.Stdin, e.Stdout = bytes.NewReader(append(line, '\n')), &out
	err = Run(ctx, e)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var r report
	if err == nil {
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
	}
	return r, err
}

// The embedded file is the one that the build writes from the published interpreter and host.py.
func TestImageIsUpToDate(t *testing.T) {
	unzipped, err := gzip.NewReader(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, unzipped); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != imageSHA256 {
		t.Errorf("python.wasm.gz has the checksum %s, not %s", got, imageSHA256)
	}
	if got := sha256.Sum256([]byte(Host)); hex.EncodeToString(got[:]) != hostSHA256 {
		t.Error(`host.py has changed: run "go run ./internal/cpython/build"`)
	}
}

func TestStandardLibraryIsThere(t *testing.T) {
	modules := "re datetime dataclasses collections functools itertools hashlib logging json typing math decimal " +
		"statistics string textwrap uuid random enum abc copy base64 operator contextlib heapq fractions csv html " +
		"difflib urllib.parse zoneinfo pprint graphlib unicodedata xml.etree.ElementTree tomllib asyncio sqlite3"
	code := "import importlib\nfor m in '" + modules + "'.split():\n    importlib.import_module(m)\nprint('all')"
	if r, err := play(t, t.Context(), Environment{}, code); err != nil || r.Printed != "all\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Code sees nothing of the machine.
func TestCodeIsHermetic(t *testing.T) {
	t.Setenv("ESPALIER_TEST_SECRET", "s3cret")
	for name, c := range map[string]struct{ code, printed, failed string }{
		"environment":   {"import os\nprint(dict(os.environ))", "{}\n", ""},
		"read a file":   {"open('/etc/passwd')", "", "FileNotFoundError"},
		"write a file":  {"open('/tmp/x', 'w')", "", "FileNotFoundError"},
		"list a folder": {"import os\nos.listdir('/')", "", "FileNotFoundError"},
		"network":       {"import socket\nsocket.create_connection(('127.0.0.1', 80))", "", "Error"},
		"command":       {"import os\nos.system('true')", "", "AttributeError"},
		"process":       {"import subprocess\nsubprocess.run(['true'])", "", "Error"},
		"thread":        {"import threading\nthreading.Thread(target=print).start()", "", "RuntimeError"},
		"leave": {
			"import sys\nsys.exit(3)", "", "SystemExit: 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := play(t, t.Context(), Environment{}, c.code)
			if err != nil || r.Printed != c.printed || !strings.Contains(r.Failed,
				c.failed) || r.Done != (c.failed == "") {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// Clock and random numbers depend on nothing but what the caller supplies.
func TestCodeIsReproducible(t *testing.T) {
	code := `
import datetime, random, time, uuid, os, secrets
print(datetime.datetime.now(datetime.timezone.utc).isoformat(), random.random(), uuid.uuid4(), os.urandom(4), secrets.token_hex(4))
print({"some", "words", "in", "a", "set"}, hash("text"), id(object()))
before = time.time()
time.sleep(3600)
print(round(time.time() - before), time.perf_counter() > 0)
`
	asked := 0
	e := Environment{Seed: "one", Now: func() time.Time {
		asked++
		return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}}
	first, err := play(t, t.Context(), e, code)
	if err != nil || !first.Done || !strings.HasPrefix(first.Printed, "2026-01-02T03:04:05") ||
		!strings.Contains(first.Printed, "3600 True") {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := play(t, t.Context(), e, code); err != nil || again != first {
		t.Errorf("%+v, %v, want %+v", again, err, first)
	}
	if asked != 2 {
		t.Errorf("the time was asked for %d times by 2 programs", asked)
	}
	e.Seed = "two"
	if other, err := play(t, t.Context(), e, code); err != nil || other.Printed == first.Printed {
		t.Errorf("another seed gives the same numbers: %+v, %v", other, err)
	}
	e.Now = func() time.Time { t.Error("the time was asked for"); return time.Time{} }
	if _, err := play(t, t.Context(), e, "print(1)"); err != nil {
		t.Error(err)
	}
}

// Every program ends, with an error that it could not have caught or with an exception.
func TestHostileCodeEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(time.Second, func() { cancel(stopped) })
	loop := "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
	if _, err := play(t, ctx, Environment{}, loop); !errors.Is(err, stopped) {
		t.Errorf("an endless loop: %v", err)
	}
	for name, c := range map[string]struct{ code, failed string }{
		"huge list":      {"x = [0] * (1 << 29)", "MemoryError"},
		"doubling text":  {"x = 'a' * 1000\nwhile True:\n    x += x", "MemoryError"},
		"deep recursion": {"def f(n):\n    return f(n + 1)\nf(0)", "RecursionError"},
		"deep repr":      {"x = []\nfor i in range(100000):\n    x = [x]\nrepr(x)", "RecursionError"},
		"deep json": {
			"import json\nx = []\nfor i in range(100000):\n    x = [x]\njson.dumps(x)",
			"RecursionError",
		},
		"deep brackets": {"eval('(' * 10000 + ')' * 10000)", "Error"},
		"deep cache": {
			"import functools\n@functools.lru_cache\ndef f(n):\n    return f(n + 1)\nf(0)", "RecursionError",
		},
		"deep sort": {"def f(n):\n    return sorted([1], key=lambda x: f(n + 1))\nf(0)", "RecursionError"},
		"deep property": {
			"class A:\n    @property\n    def a(self):\n        return getattr(self, 'a')\nA().a", "RecursionError",
		},
		"deep format": {"class A:\n    def __format__(self, s):\n        return f'{self}'\nf'{A()}'", "RecursionError"},
		"deep pattern": {
			"import re\nre.match('(' * 5000 + ')' * 5000, '')", "Error",
		},
		"deep compare": {"x = []\ny = []\nfor i in range(100000):\n    x = [x]\n    y = [y]\nx == y", "RecursionError"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := play(t, t.Context(), Environment{}, c.code)
			if err != nil || !strings.Contains(r.Failed, c.failed) || r.Line == 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	nested := "import functools\n@functools.lru_cache\ndef f(n):\n    return n and f(n - 1) + 1\nprint(f(150))"
	if r, err := play(t, t.Context(), Environment{}, nested); err != nil || r.Printed != "150\n" {
		t.Errorf("150 nested calls from C: %+v, %v", r, err)
	}
	// An interpreter that fails does not disturb the next one.
	if r, err := play(t, t.Context(), Environment{}, "print('well')"); err != nil || r.Printed != "well\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := play(t, ctx, Environment{}, "print(1)"); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// A damaged cache is as good as none.
func TestDamagedCacheIsReplaced(t *testing.T) {
	if err := Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	real := cached(cacheDir())
	if len(real) == 0 {
		t.Skip("there is no cache folder")
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"changed": func(b []byte) []byte { b[20] ^= 1; return b },
		"empty":   func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a")
			copied := copyCache(t, real[0], dir)
			data, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			discardDamaged(filepath.Dir(dir))
			if _, err := os.Stat(copied); !os.IsNotExist(err) {
				t.Errorf("the file is still there: %v", err)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "a")
	copied := copyCache(t, real[0], dir)
	discardDamaged(filepath.Dir(dir))
	if _, err := os.Stat(copied); err != nil {
		t.Errorf("an undamaged file was removed: %v", err)
	}
}

// TestCacheOfOthersIsNotExecuted offers cache folders that other users can change.
func TestCacheOfOthersIsNotExecuted(t *testing.T) {
	parent := t.TempDir()
	dir, code := filepath.Join(parent, "python"), filepath.Join(parent, "python", "code")
	if err := os.MkdirAll(code, 0o700); err != nil {
		t.Fatal(err)
	}
	if !isPrivate(dir) || !isPrivate(filepath.Join(parent, "new", "python")) || isPrivate("") {
		t.Error("a private folder is not used")
	}
	for _, path := range []string{parent, dir, code} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if isPrivate(dir) {
			t.Errorf("%s can be changed by others, and the cache is used", path)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(parent, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if isPrivate(link) {
		t.Error("a link is used")
	}
}

func copyCache(t *testing.T, from, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(from))
	for _, suffix := range []string{"", sumSuffix} {
		data, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
