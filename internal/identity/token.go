package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// tokenPrefix marks tokens, so that scanners for leaked secrets can find them.
const tokenPrefix = "espalier_"

// A token has 160 random bits in lowercase base32. That much entropy cannot be
// guessed, so a fast hash is enough to store it.
const tokenBytes = 20

var tokenText = base32.StdEncoding.WithPadding(base32.NoPadding)

// newToken returns a token and the hash that is stored in its place.
func newToken() (token, hash string) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw) // never fails
	token = tokenPrefix + strings.ToLower(tokenText.EncodeToString(raw))
	return token, hashToken(token)
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// authenticate returns the message authentication code of a text.
func authenticate(key []byte, text string) []byte {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(text))
	return sum.Sum(nil)
}

func sameHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
