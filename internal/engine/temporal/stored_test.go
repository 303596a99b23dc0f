package temporal_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// stored is a run with everything that its replay needs.
type stored struct {
	Queue     string   `json:"queue"`
	Histories [][]byte `json:"histories"` // protocol buffers, the newest first
	Blobs     [][]byte `json:"blobs"`
}

// storedDir has a folder for each version of the workflow's code.
const storedDir = "testdata/histories"

func readStored(t *testing.T, name string) (s stored) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(zip).Decode(&s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// histories decodes the histories.
func (s stored) histories(t *testing.T) (out []*historypb.History) {
	t.Helper()
	for _, raw := range s.Histories {
		h := &historypb.History{}
		if err := proto.Unmarshal(raw, h); err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
	return out
}

// replay replays the histories with nothing but the stored blobs.
func (s stored) replay(t *testing.T, histories []*historypb.History) error {
	t.Helper()
	store := memorytest.New()
	defer store.Close()
	batch := journal.Batch{
		Run: enginetest.ID, Fence: journal.FirstFence, Owner: journal.Temporal,
		Events: []journal.Event{{Seq: 1, At: 1, Fact: journal.RunStarted{Name: "test"}}},
	}
	for _, raw := range s.Blobs {
		batch.Blobs = append(batch.Blobs, temporal.NewBlob(raw))
	}
	if err := journal.Append(t.Context(), store, batch); err != nil {
		t.Fatal(err)
	}
	e := temporal.New(temporal.Config{
		Config: engine.Config{Runners: map[string]step.Runner{"test": enginetest.NewKind()}},
		Store:  store, TaskQueue: s.Queue,
	})
	r, err := e.Replayer()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range histories {
		if err := r.ReplayWorkflowHistory(nil, h); err != nil {
			return err
		}
	}
	return nil
}

// Builds of one version of the workflow's code decide the same: they replay the
// histories of earlier builds. The ids of activities contain a hash of all facts,
// so the facts are equal byte for byte. If this test fails, the change needs a new
// workflowVersion.
func TestStoredHistoriesAreReplayed(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(storedDir, temporal.VersionName, "*.json.gz"))
	if err != nil || len(names) < 10 {
		t.Fatalf("%d histories: %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json.gz"), func(t *testing.T) {
			t.Parallel()
			s := readStored(t, name)
			if err := s.replay(t, s.histories(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
