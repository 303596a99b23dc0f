package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSimulationNeedsNothing: an example of each format runs with --simulate
// where there is no key, and no network at all.
func TestSimulationNeedsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(repoPath("examples"))); err != nil {
		t.Fatal(err)
	}
	alone := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	for folder, args := range map[string][]string{
		"agent-flow": {"support-triage.md", "--input", "ticket=I was billed twice", "--input", "customer_id=42"},
		"awf":        {"review-change"},
		"nof":        {"page-builder.nof.md"},
		"agentfile":  {"change-review", "--allow-shell", "--input", "Look at the tests"},
		"aiflow":     {"translate.aiflow"},
	} {
		cmd := exec.Command("espalier", append([]string{"run", "--simulate"}, args...)...)
		cmd.Dir = filepath.Join(dir, folder)
		cmd.Env = []string{"PATH=" + barePath(t), "HOME=" + dir, "GORACE=" + quickExit}
		cmd.SysProcAttr = alone
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			t.Skip("network namespaces are not available:", err)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}
