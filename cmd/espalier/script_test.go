package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/cpython"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/rogpeppe/go-internal/testscript"
)

// quickExit makes processes with the race detector end when they are done:
// by default each of them lingers for a second.
const quickExit = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	process.Confine(os.Args)                         // commands of tests that run no script
	if cache, err := os.UserCacheDir(); err == nil { // also for programs with another home folder
		os.Setenv("XDG_CACHE_HOME", cache)
	}
	testscript.Main(prepared{m}, map[string]func(){"espalier": main, "espalier-person": runSimulatedUser})
}

// prepared loads the Python interpreter before the tests, so that none of them is the first use.
type prepared struct{ *testing.M }

func (p prepared) Run() int {
	if signal.Ignored(syscall.SIGHUP) { // by nohup; programs inherit it, unless the signal is caught here
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if err := cpython.Prepare(context.Background()); err != nil {
		panic(err)
	}
	return p.M.Run()
}

// TestScripts runs the whole product through its command line.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("REPOSITORY", root)
			e.Setenv("XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME"))
			e.Setenv("GORACE", quickExit)
			e.Setenv("BARE_PATH", barePath(t))
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"isjson": isJSON,
			"isxml":  isXML,
			"ispng":  isPNG,
			"sql":    runSQL,
		},
	})
}

// barePath is a PATH with espalier and what every machine has, whatever else
// there is on this one.
func barePath(t testing.TB) string {
	t.Helper()
	self, err := exec.LookPath("espalier")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{filepath.Dir(self), "/usr/bin", "/bin"}, string(filepath.ListSeparator))
}

// exits CODE ARGS... runs espalier and wants this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARGUMENT...]")
	}
	got := "0"
	if err := ts.Exec("espalier", args[1:]...); err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = fmt.Sprint(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("espalier %s: exit code %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// isjson FILE [PATH VALUE] wants JSON in which the dotted path has the value.
func isJSON(ts *testscript.TestScript, _ bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	if len(args) == 1 {
		return
	}
	for _, key := range strings.Split(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			if key == "length" {
				v = float64(len(at))
				continue
			}
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(at) {
				ts.Fatalf("%s: there is no %s", args[0], args[1])
			}
			v = at[i]
		default:
			ts.Fatalf("%s: there is no %s", args[0], args[1])
		}
	}
	if got := fmt.Sprint(v); got != args[2] {
		ts.Fatalf("%s: %s is %s, want %s", args[0], args[1], got, args[2])
	}
}

// sql FILE STATEMENT changes a SQLite file, and wants the statement to change something.
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	result, err := db.Exec(args[1])
	ts.Check(err)
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		ts.Fatalf("%s: %d rows, %v", args[1], n, err)
	}
}

// isxml FILE wants well-formed XML.
func isXML(ts *testscript.TestScript, _ bool, args []string) {
	d := xml.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			ts.Fatalf("%s: %v", args[0], err)
		}
	}
}

// ispng FILE wants a picture.
func isPNG(ts *testscript.TestScript, _ bool, args []string) {
	_, err := png.Decode(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
}
