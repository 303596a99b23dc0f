//go:build linux && objects

package main

import (
	"fmt"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/espalier-run/espalier/internal/objecttest"
)

// Large values are in a bucket.
func TestObjectStorageKeepsLargeValues(t *testing.T) {
	server := objecttest.Start(t)
	t.Setenv("S3_ENDPOINT", server.URL)
	t.Setenv("S3_ACCESS_KEY", objecttest.AccessKey)
	t.Setenv("S3_SECRET_KEY", objecttest.SecretKey)
	objects = func(s *testscript.TestScript, _ bool, args []string) {
		names := server.Objects(t)
		if args[0] == "lose" {
			server.Replace(t, names[0], nil)
		} else if fmt.Sprint(len(names)) != args[0] {
			s.Fatalf("the bucket has %q", names)
		}
	}
	scriptsOnPostgres(t, "DATABASE", "postgres/objects")
}
