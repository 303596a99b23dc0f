package embedded_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Six people decide a gate that needs three approvals, at the same time, in two
// processes, and each of them twice: three approvals count, each person at most
// once, and the step after the gate runs once.
func TestSimultaneousApprovalsCountOnce(t *testing.T) {
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			all := newRivals(t)
			defer all.store.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			engines := []*embedded.Engine{all.open(ctx, "one", &hooked{}), all.open(ctx, "two", &hooked{})}
			defer enginetest.Stop(engines[0])
			defer enginetest.Stop(engines[1])
			gate := ir.Step{ID: "g", Type: "gate", Action: ir.Gate{
				Decider: ir.Person, Approvers: &ir.Approvers{Roles: []string{"legal"}, Min: 3},
			}}
			enginetest.Begin(t, engines[0], enginetest.Program([]ir.Step{gate, enginetest.Task("after")}))
			enginetest.Rest(t, engines[0])
			state, p, _, err := engines[0].Load(ctx, enginetest.ID)
			if err != nil {
				t.Fatal(err)
			}
			_, digest := state.Shown(p, state.OpenGates()[0])

			var wg sync.WaitGroup
			for n := range 12 {
				user := fmt.Sprintf("user%d", n/2)
				wg.Go(func() {
					_ = engines[n%2].Send(ctx, enginetest.ID, plan.GateDecision{
						Step: "g", Answer: journal.AnswerApprove, Digest: digest, Roles: []string{"legal"},
						By: journal.Actor{User: user, Method: "token"},
					}, fmt.Sprint(n))
				})
			}
			wg.Wait()
			until(t, all.store, func(e journal.Entry) bool { return e.Status == journal.Finished })
			approved, decided := map[string]int{}, 0
			for e, err := range all.store.Events(ctx, enginetest.ID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				switch x := e.Fact.(type) {
				case journal.GateApproved:
					approved[x.By.User]++
				case journal.GateDecided:
					approved[x.By.User]++
					decided++
				}
			}
			if len(approved) != 3 || decided != 1 || all.kind.Done["after#0"] != 1 {
				t.Errorf("approvals %v, %d decisions, work %v", approved, decided, all.kind.Done)
			}
			for user, n := range approved {
				if n != 1 {
					t.Errorf("%s counted %d times", user, n)
				}
			}
		})
	}
}
