package formattest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Every flow in testdata/flows, and a variant of it with a low risk profile, finishes for 20 seeds of the simulation:
// it succeeds, or one of its own critics rejects. Some runs of each succeed. Every gate is approved and every event is
// sent.
//
// Spec: Agent Flow §11 runner
func TestFlowsFinishForEverySeed(t *testing.T) {
	names, err := filepath.Glob("testdata/flows/*.txtar")
	if err != nil || len(names) < 5 {
		t.Fatal(err, names)
	}
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := newTrial(a)
		for _, risk := range []string{"", "low"} {
			tr := *base
			short := strings.TrimSuffix(filepath.Base(name), ".txtar")
			if risk != "" {
				short += " with risk_profile " + risk
				flow := string(base.files[0].Data)
				for _, other := range []string{"medium", "high"} {
					flow = strings.Replace(flow, "risk_profile: "+other, "risk_profile: "+risk, 1)
				}
				tr.files = []txtar.File{{Name: base.files[0].Name, Data: []byte(flow)}}
			}
			t.Run(short, func(t *testing.T) {
				finished := 0
				for seed := range uint64(20) {
					tr.seed, tr.agreeable = seed+1, true
					t.Run(fmt.Sprint("seed ", tr.seed), func(t *testing.T) {
						h := tr.run(t)
						if h.problems.Errors() {
							t.Fatal(h.problems)
						}
						switch outcome, _ := h.ending(); {
						case outcome == "ok":
							finished++
						case outcome == "rejected" && rejectedByCritic.MatchString(h.record(t, "")):
						default:
							t.Errorf("%s\n%s", outcome, h.record(t, ""))
						}
					})
				}
				if finished == 0 {
					t.Error("no run succeeds")
				}
			})
		}
	}
}
