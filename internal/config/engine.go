package config

import (
	"cmp"
	"net"

	"github.com/espalier-run/espalier/internal/text"
)

// The engines that drive runs.
const (
	EngineEmbedded = "embedded"
	EngineTemporal = "temporal"
)

// Temporal is how a Temporal server is reached.
type Temporal struct {
	Address   text.Text // host:port; empty is DefaultTemporal
	Namespace text.Text
	TaskQueue text.Text
	APIKey    text.Text // a reference to a secret
	TLS       bool
	// CA, Cert and Key are the names of files. They imply TLS.
	CA, Cert, Key text.Text
	ServerName    text.Text
	// Encryption are references to secrets. The first encrypts what the server gets; the others only decrypt.
	Encryption []text.Text
	// Unapproved says that no person has approved the server.
	Unapproved bool
}

// DefaultTemporal is the address of a Temporal server on this machine.
const DefaultTemporal = "localhost:7233"

// Shown returns the address of the server.
func (t *Temporal) Shown() string {
	return cmp.Or(t.Address.Value, DefaultTemporal)
}

func (t *Temporal) read(f *fields) {
	t.Address = f.text("address", "Host and port of the server; "+DefaultTemporal+" if not set.")
	t.Namespace = f.text("namespace", "The namespace of the workflows; default if not set.")
	t.TaskQueue = f.text("task_queue", "The task queue of the workers. Projects with different stores must not "+
		"share one. If not set, a name is chosen once and kept in the store.")
	t.APIKey = f.text("api_key", "The API key, as a reference to a declared secret: secret://NAME. It implies TLS.")
	t.TLS = f.flag("tls", "true: encrypt the connection.")
	t.CA = f.text("ca", "A PEM file with the certificates that sign the server's; those of the system if not set.")
	t.Cert = f.text("cert", "A PEM file with the client certificate.")
	t.Key = f.text("key", "A PEM file with the private key of the client certificate.")
	t.ServerName = f.text("server_name", "The name in the server's certificate, if it is not the host of the address.")
	t.Encryption = f.texts("encryption", "References to the secrets that encrypt what the server gets: secret://NAME. "+
		"The first encrypts; the others decrypt what they have encrypted before.")
	f.checkKey(t.APIKey, "api_key: secret://NAME")
	for _, secret := range t.Encryption {
		f.checkKey(secret, "encryption: [secret://NAME]")
	}
	if _, _, err := net.SplitHostPort(t.Address.Value); t.Address.Value != "" && err != nil {
		f.out.Errorf(CodeBadValue, t.Address.Span, "Write host and port: address: temporal.example.com:7233.",
			"%q is not the address of a Temporal server.", t.Address.Value)
	}
	if (t.Cert.Value == "") != (t.Key.Value == "") {
		at, missing := t.Cert.Span, "key"
		if t.Cert.Value == "" {
			at, missing = t.Key.Span, "cert"
		}
		f.out.Errorf(CodeMissing, at, "Set both cert and key.", "The client certificate has no %q.", missing)
	}
}
