package step_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// The key that tools and commands get is another one in every run: a server
// that does nothing twice must not mistake the second run for the first.
func TestIdempotencyKeysBelongToTheirRun(t *testing.T) {
	one, other := step.Job{Root: "r1", Key: "pay#0"}, step.Job{Root: "r2", Key: "pay#0"}
	if a, b := one.Idempotency(one.CallKey(1)), other.Idempotency(other.CallKey(1)); a == b || a != "r1/pay#0/call:1" {
		t.Errorf("%q, %q", a, b)
	}
}

// A job can be sent to another process: everything that cannot be encoded is in
// its Host. That a decoded job does the same work is part of steptest.
func TestJobIsPlainDataApartFromItsHost(t *testing.T) {
	seen := map[reflect.Type]bool{reflect.TypeFor[ir.Action](): true} // steps encode their actions
	var walk func(path string, at reflect.Type)
	walk = func(path string, at reflect.Type) {
		if seen[at] {
			return
		}
		seen[at] = true
		switch at.Kind() {
		case reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
			t.Errorf("%s is a %s", path, at)
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(path, at.Elem())
		case reflect.Struct:
			if reflect.PointerTo(at).Implements(reflect.TypeFor[json.Marshaler]()) {
				return
			}
			for i := range at.NumField() {
				if f := at.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					walk(path+"."+f.Name, f.Type)
				}
			}
		}
	}
	walk("Job", reflect.TypeFor[step.Job]())
	if !seen[reflect.TypeFor[ir.Program]()] || seen[reflect.TypeFor[step.Host]()] {
		t.Error("the walk misses the workflow or enters the host")
	}
}

// A storage folder that was removed while a step starts is not made again: without its signature, the next command
// would take it for one of another user.
func TestRunFolderNeedsItsStorage(t *testing.T) {
	storage := filepath.Join(t.TempDir(), ".espalier")
	job := &step.Job{Host: step.Host{Dir: filepath.Join(storage, "runs", "a")}}
	if err := job.MakeDir(); err == nil {
		t.Error("the folder of a run was made in a storage that does not exist")
	}
	if err := os.Mkdir(storage, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := job.MakeDir(); err != nil {
			t.Error(err)
		}
	}
}
