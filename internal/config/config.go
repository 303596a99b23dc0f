package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// FileName is the name of the configuration file in the root folder of a project.
const FileName = "espalier.yaml"

// Config holds the settings of espalier.yaml. The zero Config is that of a project without the file.
type Config struct {
	File *source.File // nil if there is no file

	Models   Models
	Prices   []Named[Price]
	Secrets  []Named[Secret]
	Defaults Defaults
	Tools    []Named[Tool]
	MCP      []Named[Server]
	Sandbox  bool
	Allow    Allow
	// Commands limits the resources of commands; zero fields select the defaults.
	Commands process.Limits
	// GracePeriod is how long a run waits for a running command after a signal to stop; 0 selects the default.
	GracePeriod time.Duration
	// Retention is applied by long-running processes: work and serve.
	Retention Retention
	// Spending limits what all runs together may cost.
	Spending []Named[Spending]
	// Concurrency limits how many runs and model calls happen at the same time.
	Concurrency []Named[Concurrency]
	// Needs are the labels that a worker must have to drive runs, keyed by workflow.
	Needs []Named[Needs]
	// Store is the database that keeps runs; if its URL is empty, runs are kept in the project's folder.
	Store Store
	// Objects keeps the large values of a database.
	Objects Objects
	// Engine drives runs: EngineEmbedded, which an empty one means, or
	// EngineTemporal.
	Engine   string
	Temporal Temporal

	Triggers []Named[Trigger] // keyed by workflow
	Webhooks []Named[Webhook]

	Notifications []Named[Notification]

	// MCPFile holds the servers of .mcp.json.
	MCPFile MCPFile
}

// Store is the database that keeps runs.
type Store struct {
	URL text.Text
	// Unapproved reports that the URL is not approved.
	Unapproved bool
}

// Shown returns the URL without its passwords, which may also be parameters.
func (s Store) Shown() string {
	u, err := url.Parse(s.URL.Value)
	if err != nil {
		return "a database"
	}
	query := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if query.Has(name) {
			query.Set(name, "xxxxx") // as Redacted writes it
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// Parse parses a configuration file. The Config is usable unless the list contains an error. Settings that need
// approval are enabled: the caller disables them (DisableUnapproved) unless a person has approved the file.
func Parse(f *source.File) (*Config, diag.List) {
	node, out := text.ParseYAML(f, 0, len(f.Text))
	c := &Config{File: f}
	all := newFields(node, "configuration", &out)
	c.read(all)
	all.done()
	c.check(&out)
	return c, out.Sorted()
}

// read reads all sections. It is the list of the top-level keys.
func (c *Config) read(f *fields) {
	f.object("models", "models section", "Models and their providers.", c.Models.read)
	c.Prices = readPrices(f)
	c.Secrets = readSecrets(f)
	f.object("defaults", "defaults section", "Defaults for agents.", c.Defaults.read)
	c.Tools = readTools(f)
	c.MCP = readServers(f)
	c.Sandbox = f.flag("sandbox",
		"true: commands can read the project, change only their run's folder, and have no network access.")
	c.GracePeriod = f.duration("grace_period", "How long a run that receives SIGTERM or SIGHUP waits for a running "+
		"command before it interrupts it; 10s if not set.")
	f.object("retention", "retention section", "When \"espalier work\" and \"espalier serve\" remove finished runs.",
		c.Retention.read)
	c.Spending = readSpending(f)
	c.Concurrency = readConcurrency(f)
	c.Needs = readNeeds(f)
	c.Store.URL = f.text("store", "The database that keeps runs: postgres://user@host/database. If not set, runs are "+
		"kept in the folder .espalier.")
	f.object("objects", "objects section", "Object storage for the large values of runs in a database.", c.Objects.read)
	c.Engine = f.choice("engine", "What drives runs: embedded (this program alone; the default) or temporal (a "+
		"Temporal server).", EngineEmbedded, EngineTemporal)
	f.object("temporal", "temporal section", "How the Temporal server is reached, if engine is temporal.",
		c.Temporal.read)
	f.object("allow", "allow section", "What runs may do on this machine.", c.Allow.read)
	c.Commands = readCommands(f)
	c.Triggers = readTriggers(f)
	c.Webhooks = readWebhooks(f)
	c.Notifications = readNotifications(f)
}

// Find reads espalier.yaml and .mcp.json of a project; files that do not exist leave their part of the Config empty.
// Problems of .mcp.json are kept in MCPFile rather than returned. Find calls read with the name of each file.
func Find(read func(name string) (*source.File, error)) (*Config, diag.List, error) {
	c, list := &Config{}, diag.List(nil)
	f, err := find(read, FileName)
	if err != nil {
		return nil, nil, err
	}
	if f != nil {
		c, list = Parse(f)
	}
	servers, err := find(read, MCPFileName)
	switch {
	case err != nil:
		c.MCPFile.Err = err
	case servers != nil:
		c.MCPFile = ParseMCP(servers)
	}
	return c, list, nil
}

// find reads an optional file; it returns nil if the file does not exist.
func find(read func(name string) (*source.File, error), name string) (*source.File, error) {
	f, err := read(name)
	var ref *source.RefError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &ref) && ref.Problem == source.RefMissing {
		return nil, nil
	}
	return f, err
}

// Schema returns the JSON Schema of the file, for editors.
func Schema() json.RawMessage {
	all := newFields(nil, "configuration", new(diag.List))
	new(Config).read(all)
	all.schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	all.schema["title"] = "Espalier configuration (" + FileName + ")"
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(all.schema); err != nil {
		panic(err) // cannot happen: the schema consists of maps and strings
	}
	return b.Bytes()
}

// check reports references between sections that do not resolve.
func (c *Config) check(out *diag.List) {
	headers := func(list []Header) {
		for _, h := range list {
			c.checkReference(h.Value, out)
		}
	}
	for _, p := range c.Models.Providers {
		c.checkReference(p.Is.Key, out)
		headers(p.Is.Headers)
	}
	c.checkReference(c.Temporal.APIKey, out)
	c.checkReference(c.Objects.AccessKey, out)
	c.checkReference(c.Objects.SecretKey, out)
	for _, secret := range c.Temporal.Encryption {
		c.checkReference(secret, out)
	}
	for _, w := range c.Webhooks {
		c.checkReference(w.Is.Secret, out)
	}
	for _, n := range c.Notifications {
		c.checkReference(n.Is.URL, out)
		c.checkReference(n.Is.Secret, out)
	}
	for _, cli := range c.Models.CLIs {
		headers(cli.Is.Env)
	}
	for _, t := range c.Tools {
		c.checkReference(t.Is.Bearer, out)
		headers(t.Is.Headers)
		for _, h := range t.Is.Headers {
			checkVariables(h.Value, out)
		}
	}
	for _, s := range c.MCP {
		headers(s.Is.Env)
		headers(s.Is.Headers)
		if s.Is.OAuth != nil {
			c.checkReference(s.Is.OAuth.Secret, out)
		}
		s.Is.checkVariables(out)
	}
}
