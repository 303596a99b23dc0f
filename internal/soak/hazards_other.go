//go:build !linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"time"
)

// Namespaces and /proc exist on Linux only.

func shiftClock(*exec.Cmd, *rand.Rand) {}

func fullDisks(string, string, uint64, time.Time) error {
	fmt.Println("full disks are tried on Linux only")
	return nil
}

func soakFleets(string, string, uint64, time.Time) error { return errors.ErrUnsupported }

func fillDisk(string, string, uint64) error { return errors.ErrUnsupported }

func keepServing(string, string, time.Time) error {
	fmt.Println("memory and file handles are measured on Linux only")
	return nil
}
