package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// One lap of the matrix has every pair and every triple of the commands once, in an order that the seed determines.
func TestLapHasEveryPairAndTriple(t *testing.T) {
	m := newMatrix(&options{seed: 7}, time.Time{})
	seen := map[string]int{}
	for n := range m.lap() {
		names := slices.Sorted(slices.Values(m.names(n)))
		seen[strings.Join(names, " ")]++
	}
	for _, a := range commands {
		for _, b := range commands {
			pair := slices.Sorted(slices.Values([]string{a, b}))
			if seen[strings.Join(pair, " ")] != 1 {
				t.Errorf("%s is played %d times", pair, seen[strings.Join(pair, " ")])
			}
			for _, c := range commands {
				triple := slices.Sorted(slices.Values([]string{a, b, c}))
				if seen[strings.Join(triple, " ")] != 1 {
					t.Errorf("%s is played %d times", triple, seen[strings.Join(triple, " ")])
				}
			}
		}
	}
	if len(seen) != m.lap() {
		t.Errorf("%d different rounds in a lap of %d", len(seen), m.lap())
	}
	order := func(seed uint64) [][]string { return newMatrix(&options{seed: seed}, time.Time{}).triples }
	if !slices.EqualFunc(order(7), m.triples, slices.Equal) || slices.EqualFunc(order(8), m.triples, slices.Equal) {
		t.Error("the order does not depend on the seed alone")
	}
	if m.lap()%len(formatOrder) == 0 || len(formatOrder) != 11 {
		t.Error("formats do not take turns with the same commands")
	}
}

// A soak that is continued plays the rounds after the last one, and counts how often everything was played in all.
func TestContinuedSoakCountsAllRounds(t *testing.T) {
	m := newMatrix(&options{seed: 7, repeat: 50, round: -1}, time.Time{})
	m.from = 3 * m.lap()
	m.next.Store(int64(m.from))
	if n := m.take(); n != 3*m.lap() { // also when the time is over: every soak plays a round
		t.Errorf("the first round is %d", n)
	}
	if n := m.take(); n != -1 {
		t.Errorf("round %d starts after the end", n)
	}
	m.end = time.Now().Add(time.Hour)
	if n := m.take(); n != 3*m.lap()+2 {
		t.Errorf("round %d", n)
	}
	m.next.Store(int64(50 * m.lap()))
	if n := m.take(); n != -1 {
		t.Errorf("round %d starts after all repetitions", n)
	}
	m.played = 2*m.lap() + len(m.pairs)
	if got := m.summary(); !strings.Contains(got, "pairs of commands at least 6 of 50 times") ||
		!strings.Contains(got, "triples at least 5 of 50 times") || !strings.Contains(got, "-seed 7 -from ") {
		t.Error(got)
	}
	m.played = 47 * m.lap()
	if got := m.summary(); !strings.Contains(got, "pairs of commands at least 50 of 50 times") ||
		!strings.Contains(got, "triples at least 50 of 50 times") || strings.Contains(got, "continue") {
		t.Error(got)
	}
}
