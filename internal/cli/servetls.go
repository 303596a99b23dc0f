package cli

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"
)

// wrapTLS encrypts the connections of a listener, if there is a certificate. A
// file that changes is read again, so that a certificate can be renewed without
// a restart.
func (f *serveFlags) wrapTLS(l net.Listener) (net.Listener, error) {
	if f.cert == "" {
		return l, nil
	}
	c := &certificate{cert: f.cert, key: f.key}
	if _, err := c.get(nil); err != nil {
		return nil, fail(ExitNotReady, "Check --tls-cert and --tls-key.", "%v", err)
	}
	return tls.NewListener(l, &tls.Config{
		GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}), nil
}

// certificate is a certificate in files, which are looked at in each handshake. It is safe for concurrent use.
type certificate struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	at     time.Time // when the file was changed that is loaded
}

// get returns the certificate. While a renewal has replaced only one of the two files, they do not match: the
// certificate that is loaded stays in use, and the next handshake tries again.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.cert)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.at) {
		return c.loaded, nil
	}
	pair, loadErr := tls.LoadX509KeyPair(c.cert, c.key)
	if loadErr != nil {
		if c.loaded != nil { // the files are being replaced
			return c.loaded, nil
		}
		return nil, loadErr
	}
	c.loaded = &pair
	if err == nil {
		c.at = info.ModTime()
	}
	return c.loaded, nil
}
