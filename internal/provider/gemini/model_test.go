package gemini_test

import (
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
