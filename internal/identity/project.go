package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/private"
)

// tokenFile holds the project's own token. Only the owner of the state folder,
// and so of the project's runs, can read it.
const tokenFile = "server-token"

// ProjectToken returns the token of a project, and makes it if there is none.
func ProjectToken(stateDir string) (string, error) {
	path := filepath.Join(stateDir, tokenFile)
	if err := private.MakeFolder(stateDir); err != nil {
		return "", err
	}
	for range 2 {
		if err := private.Check(path); err != nil {
			return "", err
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			token := string(bytes.TrimSpace(raw))
			if !strings.HasPrefix(token, tokenPrefix) {
				return "", fmt.Errorf("%s is damaged: remove it to have a new token made", path)
			}
			return token, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := createToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s cannot be created", path)
}

// createToken writes a new token. A concurrent process sees no file or a whole
// one, and the first of two wins.
func createToken(path string) error {
	token, _ := newToken()
	next := path + "." + hashToken(token)[:8]
	if err := os.WriteFile(next, []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(next)
	return os.Link(next, path)
}

// OwnerOf returns the identity of the person who holds the project's token.
func OwnerOf() Identity {
	name := "owner"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return Identity{Name: name, Kind: Owner, Method: ByProjectToken, Roles: []Role{everything}}
}

// sessionKey derives the key that signs sessions from the project's token, so
// that a new token ends all sessions.
func sessionKey(projectToken string) []byte {
	return authenticate([]byte(projectToken), "espalier browser sessions 1")
}

func compareNames(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
