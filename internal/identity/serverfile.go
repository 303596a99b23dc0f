package identity

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/private"
)

// ProofPath is the route at which a server proves that it serves a project.
const ProofPath = "/.well-known/espalier"

// ServerFile describes the running server of a project, for commands on the same
// machine.
type ServerFile struct {
	// URL is where the server answers on this machine.
	URL  string `json:"url"`
	Host string `json:"host"` // name of the machine
	PID  int    `json:"pid"`
	// TokenFile is the file with the token of the project, relative to this one.
	TokenFile string `json:"token_file"`
}

func serverFile(stateDir string) string { return filepath.Join(stateDir, "server.json") }

// WriteServerFile records the running server of a project. The returned function
// removes the record, unless another server has replaced it.
func WriteServerFile(stateDir, url string) (remove func(), err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(ServerFile{URL: url, Host: host, PID: os.Getpid(), TokenFile: tokenFile})
	if err != nil {
		return nil, err
	}
	raw = append(raw, '\n')
	path := serverFile(stateDir)
	next, err := os.CreateTemp(stateDir, "server.json.*") // 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(next.Name())
	_, err = next.Write(raw)
	if err := errors.Join(err, next.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return nil, err
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, raw) {
			os.Remove(path) // a file that remains names a server that does not answer
		}
	}, nil
}

// ReadServerFile returns the server that a project's state folder names, and the
// token of the project. It returns false if there is none on this machine. The
// server may have been killed since.
func ReadServerFile(stateDir string) (f ServerFile, token string, ok bool) {
	path := serverFile(stateDir)
	raw, err := os.ReadFile(path)
	if err != nil || private.Check(path) != nil {
		return f, "", false
	}
	host, err := os.Hostname()
	if err != nil || json.Unmarshal(raw, &f) != nil || f.Host != host || f.TokenFile != tokenFile ||
		private.Check(filepath.Join(stateDir, tokenFile)) != nil {
		return f, "", false
	}
	content, err := os.ReadFile(filepath.Join(stateDir, tokenFile))
	token = string(bytes.TrimSpace(content))
	return f, token, err == nil && token != ""
}

// Proof returns what shows the holder of a project's token that a server has the
// same token. It does not reveal the token.
func Proof(token, challenge string) string {
	return hex.EncodeToString(authenticate([]byte(token), "espalier server proof 1\x00"+challenge))
}

// Proof returns the proof of the project's token for a challenge.
func (a *Authenticator) Proof(challenge string) string { return Proof(a.token, challenge) }
