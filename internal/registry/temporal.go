//go:build temporal

package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/journal"
)

// useTemporal makes Temporal drive the runs.
func (r *Runtime) useTemporal(common engine.Config, o RuntimeOptions, now func() time.Time) error {
	c, err := temporalServer(o)
	if err != nil {
		return err
	}
	ofRuns := func(l config.Named[config.Concurrency]) bool { return l.Is.Runs > 0 }
	if slices.ContainsFunc(o.Config.Concurrency, ofRuns) {
		o.Notice("Temporal drives the runs: the limits on runs under concurrency in " + config.FileName +
			" do not apply, those on calls do.")
	}
	queue := c.TaskQueue.Value
	if queue == "" {
		if queue, err = taskQueue(context.Background(), r.Store); err != nil {
			return err
		}
	}
	r.Engine = temporal.New(temporal.Config{
		Config: common, Store: r.observed(r.Store, o), Now: now, Process: r.Process,
		Notice: o.Notice, Needs: needs(o.Config), Labels: o.Labels, Address: c.Shown(), Namespace: c.Namespace.Value,
		TaskQueue: queue,
		Client: func(ctx context.Context, options *client.Options) error {
			return credentials(ctx, filepath.Dir(r.dir), c, o.Models, options)
		},
	})
	return nil
}

// reachTemporal returns the version of the server, which has the namespace and accepts the credentials, and what does
// not work although runs do.
func reachTemporal(
	ctx context.Context, root string, c *config.Temporal, models *Models,
) (version, limited string, err error) {
	options := client.Options{HostPort: c.Shown(), Namespace: c.Namespace.Value}
	if err := credentials(ctx, root, c, models, &options); err != nil {
		return "", "", err
	}
	return temporal.Reach(ctx, options)
}

// needs returns the labels that processes need to run tasks, by workflow.
func needs(c *config.Config) map[string][]string {
	out := map[string][]string{}
	for _, n := range c.Needs {
		out[n.Name.Value] = slices.Sorted(slices.Values(c.LabelsOf(n.Name.Value)))
	}
	return out
}

// queueRegister keeps the name of the task queue, which all processes of a store
// share.
const queueRegister = "temporal/task-queue"

// taskQueue returns the name of the task queue, and chooses a random one if the store has none. Of processes that
// choose at the same time, one wins, and the others load its choice.
func taskQueue(ctx context.Context, store journal.Registers) (string, error) {
	for {
		kept, err := store.Load(ctx, queueRegister)
		if err != nil || len(kept.Data) > 0 {
			return string(kept.Data), err
		}
		kept.Key, kept.Data = queueRegister, []byte("espalier-"+strings.ToLower(rand.Text()[:12]))
		if _, err := store.Save(ctx, kept); err != nil && !errors.Is(err, journal.ErrConflict) {
			return "", err
		}
	}
}

// credentials sets how this process identifies itself to the server, and what encrypts the payloads. Names of files are
// relative to the project.
func credentials(
	ctx context.Context, root string, c *config.Temporal, models *Models, options *client.Options,
) error {
	secrets := make([]string, len(c.Encryption))
	for i, reference := range c.Encryption {
		var err error
		if secrets[i], err = models.resolve(ctx, reference.Value); err != nil {
			return err
		}
	}
	if len(secrets) > 0 {
		if err := temporal.Encrypt(options, secrets...); err != nil {
			return err
		}
	}
	if c.APIKey.Value != "" {
		key, err := models.resolve(ctx, c.APIKey.Value)
		if err != nil {
			return err
		}
		options.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	if c.APIKey.Value == "" && !c.TLS && c.CA.Value == "" && c.Cert.Value == "" {
		return nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName.Value}
	path := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(root, name)
	}
	if c.CA.Value != "" {
		pem, err := os.ReadFile(path(c.CA.Value))
		if err != nil {
			return err
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate", c.CA.Value)
		}
	}
	if c.Cert.Value != "" {
		pair, err := tls.LoadX509KeyPair(path(c.Cert.Value), path(c.Key.Value))
		if err != nil {
			return err
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	options.ConnectionOptions.TLS = secure
	return nil
}
