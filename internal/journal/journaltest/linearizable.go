package journaltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/espalier-run/espalier/internal/journal"
)

// claimOp is a call that processes race for: "claim", "claim next", "append", "release", "look" or "die".
type claimOp struct {
	name  string
	me    journal.Owner
	fence int64       // of "append" and "release"
	after journal.Seq // of "append" and "release"
}

// claimAnswer is the result of a claimOp.
type claimAnswer struct {
	ok    bool
	owner journal.Owner // who has the run, according to "look" and a refused "claim"
	fence int64         // of "claim"
	seq   journal.Seq   // of "claim" and "look"
}

// claimModel is what the calls on one run depend on.
type claimModel struct {
	owner   journal.Owner
	fence   int64 // of the owner; 0 if the run has none, unknownFence after "claim next"
	highest int64 // the highest fence so far
	seq     journal.Seq
	dead    string // the names of dead processes, each followed by a comma
}

// unknownFence is the fence of an owner that has not asked for it.
const unknownFence = -1

func (m claimModel) isDead(o journal.Owner) bool { return strings.Contains(m.dead, string(o)+",") }

// free reports whether a process may claim the run.
func (m claimModel) free(me journal.Owner) bool {
	return m.owner == "" || m.owner == me || m.isDead(m.owner)
}

// step returns whether the answer is right and the model after the call.
func (m claimModel) step(op claimOp, a claimAnswer) (bool, claimModel) {
	before := m
	switch op.name {
	case "die":
		m.dead += string(op.me) + ","
		return true, m
	case "look":
		return a.owner == m.owner && a.seq == m.seq, m
	case "claim":
		if !a.ok {
			return a.owner == m.owner && !m.free(op.me), m
		}
		again := m.owner == op.me && m.fence != unknownFence
		right := m.free(op.me) && a.seq == m.seq &&
			(again && a.fence == m.fence || !again && a.fence > m.highest)
		m.owner, m.fence, m.highest = op.me, a.fence, max(m.highest, a.fence)
		return right, m
	case "claim next":
		if a.ok && m.owner != op.me {
			m.owner, m.fence = op.me, unknownFence
		}
		return !a.ok || before.free(op.me), m // a process may leave the run to others that claim at the same time
	case "append", "release":
		if !a.ok { // a store may refuse all appends of a process that was declared dead
			return m.isDead(op.me) || m.owner != op.me || m.fence != op.fence || m.seq != op.after, m
		}
		m.seq++
		if op.name == "release" {
			m.owner, m.fence = "", 0
		}
		return before.owner == op.me && before.fence == op.fence && before.seq == op.after, m
	}
	panic("no model of " + op.name)
}

// linearizableClaims lets processes claim one run, append to it, release it and die, all at once. The claims and
// fences of a store have to be linearizable: some order of the calls, each between its start and its end, explains all
// answers.
func linearizableClaims(t *testing.T, first *group) {
	const processes, calls = 6, 50
	seed := rand.Uint64()
	Append(t, first, Start("a", "first")) // a process that has died
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	for client := range processes {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			var s *group
			var me journal.Owner
			var held journal.Claim // the newest claim of this process; it may be lost
			call := func(name string) claimAnswer {
				op := claimOp{name, me, held.Fence, held.Seq}
				o := porcupine.Operation{ClientId: client, Input: op, Call: clock.Add(1)}
				a := s.doClaimOp(t, op)
				o.Output, o.Return = a, clock.Add(1)
				mu.Lock()
				defer mu.Unlock()
				history = append(history, o)
				return a
			}
			for n := range calls {
				if me == "" {
					s, me = first.process(t, fmt.Sprintf("process %d.%d", client, n))
					held = journal.Claim{}
				}
				switch choice := random.IntN(20); {
				case choice < 7 || choice < 15 && held.Fence == 0:
					if a := call("claim"); a.ok {
						held = journal.Claim{Fence: a.fence, Seq: a.seq}
					}
				case choice < 12:
					if call("append").ok {
						held.Seq++
					}
				case choice < 15:
					call("release")
				case choice < 17:
					call("claim next")
				case choice < 19:
					call("look")
				default:
					call("die")
					if held.Fence != 0 { // it was only slow, and does not know that others consider it dead
						call("append")
					}
					me = ""
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	model := porcupine.Model{
		Init: func() any {
			return claimModel{
				owner: "first", fence: journal.FirstFence, highest: journal.FirstFence, seq: 1, dead: "first,",
			}
		},
		Step: func(state, input, output any) (bool, any) {
			return state.(claimModel).step(input.(claimOp), output.(claimAnswer))
		},
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, 0)
	if result == porcupine.Ok {
		return
	}
	// The calls that are in no order that explains the others; the first of them are of interest.
	explained := map[int]bool{}
	for _, n := range longest(info.PartialLinearizations()[0]) {
		explained[n] = true
	}
	t.Errorf("seed %d: no order of the calls explains their answers", seed)
	for i, o := range history {
		t.Logf("[%d, %d] %+v: %+v explained: %t", o.Call, o.Return, o.Input, o.Output, explained[i])
	}
}

func longest(all [][]int) (most []int) {
	for _, some := range all {
		if len(some) > len(most) {
			most = some
		}
	}
	return most
}

// doClaimOp makes the call.
func (g *group) doClaimOp(t *testing.T, op claimOp) (a claimAnswer) {
	ctx := context.Background()
	switch op.name {
	case "claim":
		claim, err := g.Claim(ctx, "a", op.me)
		owned, refused := errors.AsType[*journal.OwnedError](err)
		switch {
		case refused:
			a.owner = owned.Owner
		case err != nil:
			t.Error(err)
		default:
			a = claimAnswer{ok: true, fence: claim.Fence, seq: claim.Seq}
		}
	case "claim next":
		claimed, err := g.ClaimNext(ctx, op.me, 1, func(journal.RunID) bool { return false })
		if err != nil {
			t.Error(err)
		}
		a.ok = len(claimed) == 1
	case "look":
		entry, err := g.Entry(ctx, "a")
		if err != nil {
			t.Error(err)
		}
		a = claimAnswer{ok: true, owner: entry.Owner, seq: entry.Seq}
	case "append", "release":
		batch := Steps("a", op.fence, op.after, 1)
		batch.Release = op.name == "release"
		err := journal.Append(ctx, g, batch)
		if err != nil && !errors.Is(err, journal.ErrConflict) && !errors.Is(err, journal.ErrFenced) {
			t.Error(err)
		}
		a.ok = err == nil
	case "die":
		g.leave(t, op.me)
	}
	return a
}
