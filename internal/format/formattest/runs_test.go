package formattest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the records in testdata/runs")

// Every workflow in testdata/runs yields its record.
//
// Spec: Agent Flow §11 runner
func TestRunsMatchTheirRecords(t *testing.T) {
	names, err := filepath.Glob("testdata/runs/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(err, "no runs")
	}
	for _, name := range names {
		short := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(name), "testdata/runs/"), ".txtar")
		t.Run(short, func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			happened := newTrial(a).run(t)
			happened.documented(t)
			got := happened.record(t, string(a.Comment))
			want, _ := section(a, "want")
			if got == want {
				return
			}
			if !*update {
				t.Errorf("the record differs (-want +got); go test -update writes it anew:\n%s", cmp.Diff(want, got))
				return
			}
			a.Files = append(without(a.Files, "want"), txtar.File{Name: "want", Data: []byte(got)})
			if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func without(files []txtar.File, name string) []txtar.File {
	var out []txtar.File
	for _, f := range files {
		if f.Name != name {
			out = append(out, f)
		}
	}
	return out
}
