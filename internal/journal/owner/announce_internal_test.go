//go:build unix

package owner

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
)

// A process whose file is removed before it has locked it, by one that mistakes it for the file of a dead process,
// creates it again: it must not be considered dead.
func TestFileThatIsRemovedBeforeItIsLockedIsCreatedAgain(t *testing.T) {
	dir := t.TempDir()
	observer := Observe(dir)
	for i := range 50 {
		p := &Process{dir: dir, id: journal.Owner(rand.Text()), wakes: make(chan struct{}, 1)}
		path := p.path(p.id) + lockSuffix
		sweeper, err := filelock.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := sweeper.Shared(); err != nil {
			t.Fatal(err)
		}
		announced := make(chan error, 1)
		go func() { announced <- p.announce() }()
		time.Sleep(time.Duration(i%10) * 200 * time.Microsecond) // before or after the process has opened the file
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		sweeper.Close()
		if err := <-announced; err != nil {
			t.Fatal(err)
		}
		if observer.Dead(p.id) {
			t.Fatalf("try %d: a process that has just started is taken for dead", i)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
