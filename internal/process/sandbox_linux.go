package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Landlock confines opening, creating, removing and renaming files. It does not
// confine changes to modes, owners, times and extended attributes, which need
// no open file. Where namespaces are permitted, the command therefore also gets
// a view of the file system in which everything outside of its folders is
// mounted read-only.

// Versions of Landlock's ABI.
const (
	minABI    = 4  // the first that confines TCP
	signalABI = 6  // the first that confines signals and abstract sockets
	newestABI = 11 // that of newestLandlock
)

// newestLandlock confines everything that the library knows how to confine.
var newestLandlock = landlock.V11

// kernelABI asks the kernel. Tests replace it.
var kernelABI = abi.LandlockGetABIVersion

// landlockABI returns the version that is used: the kernel's, if the library knows it.
func landlockABI() int {
	version, err := kernelABI()
	if err != nil {
		return 0
	}
	return min(version, newestABI)
}

// landlockAvailable reports whether Landlock and a filter confine a command here.
func landlockAvailable() bool { return landlockABI() >= minABI && seccompAvailable() }

// filtersAvailable reports whether bubblewrap can be given a filter.
func filtersAvailable() bool { return seccompAvailable() }

// confinement describes the method and what it does not confine on this kernel.
func (m method) confinement() Confinement {
	if m.bubblewrap != "" {
		c := Confinement{By: "bubblewrap"}
		if !filtersAvailable() {
			c.Gaps = append(c.Gaps, "system calls (no seccomp for this architecture)")
		}
		return c
	}
	c := Confinement{By: fmt.Sprintf("Landlock (ABI %d)", landlockABI())}
	switch {
	case m.isolation != noNamespaces:
		c.By += " and namespaces"
	case os.Geteuid() == 0:
		c.Gaps = append(c.Gaps, "times of files")
	default:
		c.Gaps = append(c.Gaps, "modes, times and extended attributes of your files")
	}
	if landlockABI() < signalABI {
		c.Gaps = append(c.Gaps, "signals to your other processes")
	}
	return c
}

// keepInherited makes sure that no program that this process starts inherits a file, except for those that it is
// given. This process may have been started with open files, which lead out of every sandbox.
func keepInherited() error {
	const first = 3
	if unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, one := range open {
		if fd, err := strconv.Atoi(one.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// attributes sets the namespaces of a command that confines itself.
func (i isolation) attributes(to *syscall.SysProcAttr) {
	if i == noNamespaces {
		return
	}
	to.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if i == mountNamespace {
		return
	}
	to.Cloneflags |= unix.CLONE_NEWUSER
	to.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	to.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	// Other users than root keep only ambient capabilities when this program is executed.
	to.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
}

// become confines this process, and with it everything that it starts, and
// turns it into the command.
//
// The order matters. Mounting needs the capabilities of the namespace, and is
// denied by Landlock and by the filter. Capabilities and the filter belong to a
// thread, so it is locked: this thread is the one that execve keeps.
func (c confined) become(argv []string) error {
	if !landlockAvailable() {
		return ErrNoSandbox
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	limits := c.Limits.resources() // reads /proc, which Landlock denies
	runtime.LockOSThread()
	if c.Isolation != noNamespaces {
		if err := c.mountReadOnly(); err != nil {
			return err
		}
	}
	if err := c.landlock(path); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	// As root, changing modes and owners outside would be a way out; without
	// a view of its own, a command of root cannot change them inside, either.
	inside := c.Isolation != noNamespaces
	o := filterOptions{Attributes: inside || os.Geteuid() != 0, SystemV: inside}
	if err := applyFilter(filter(o)); err != nil {
		return err
	}
	for _, one := range limits {
		one.apply(0) // this process
	}
	return syscall.Exec(path, argv, os.Environ())
}

// mountReadOnly makes everything read-only, except for the folders that the
// command may change. Devices can still be written to.
func (c confined) mountReadOnly() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	var writable []string
	for _, dir := range c.Write {
		switch err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); {
		case err == nil:
			writable = append(writable, dir)
		case !errors.Is(err, unix.ENOENT):
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return fmt.Errorf("mount / read-only: %w", err)
	}
	for _, dir := range writable {
		readWrite := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &readWrite); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if c.Dir == "" {
		return nil
	}
	return unix.Chdir(c.Dir) // until now it is below what is mounted there
}

// landlock restricts which files this process can open and change.
func (c confined) landlock(program string) error {
	// Devices that every program may use. The terminal is not one of them: what is written there controls it.
	rules := []landlock.Rule{
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom").IgnoreIfMissing(),
		landlock.RODirs("/proc/self").IgnoreIfMissing(),
	}
	for _, one := range append(systemPaths(), c.Read...) {
		if info, err := os.Stat(one); err == nil && info.IsDir() {
			rules = append(rules, landlock.RODirs(one).IgnoreIfMissing())
		} else {
			rules = append(rules, landlock.ROFiles(one).IgnoreIfMissing())
		}
	}
	for _, one := range c.Write {
		rules = append(rules, landlock.RWDirs(one).WithRefer().IgnoreIfMissing())
	}
	rules = append(rules, landlock.ROFiles(program), landlock.RODirs(filepath.Dir(program)))
	// The newest ABI that the kernel has: at least minABI, which is checked above.
	return newestLandlock.BestEffort().Restrict(rules...)
}

// dropCapabilities gives up all capabilities of this thread, for good: root
// does not regain them by executing a program.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	for one := uintptr(0); ; one++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, one, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // there are no more
		}
		if errors.Is(err, unix.EPERM) {
			break // not permitted to users without capabilities; no_new_privs keeps them from gaining any
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", one, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
