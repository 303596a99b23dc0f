package openai_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/provider/openai"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

func TestChat(t *testing.T) {
	providertest.RunNetwork(t, providertest.Chat, func(o wire.Options) providertest.NetworkModel { return openai.NewChat(o) })
}

func TestResponses(t *testing.T) {
	providertest.RunNetwork(t, providertest.Responses, func(o wire.Options) providertest.NetworkModel { return openai.NewResponses(o) })
}
