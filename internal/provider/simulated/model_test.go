package simulated_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/simulated"
)

func TestSuite(t *testing.T) {
	providertest.Run(t, providertest.Subject{Model: simulated.Model{Seed: 7, UseTools: true}, Offline: "simulated"})
}
