package embedded

import (
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// clock is the wall clock as runs see it. It compares the wall clock with the
// monotonic clock, which neither jumps nor advances while the machine is
// suspended:
//
//   - When the wall clock jumps ahead, or the machine was suspended, clock
//     follows it, so that gates time out when people expect it, and adds the
//     jump to skipped. Runs do not count skipped time as active time.
//   - When the wall clock is set back, clock does not follow it and continues
//     with the monotonic clock. Otherwise timers would stall until the wall
//     clock reaches its former value.
type clock struct {
	wall func() time.Time
	mono func() time.Duration

	mu       sync.Mutex // guards everything below
	baseWall time.Time
	baseMono time.Duration
	ahead    time.Duration // by how much clock is ahead of a wall clock that was set back
	skipped  time.Duration // sum of all jumps ahead
	last     journal.Millis
}

// jumpTolerance is the difference between the two clocks that counts as a jump.
const jumpTolerance = time.Second

// newClock returns a clock. A nil wall is the machine's clock. If wall is given
// and mono is not, the wall clock never jumps.
func newClock(wall func() time.Time, mono func() time.Duration) *clock {
	if wall == nil {
		wall = time.Now
		if mono == nil {
			start := time.Now()
			mono = func() time.Duration { return time.Since(start) }
		}
	}
	if mono == nil {
		start := wall()
		mono = func() time.Duration { return wall().Sub(start) }
	}
	// Round(0) strips the monotonic reading: wall times are compared as such.
	return &clock{wall: wall, mono: mono, baseWall: wall().Round(0), baseMono: mono()}
}

// read returns the time, which never goes back, and the sum of all jumps ahead.
func (c *clock) read() (now, skipped journal.Millis) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.wall().Round(0), c.mono()
	// How much more time has passed on the wall clock than on the monotonic one, since the base was set.
	jump := wall.Sub(c.baseWall) - (mono - c.baseMono)
	if jump >= jumpTolerance || jump <= -jumpTolerance {
		// A forward jump first reduces ahead; only the remainder counts as skipped time. A backward jump increases
		// ahead by its size.
		c.baseWall, c.baseMono = wall, mono
		c.ahead -= jump
		if c.ahead < 0 {
			c.skipped -= c.ahead
			c.ahead = 0
		}
	}
	// Differences below the tolerance are followed, also backward; max keeps the result from going back.
	c.last = max(c.last, journal.MillisOf(wall.Add(c.ahead)))
	return c.last, journal.Millis(c.skipped.Milliseconds())
}
