package ir_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// The versions are from the specification of semantic versioning and its test suite.
func TestVersionsAreSemantic(t *testing.T) {
	for version, want := range map[string]bool{
		"0.0.4": true, "1.2.3": true, "10.20.30": true, "1.1.2-prerelease+meta": true, "1.1.2+meta": true,
		"1.0.0-alpha": true, "1.0.0-alpha.beta": true, "1.0.0-alpha.1": true, "1.0.0-alpha0.valid": true,
		"1.0.0-rc.1+build.1": true, "1.2.3----RC-SNAPSHOT.12.9.1--.12": true, "1.0.0-0A.is.legal": true,
		"99999999999999999999999.999999999999999999.99999999999999999": true,
		"1": false, "1.2": false, "1.2.3-0123": false, "1.2.3-0123.0123": false, "1.1.2+.123": false,
		"+invalid": false, "-invalid": false, "alpha": false, "1.0.0-alpha_beta": false, "1.0.0-alpha..": false,
		"01.1.1": false, "1.01.1": false, "1.1.01": false, "1.2.3.DEV": false, "1.2-SNAPSHOT": false,
		"v1.2.3": false, "1.2.3 ": false, "": false,
	} {
		if got := ir.ValidVersion(version); got != want {
			t.Errorf("ValidVersion(%q) = %t", version, got)
		}
	}
}
