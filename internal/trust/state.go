package trust

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// keyFile holds a random key of the user, with which state folders are signed.
const keyFile = "key"

const keyBytes = 32

// key returns the user's key. It creates the key on first use. Several processes may do so at the same time: writeNew
// keeps the first one, and the second round reads it.
func (s Store) key() ([]byte, error) {
	name := filepath.Join(s.dir, keyFile)
	for range 2 {
		raw, err := s.read(name)
		if err != nil {
			return nil, err
		}
		if key, err := hex.DecodeString(string(bytes.TrimSpace(raw))); err == nil && len(key) == keyBytes {
			return key, nil
		}
		fresh := make([]byte, keyBytes)
		if _, err := rand.Read(fresh); err != nil {
			return nil, err
		}
		if err := s.writeNew(name, []byte(hex.EncodeToString(fresh)+"\n")); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is not a valid key; remove it to create a new one", name)
}

// Signature returns the mark of state folders that this user has created. It
// cannot be computed without the user's key, so a repository cannot contain a
// state folder that is accepted.
func (s Store) Signature() (string, error) {
	key, err := s.key()
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("espalier state folder 1"))
	return hex.EncodeToString(sum.Sum(nil)), nil
}
