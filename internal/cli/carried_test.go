package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/identity"
)

// A repository can contain a state folder that names a server and the token with which the server proves itself.
// Commands send nothing to it.
func TestServerOfACarriedStateFolderIsNotUsed(t *testing.T) {
	const token = "token"
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != identity.ProofPath {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"proof":%q}`, identity.Proof(token, r.URL.Query().Get("challenge")))
	}))
	defer server.Close()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(identity.ServerFile{URL: server.URL, Host: host, PID: 1, TokenFile: "server-token"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, ".espalier")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"server.json": string(file), "server-token": token} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := identity.ReadServerFile(state); !ok {
		t.Fatal("the folder names no server")
	}
	for _, args := range [][]string{{"approve", "d25a"}, {"resume", "d25a"}, {"cancel", "d25a"}} {
		if code, _, stderr := run(t, dir, args...); code == 0 || asked.Load() > 0 {
			t.Errorf("%v: exit code %d after %d requests\n%s", args, code, asked.Load(), stderr)
		}
	}
}
