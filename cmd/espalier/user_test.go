package main

import (
	"testing"

	"github.com/espalier-run/espalier/internal/usertest"
)

// TestPromisesHoldForOrdinaryUsers runs the scripts about consent, files and secrets as an ordinary user, if root runs
// the tests.
func TestPromisesHoldForOrdinaryUsers(t *testing.T) {
	usertest.Run(t, "^TestScripts$/^(trust|named-consent|escape|links|secrets)$")
}
