package registry

import (
	"path/filepath"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
)

// InMemory returns an engine over a store that no other process shares, for tests of workflows. Files of steps are
// written below dir.
func InMemory(dir string, store journal.Store, o RuntimeOptions) engine.Engine {
	o = o.complete()
	if o.Models == nil {
		o.Models = NewModels(filepath.Dir(dir), o.Config, o.Getenv)
	}
	return embedded.New(embedded.Config{
		Store: store, Process: alone{journal.Owner(uuid.NewString())},
		Config: engine.Config{
			Kinds: Runners(), CheckOutput: CheckOutput, FillInput: FillInput, Machine: machine(filepath.Dir(dir)),
			Log: o.Log, Host: newHost(dir, o),
		},
	})
}

// MemoryStore returns a store in memory.
func MemoryStore() journal.Store { return memory.New() }

// alone is a process that shares its store with no living process.
type alone struct{ id journal.Owner }

func (a alone) ID() journal.Owner         { return a.id }
func (a alone) Dead(o journal.Owner) bool { return o != a.id }
func (alone) Wake(journal.Owner)          {}
func (alone) Drives(journal.Owner) bool   { return false }
func (alone) StopDriving()                {}
func (alone) Wakes() <-chan struct{}      { return nil }
