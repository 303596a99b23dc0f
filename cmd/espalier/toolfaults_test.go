//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFaultyToolCallsEndAndAreRecorded checks that every call ends or is refused, that its result is recorded, and
// that no process is left.
func TestFaultyToolCallsEndAndAreRecorded(t *testing.T) {
	inside := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inside") }))
	t.Cleanup(inside.Close)
	away := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	t.Cleanup(away.Close)
	for name, c := range map[string]struct {
		tool  string
		input map[string]any
		exit  int
		want  string // in the record
	}{
		"hangs":        {"Bash", map[string]any{"command": `exec 9>"$ESPALIER_PROJECT/alive"; trap '' TERM; sleep 1000`, "timeout_seconds": 1}, 1, "stopped after 1 seconds"},
		"100 MB":       {"Bash", map[string]any{"command": `exec 9>"$ESPALIER_PROJECT/alive"; head -c 100000000 /dev/zero; sleep 1000`}, 1, "it wrote more than"},
		"forks away":   {"Bash", map[string]any{"command": `setsid sh -c 'exec 9>"$ESPALIER_PROJECT/alive"; trap "" TERM; echo > on; sleep 1000' & while ! [ -e on ]; do :; done; echo gone`}, 0, "gone"},
		"a link":       {"Read", map[string]any{"path": "link/passwd"}, 1, "is a link that leads out"},
		"private":      {"http.request", map[string]any{"url": inside.URL}, 1, "neither public nor allowed"},
		"sent inside":  {"http.request", map[string]any{"url": away.URL}, 1, "neither public nor allowed"},
		"wrong input":  {"Bash", map[string]any{"comand": "true"}, 1, "is invalid"},
		"many answers": {"Bash", map[string]any{"command": `exec 9>"$ESPALIER_PROJECT/alive"; yes >&2 & yes`}, 1, "it wrote more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newChainProject(t, 0)
			args, err := json.Marshal(c.input)
			if err != nil {
				t.Fatal(err)
			}
			writeApproved(t, filepath.Join(k.dir, "fault.md"),
				"---\nname: fault\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Go wrong.\n---\n"+
					"```step\nid: act\ntype: tool\ndescription: Act\ntool: "+c.tool+"\nargs: "+string(args)+"\n"+
					"writes: [output]\n```\n")
			writeApproved(t, filepath.Join(k.dir, "espalier.yaml"),
				"allow: {hosts: ['"+strings.TrimPrefix(away.URL, "http://")+"']}\n")
			if err := os.Symlink("/etc", filepath.Join(k.dir, "link")); err != nil {
				t.Fatal(err)
			}
			alive := filepath.Join(k.dir, "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			held, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			cmd := k.command("run", "fault.md", "--allow-shell", "--run-id", chainRunID)
			output, _ := cmd.CombinedOutput() // how it ended is looked at
			if got := cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, not %d\n%s", got, c.exit, output)
			}
			if _, err := io.Copy(io.Discard, held); err != nil { // ends when all writers are gone
				t.Error(err)
			}
			record, err := k.command("transcript", chainRunID).Output()
			if err != nil || !strings.Contains(string(record), c.want) {
				t.Errorf("%v: not recorded: %.2000s", err, record)
			}
		})
	}
}
