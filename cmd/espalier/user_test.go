package main

import (
	"testing"

	"github.com/espalier-run/espalier/internal/usertest"
)

// TestPromisesHoldForOrdinaryUsers runs the scripts about consent, files, secrets, the terminal and values in commands
// as an ordinary user, if root runs the tests.
func TestPromisesHoldForOrdinaryUsers(t *testing.T) {
	usertest.Run(t, "^TestScripts$/^(trust|named-consent|named-scripts|dry-run|escape|links|secrets|tools-escapes|"+
		"awf|awf-files|awf-shelves)$")
}
