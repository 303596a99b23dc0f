package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The test binary is also the benchmark, whose rounds run in processes of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{measureCommand, playCommand}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// A round of a scenario has every figure that the table prints. The scenarios that are left out take minutes or need
// the program.
func TestScenariosMeasureWhatTheTablePrints(t *testing.T) {
	for _, scenario := range []string{"chain-relaxed", "runs-64", "fan-out", "resume-chain", "approve"} {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], measureCommand, scenario, t.TempDir())
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var measured figures
			if err := json.Unmarshal(out, &measured); err != nil {
				t.Fatalf("%v in %q", err, out)
			}
			printed := 0
			for _, l := range lines {
				if l.scenario == scenario {
					printed++
					if measured[l.figure] <= 0 || l.note(measured) == "" {
						t.Errorf("%s: no %s in %v", l.what, l.figure, measured)
					}
				}
			}
			if printed == 0 {
				t.Error("the table does not print this scenario")
			}
		})
	}
}
