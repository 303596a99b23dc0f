//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue writes a certificate for this machine and its key, signed by itself.
func issue(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// A server with a certificate speaks TLS only, and presents a renewed certificate without a restart. Files that are
// being replaced do not interrupt it.
func TestServerUsesARenewedCertificate(t *testing.T) {
	p := newGatedProject(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := issue(t, cert, key, 1)
	s := startServer(p, "--tls-cert", cert, "--tls-key", key)
	address := strings.TrimPrefix(s.url, "http://")
	pid := s.cmd.Process.Pid
	serial := func(pool *x509.CertPool) int64 {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
		}}
		r, err := http.NewRequest(http.MethodGet, "https://"+address+"/api/v1/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.token)
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != http.StatusOK || w.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s %v", w.Status, w.Header)
		}
		return w.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(trusted); got != 1 {
		t.Errorf("certificate %d", got)
	}
	// A client that is not ours.
	if out, err := exec.Command("curl", "-sS", "--cacert", cert, "https://"+address+"/healthz").
		CombinedOutput(); err != nil ||
		string(out) != "ok\n" {
		t.Errorf("%v: %s", err, out)
	}
	if w, err := http.Get("http://" + address + "/healthz"); err == nil {
		w.Body.Close()
		if w.StatusCode == http.StatusOK {
			t.Error("the server answers without encryption")
		}
	}
	later := time.Now().Add(time.Minute) // file systems may have coarse times
	if err := os.WriteFile(cert, []byte("half of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(trusted); got != 1 {
		t.Errorf("while the files are replaced: certificate %d", got)
	}
	renewed := issue(t, cert, key, 2)
	later = later.Add(time.Minute)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(renewed); got != 2 {
		t.Errorf("after the renewal: certificate %d", got)
	}
	if s.cmd.ProcessState != nil || s.cmd.Process.Pid != pid {
		t.Error("the server has been restarted")
	}
}
