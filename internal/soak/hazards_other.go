//go:build !linux

package main

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"time"
)

// Namespaces and /proc exist on Linux only.

func hazards() (skipped []string) {
	return []string{"other monotonic clocks, jumps of the wall clock, workers whose clocks differ, full disks, " +
		"slow readers and growth (Linux only)"}
}

func shiftClock(*exec.Cmd, *rand.Rand) {}

const clockVariable = "ESPALIER_SOAK_CLOCK"

type wall struct{ path string }

func newWall(string) (*wall, error) { return &wall{}, nil }

func (*wall) jump(*rand.Rand) string { return "" }

func clockFlags(string) ([]string, error) { return nil, nil }

func checkClock(string, string) error { return nil }

var jumps atomic.Int64

func fullDisks(string, string, uint64, time.Time) error {
	return nil
}

func otherClocks(string, string, uint64, time.Time) error { return nil }

func soakFleets(string, string, uint64, time.Time) error { return errors.ErrUnsupported }

func fillDisk(string, string, uint64) error { return errors.ErrUnsupported }

func keepServing(string, string, time.Time) error {
	return nil
}
