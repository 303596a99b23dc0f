package gemini_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/provider/gemini"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

func TestSuite(t *testing.T) {
	providertest.RunNetwork(t, providertest.Gemini, func(o wire.Options) providertest.NetworkModel {
		m, err := gemini.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// Options find their place, spelt as in Google's documentation or with
// underscores.
func TestOptions(t *testing.T) {
	s := providertest.NewServer(t, providertest.Gemini)
	s.Key = ""
	m, err := gemini.New(wire.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	req := providertest.AskText()
	req.Options = json.RawMessage(`{"top_p":0.25,"safety_settings":[]}`)
	if _, err := providertest.Collect(t, m.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		SafetySettings   []any
		GenerationConfig struct {
			TopP            float64
			MaxOutputTokens int
		}
	}
	if err := json.Unmarshal(s.Seen()[0].Body, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.SafetySettings == nil || sent.GenerationConfig.TopP != 0.25 || sent.GenerationConfig.MaxOutputTokens != req.MaxTokens {
		t.Errorf("sent %s", s.Seen()[0].Body)
	}
}
