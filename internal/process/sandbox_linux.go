package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// leastABI is the first version of Landlock that can close the network.
const leastABI = 4

func landlocked() bool {
	version, err := abi.LandlockGetABIVersion()
	return err == nil && version >= leastABI && socketless()
}

// become confines this process, and with it everything that it will start,
// and turns it into the command.
func become(s Sandbox, argv []string) error {
	if !landlocked() {
		return ErrNoSandbox
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	// Devices that everybody may use; nothing below them acts on the machine.
	rules := []landlock.Rule{
		landlock.RODirs(system...).IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty").IgnoreIfMissing(),
		landlock.RODirs("/proc/self").IgnoreIfMissing(),
	}
	for _, one := range s.Read {
		if info, err := os.Stat(one); err == nil && info.IsDir() {
			rules = append(rules, landlock.RODirs(one).IgnoreIfMissing())
		} else {
			rules = append(rules, landlock.ROFiles(one).IgnoreIfMissing())
		}
	}
	for _, one := range s.Write {
		rules = append(rules, landlock.RWDirs(one).WithRefer().IgnoreIfMissing())
	}
	rules = append(rules, landlock.ROFiles(path), landlock.RODirs(filepath.Dir(path)))
	config := landlock.V6.BestEffort() // never less than leastABI, which was looked at above
	if err := config.Restrict(rules...); err != nil {
		return err
	}
	runtime.LockOSThread() // the thread that gives sockets up has to be the one that goes on
	if err := withoutSockets(); err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}
