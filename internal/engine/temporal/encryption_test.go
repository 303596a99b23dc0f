//go:build temporal

package temporal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

var oldSecret, newSecret = strings.Repeat("old ", 8), strings.Repeat("new ", 8)

// With secrets the server gets no text of a run, and the facts are the same.
func TestPayloadsAreEncrypted(t *testing.T) {
	const marker = "the-marker-of-this-program"
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	p.Description = marker
	for _, secrets := range [][]string{nil, {oldSecret}} {
		w := newWorld(t, func(c *temporal.Config) {
			if len(secrets) > 0 {
				c.Client = func(_ context.Context, o *client.Options) error { return temporal.Encrypt(o, secrets...) }
			}
		})
		e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
		id := start(t, e, p)
		if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
			t.Fatalf("%+v", entry)
		}
		if d := cmp.Diff(embeddedFacts(t, p, enginetest.NewKind()), facts(t, w.store, id)); d != "" {
			t.Error(d)
		}
		if got := readable(t, e, id); len(got) > 0 != (len(secrets) == 0) {
			t.Errorf("with %d secrets the history has these payloads in plain text: %q", len(secrets), got)
		}
	}
}

// readable returns the payloads in the history of a run that are JSON, except search attributes.
func readable(t *testing.T, e *temporal.Engine, id journal.RunID) (out []string) {
	t.Helper()
	for _, h := range histories(t, e, id) {
		for _, event := range h.Events {
			raw, err := protojson.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range bytes.Split(raw, []byte(`"data":"`))[1:] {
				text, _, _ := bytes.Cut(part, []byte(`"`))
				data, err := base64.StdEncoding.DecodeString(string(text))
				if err != nil {
					t.Fatal(err)
				}
				if len(data) > 0 && (data[0] == '{' || data[0] == '[') {
					out = append(out, string(data))
				}
			}
		}
	}
	return out
}

// A run that waits continues with a new secret as long as the old one is listed.
func TestSecretsCanBeReplaced(t *testing.T) {
	w := newWorld(t, func(c *temporal.Config) { c.Namespace = newNamespace(t) })
	open := func(secrets ...string) *temporal.Engine {
		w.config.Client = func(_ context.Context, o *client.Options) error { return temporal.Encrypt(o, secrets...) }
		return w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	}
	e := open(oldSecret)
	enginetest.Begin(t, e, enginetest.Shapes(t)["two pauses"])
	enginetest.Rest(t, e)
	enginetest.Stop(e)
	entry, err := enginetest.Finish(t, open(newSecret, oldSecret))
	if err != nil || entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v, %v", entry, err)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	if err := temporal.Encrypt(&client.Options{}, "short"); err == nil {
		t.Error("a secret of five characters encrypts")
	}
}
