//go:build unix

package process

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// guardianScript waits until we are gone: it reads from a pipe whose other end
// only we hold, and those that we have forked and that are not yet what they
// shall become. Then it kills the groups in the table, and whatever carries
// our mark in its environment, until nothing does. A table without an entry
// means that nothing ran.
const guardianScript = `trap '' HUP INT QUIT TERM PIPE
read -r _
busy=
while read -r group; do
	case $group in
	'') ;;
	0) busy=1 ;;
	*) busy=1; kill -KILL -- "-$group" ;;
	esac
done <&3
[ "$busy" ] && [ -r /proc/self/environ ] || exit 0
tries=50
while found=$(grep -lsF "$1" /proc/[0-9]*/environ); [ -n "$found" ] && [ $((tries-=1)) -gt 0 ]; do
	for one in $found; do one=${one#/proc/}; kill -KILL "${one%/environ}"; done
done`

// guardian is the one child that survives us, to end our commands.
type guardian struct {
	mu       sync.Mutex
	table    *os.File // a line for each command that runs: its group, or 0 while it has none
	reading  *os.File // the table, at its beginning
	mark     string   // that all our commands carry
	free     []int    // lines that are empty
	lines    int
	count    int      // of the commands so far
	leash    *os.File // as long as we hold it, the guardian does nothing
	replaced int
}

var watched guardian

// lineSize is that of each line in the table.
const lineSize = 12

// reserve has everything that carries the mark it returns die with us.
func (g *guardian) reserve() (line int, mark string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.begin(); err != nil {
		return 0, "", fmt.Errorf("nothing would end the command if this process were killed: %w", err)
	}
	line = g.lines
	if n := len(g.free); n > 0 {
		line, g.free = g.free[n-1], g.free[:n-1]
	} else {
		g.lines++
	}
	if err := g.write(line, "0"); err != nil {
		g.free = append(g.free, line)
		return 0, "", err
	}
	g.count++
	return line, g.mark + strconv.Itoa(g.count) + ".", nil
}

// watch has a group die with us.
func (g *guardian) watch(line, group int) error { return g.write(line, strconv.Itoa(group)) }

// forget is called before the group's number may go to somebody else.
func (g *guardian) forget(line int) {
	_ = g.write(line, "0") // a file that could be written a moment ago
}

func (g *guardian) release(line int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.write(line, "")
	g.free = append(g.free, line)
}

func (g *guardian) write(line int, what string) error {
	_, err := g.table.WriteAt(fmt.Appendf(nil, "%-*s\n", lineSize-1, what), int64(line)*lineSize)
	return err
}

// begin starts the guardian if there is none.
func (g *guardian) begin() error {
	if g.leash != nil {
		return nil
	}
	if g.table == nil {
		table, err := os.CreateTemp("", "espalier-commands-")
		if err != nil {
			return err
		}
		defer os.Remove(table.Name()) // it is reached through what is open only
		if g.reading, err = os.Open(table.Name()); err != nil {
			table.Close()
			return err
		}
		g.table, g.mark = table, rand.Text()+"."
	}
	read, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "-c", guardianScript, "sh", markName+"="+g.mark)
	cmd.Dir = "/"
	// It is marked as nobody's command: one of us that is itself run by another
	// one of us leaves a guardian that has to do its work.
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/local/bin:" + os.Getenv("PATH"), markName + "=guardian"}
	cmd.Stdin, cmd.ExtraFiles = read, []*os.File{g.reading}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := known.start(cmd, true); err != nil {
		leash.Close()
		return err
	}
	g.leash = leash
	go func() {
		_ = cmd.Wait() // that it has ended is all there is to know
		g.replace()
	}()
	return nil
}

// mostReplaced is how often a guardian is replaced while commands run. If that
// is not enough, it is not somebody who kills it but something that is broken.
const mostReplaced = 100

// replace brings up a new guardian when somebody has killed it: at once if
// there is something to guard, otherwise with the next command.
func (g *guardian) replace() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leash.Close()
	g.leash = nil
	if g.replaced++; len(g.free) < g.lines && g.replaced <= mostReplaced {
		_ = g.begin() // the next command tries again, and fails if it must
	}
}
