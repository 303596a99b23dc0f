package anthropic_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/provider/anthropic"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

func TestSuite(t *testing.T) {
	providertest.RunNetwork(t, providertest.Anthropic, func(o wire.Options) providertest.NetworkModel { return anthropic.New(o) })
}
