package process

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Commands are confined with the newest version of Landlock that the kernel has.
func TestNewestLandlockIsUsed(t *testing.T) {
	const askVersion = 1 // LANDLOCK_CREATE_RULESET_VERSION
	kernel, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, askVersion)
	if errno != 0 {
		kernel = 0
	}
	if got, want := landlockABI(), min(int(kernel), newestABI); got != want {
		t.Errorf("ABI %d is used, the kernel has %d and the library %d", got, kernel, newestABI)
	}
	if got := newestLandlock.String(); !strings.Contains(got, "FS: all; Net: all; Scoped: all") {
		t.Errorf("the library does not confine everything that it knows: %s", got)
	}
}

// What an older kernel cannot confine is a gap, and a kernel that cannot confine files and TCP is not used.
func TestGapsOfOlderKernelsAreNamed(t *testing.T) {
	asked := kernelABI
	t.Cleanup(func() { kernelABI = asked })
	const signals = "signals to your other processes"
	for version, want := range map[int]struct {
		available, gap bool
		by             string
	}{
		0: {}, 3: {},
		4:  {true, true, "Landlock (ABI 4)"},
		5:  {true, true, "Landlock (ABI 5)"},
		6:  {true, false, "Landlock (ABI 6)"},
		11: {true, false, "Landlock (ABI 11)"},
		99: {true, false, "Landlock (ABI 11)"},
	} {
		kernelABI = func() (int, error) { return version, nil }
		if landlockAvailable() != (want.available && seccompAvailable()) {
			t.Errorf("ABI %d: available is %t", version, landlockAvailable())
		}
		if !want.available {
			continue
		}
		for _, isolation := range []isolation{noNamespaces, userNamespace} {
			is := method{self: "x", isolation: isolation}.confinement()
			gaps := 0
			if want.gap {
				gaps++
			}
			if isolation == noNamespaces {
				gaps++
			}
			if !strings.HasPrefix(is.By, want.by) || slices.Contains(is.Gaps, signals) != want.gap ||
				len(is.Gaps) != gaps || strings.Contains(is.String(), "; not confined: ") != (gaps > 0) {
				t.Errorf("ABI %d: %s", version, is)
			}
		}
	}
}
