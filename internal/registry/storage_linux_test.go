package registry

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The storage folder may be a volume that is mounted, as in a container: its files cannot be renamed into place from
// the folder beside it.
func TestStorageMayBeAMountedVolume(t *testing.T) {
	const inside = "ESPALIER_TEST_MOUNTED"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStorageMayBeAMountedVolume$")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
			t.Skip("user namespaces are not permitted:", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), ".espalier")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700"); err != nil {
		t.Skip("mounting is not permitted:", err)
	}
	defer syscall.Unmount(dir, 0)
	by := approvalsIn(t.TempDir())
	for range 2 {
		if err := makeStorage(dir, by); err != nil {
			t.Error(err)
		}
	}
}
