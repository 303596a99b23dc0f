package main

import (
	"strings"
	"testing"
	"time"
)

// A soak that is continued plays the rounds after the last one, and counts how often each pair was played in all.
func TestSoakContinues(t *testing.T) {
	pairs := shuffledPairs(7)
	m := &matrix{options: &options{seed: 7, repeat: 50, from: 3 * len(pairs), round: -1}, pairs: pairs}
	m.next.Store(int64(m.from))
	if n := m.take(); n != 3*len(pairs) { // also when the time is over: every soak plays a round
		t.Errorf("the first round is %d", n)
	}
	if n := m.take(); n != -1 {
		t.Errorf("round %d starts after the end", n)
	}
	m.end = time.Now().Add(time.Hour)
	if n := m.take(); n != 3*len(pairs)+2 {
		t.Errorf("round %d", n)
	}
	m.played = 2*len(pairs) + 1
	if got := m.summary(); !strings.Contains(got, "at least 5 of 50 times") ||
		!strings.Contains(got, "-seed 7 -from ") {
		t.Error(got)
	}
	m.played = 47 * len(pairs)
	if got := m.summary(); !strings.Contains(got, "at least 50 of 50 times") || strings.Contains(got, "continue") {
		t.Error(got)
	}
}
