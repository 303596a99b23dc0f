//go:build unix && !linux

package process

import (
	"os/exec"
	"time"
)

// Only Linux lets a process have the orphans of what it started.
func adopt() {}

func buryGroup(int) {}

func awaitGroup(int, <-chan time.Time) bool { return true }

// awaitExit returns when a command is dead. Its number is free from then on,
// for the moment until the rest of its group is killed.
func awaitExit(l *live) { l.reap() }

func endEscaped(string, time.Time) error { return nil }

type groups struct{}

var known groups

func (groups) start(cmd *exec.Cmd, _ bool) error { return cmd.Start() }
func (groups) remove(int)                        {}
