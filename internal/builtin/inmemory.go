package builtin

import (
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
)

// InMemory returns an engine that does the work as any other does, but keeps
// its journal in memory: for trying workflows out, with a clock that is not
// the machine's if need be. Only files that steps make go to the disk, below dir.
func InMemory(dir string, o RuntimeOptions) (*engine.Engine, journal.Store) {
	store := memory.New()
	o = o.complete()
	return engine.New(engine.Config{
		Store: store, Process: alone{}, Kinds: Runners(), CheckOutput: CheckOutput, FillInput: FillInput, Machine: machine,
		Log: o.Log, Host: newHost(dir, o),
	}), store
}

// alone is a process that shares its store with nobody.
type alone struct{}

const myself journal.Owner = "this process"

func (alone) ID() journal.Owner         { return myself }
func (alone) Dead(o journal.Owner) bool { return o != myself }
func (alone) Wake(journal.Owner)        {}
func (alone) Wakes() <-chan struct{}    { return nil }
