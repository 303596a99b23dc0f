package trust_test

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/usertest"
)

func in(dir string) trust.Store {
	return trust.Open(func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] })
}

// An approval is bound to a content and to a project, and can be taken back.
func TestApprovalIsForContentsOfAProject(t *testing.T) {
	usertest.Run(t, "^TestApprovalIsForContentsOfAProject$")
	s := in(t.TempDir())
	a, b := trust.File{Path: "x", SHA256: trust.Sum([]byte("a"))}, trust.File{Path: "y", SHA256: trust.Sum([]byte("b"))}
	if ok, err := s.Has("/p", a); ok || err != nil {
		t.Errorf("before: %v, %v", ok, err)
	}
	if err := s.Approve(trust.Record{Root: "/p", Files: []trust.File{a, b}}); err != nil {
		t.Fatal(err)
	}
	changed := trust.File{Path: a.Path, SHA256: trust.Sum([]byte("c"))}
	exchanged := trust.File{Path: a.Path, SHA256: b.SHA256}
	moved := trust.File{Path: "z", SHA256: a.SHA256}
	for _, c := range []struct {
		root  string
		files []trust.File
		want  bool
	}{
		{"/p", []trust.File{a}, true},
		{"/p", []trust.File{a, b}, true},
		{"/p", []trust.File{a, changed}, false},
		{"/p", []trust.File{changed}, false},
		{"/p", []trust.File{exchanged}, false},
		{"/p", []trust.File{moved}, false},
		{"/q", []trust.File{a}, false},
	} {
		if ok, err := s.Has(c.root, c.files...); ok != c.want || err != nil {
			t.Errorf("%s %v: %v, %v", c.root, c.files, ok, err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 1 || all[0].Root != "/p" {
		t.Errorf("%v, %v", all, err)
	}
	if ok, err := s.Revoke("/p"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if ok, _ := s.Has("/p", a); ok {
		t.Error("it is still approved")
	}
}

// What others can change approves nothing.
func TestStoreThatOthersCanChangeApprovesNothing(t *testing.T) {
	usertest.Run(t, "^TestStoreThatOthersCanChangeApprovesNothing$")
	if runtime.GOOS == "windows" {
		t.Skip("access is not in the mode there")
	}
	dir := t.TempDir()
	s, file := in(dir), trust.File{Path: "x", SHA256: trust.Sum([]byte("a"))}
	if err := s.Approve(trust.Record{Root: "/p", Files: []trust.File{file}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.Dir(), filepath.Join(s.Dir(), "trust")} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Has("/p", file); ok || err == nil {
			t.Errorf("%s: %v, %v", path, ok, err)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := s.Has("/p", file); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// Processes that begin at the same time agree on the user's key.
func TestSignatureIsTheSameForAll(t *testing.T) {
	dir := t.TempDir()
	var made [8]string
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			var err error
			if made[i], err = in(dir).Signature(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, one := range made {
		if one != made[0] || len(one) != 64 {
			t.Errorf("%q", made)
		}
	}
	if other, err := in(t.TempDir()).Signature(); err != nil || other == made[0] {
		t.Errorf("%v, %v", other, err)
	}
}
