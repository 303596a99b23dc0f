package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hazards returns what cannot be tried here, and why.
func hazards() (skipped []string) {
	if err := namespaces(); err != nil {
		skipped = append(skipped, fmt.Sprintf("full disks (user namespaces are not permitted: %v)", err))
	}
	if err := timeNamespaces(); err != nil {
		skipped = append(skipped, fmt.Sprintf("other monotonic clocks (time namespaces are not permitted: %v)", err))
	}
	return skipped
}

// shifting are the arguments of unshare for a monotonic clock that is ahead by some seconds.
func shifting(seconds int) []string {
	return []string{"--user", "--map-current-user", "--time", "--monotonic", strconv.Itoa(seconds)}
}

// timeNamespaces reports why commands cannot have another monotonic clock.
var timeNamespaces = sync.OnceValue(func() error {
	return exec.Command("unshare", append(shifting(1), "true")...).Run()
})

// shiftClock gives a command another monotonic clock, as after a reboot, where that is possible.
func shiftClock(cmd *exec.Cmd, random *rand.Rand) {
	shift := shifting(random.IntN(1e6))
	path, err := exec.LookPath("unshare")
	if err != nil || timeNamespaces() != nil {
		return
	}
	args := slices.Concat([]string{"unshare"}, shift, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path, cmd.Args = path, args
}

// inUserNamespace lets a command start with all privileges in user and mount namespaces of its own.
func inUserNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// namespaces reports why user namespaces, and mounting in them, cannot be used.
var namespaces = sync.OnceValue(func() error {
	cmd := exec.Command("mount", "-t", "tmpfs", "tmpfs", os.TempDir())
	inUserNamespace(cmd)
	return cmd.Run()
})

// breather leaves most of the time to the rounds of the matrix.
const breather = 500 * time.Millisecond

// fullDisks plays rounds on a file system that is full for a while. Each round is a process of this program in
// namespaces of its own, which can mount a small file system without privileges.
func fullDisks(program, dir string, seed uint64, end time.Time) error {
	if namespaces() != nil {
		return nil // hazards reports it
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rounds := uint64(0)
	for ; rounds == 0 || time.Now().Before(end); rounds++ {
		time.Sleep(breather)
		cmd := exec.Command(self, "-full-disk", "-seed", fmt.Sprint(seed+rounds), program, filepath.Join(dir, "disk"))
		inUserNamespace(cmd)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("full disk, seed %d: %w\n%s", seed+rounds, err, out)
		}
	}
	fmt.Printf("%d rounds with a full disk\n", rounds)
	return nil
}

// fillDisk plays a round in the namespaces of this process: the disk is full while a run starts, or while it continues
// after its gate. With room again, the run finishes, and no step is done twice.
func fillDisk(program, dir string, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	j, err := newJob(program, dir)
	if err != nil {
		return err
	}
	store := filepath.Join(dir, ".espalier")
	if err := syscall.Mount("tmpfs", store, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		return fmt.Errorf("mounting a small file system: %w", err)
	}
	w := formats["agent-flow"]
	var log []string
	try := func(args ...string) int {
		cmd := j.command(context.Background(), args...)
		out, _ := cmd.CombinedOutput() // the exit code says it
		log = append(log, fmt.Sprintf("--- %s: exit %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out))
		return cmd.ProcessState.ExitCode()
	}
	filler := filepath.Join(store, "filler")
	full := func(args ...string) error {
		room := int64(random.IntN(24)) * 4096
		log = append(log, fmt.Sprintf("--- %d bytes are free\n", room))
		if err := fill(store, filler, room); err != nil {
			return err
		}
		code := try(args...)
		if code != 0 && code != 4 && code != 6 {
			return fmt.Errorf("a full disk ends in exit %d", code)
		}
		return os.Remove(filler)
	}
	play := func() error {
		if random.IntN(2) == 0 {
			if err := full(w.args("run")...); err != nil {
				return err
			}
		} else {
			try(w.args("run")...)
			if err := full("approve", run); err != nil {
				return err
			}
		}
		reruns := 0
		for range 12 {
			status, unknownOutcome := j.status()
			switch {
			case status == missing:
				try(w.args("run")...)
			case status == "finished":
				return j.checkDisk(reruns)
			case unknownOutcome:
				reruns++
				try("resume", run, "--decide", "make=rerun")
				try("resume", run, "--decide", "hand_over=rerun")
			case status == "running":
				try("resume", run)
			default:
				try("approve", run)
				try(w.args("signal")...)
			}
		}
		return errors.New("the run does not finish when there is room again")
	}
	if err := play(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(log, ""))
	}
	return nil
}

// fill writes a file that leaves this many bytes free.
func fill(dir, path string, room int64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return err
	}
	return os.WriteFile(path, make([]byte, max(int64(s.Bavail)*s.Bsize-room, 0)), 0o600)
}

// checkDisk checks a run that has finished on a disk that was full.
func (j *job) checkDisk(reruns int) error {
	done, err := os.ReadFile(j.trace)
	if err != nil {
		return err
	}
	for _, step := range []string{"make", "hand_over"} {
		if n := strings.Count(string(done), step+"\n"); n < 1 || n > 1+reruns {
			return fmt.Errorf("%s was done %d times", step, n)
		}
	}
	for _, args := range [][]string{{"audit", "verify", run}, {"store", "check"}} {
		if code, out := j.try(args...); code != 0 {
			return fmt.Errorf("%s: exit %d: %s", strings.Join(args, " "), code, out)
		}
	}
	return nil
}

// use is what a process occupies.
type use struct {
	handles int
	memory  int64 // bytes that are resident
}

// used returns what a process occupies.
func used(pid int) (use, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	handles, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return use{}, err
	}
	status, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return use{}, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(status), &size, &resident); err != nil {
		return use{}, err
	}
	return use{len(handles), resident * int64(os.Getpagesize())}, nil
}

// keepServing starts a server and a worker, keeps them busy until the end, with readers that do not read, and checks
// that their memory and their file handles stay the same: within a margin, compared with the use after a quarter of the
// time.
func keepServing(program, dir string, end time.Time) error {
	j, err := newJob(program, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := j.command(ctx, "serve", "--addr", "127.0.0.1:0", "--json")
	stdout, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	worker := j.command(ctx, "work")
	if err := errors.Join(server.Start(), worker.Start()); err != nil {
		return err
	}
	var at struct{ Address string }
	if err := json.NewDecoder(stdout).Decode(&at); err != nil {
		return fmt.Errorf("the server does not start: %w", err)
	}
	go io.Copy(io.Discard, stdout)
	token, err := os.ReadFile(filepath.Join(dir, ".espalier", "server-token"))
	if err != nil {
		return err
	}
	for range 3 { // clients that never read
		client, err := net.Dial("tcp", at.Address)
		if err != nil {
			return err
		}
		defer client.Close()
		fmt.Fprintf(client, "GET /api/v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
			at.Address, strings.TrimSpace(string(token)))
	}
	processes := map[string]*exec.Cmd{"server": server, "worker": worker}
	before, begin := map[string]use{}, time.Now()
	runs := 0
	for ; runs < 40 || time.Now().Before(end); runs++ {
		if err := j.serveOne(ctx, runs); err != nil {
			return err
		}
		time.Sleep(breather)
		// The first part warms up: caches fill, connections open.
		if len(before) == 0 && runs >= 20 && time.Since(begin) > end.Sub(begin)/4 {
			for name, cmd := range processes {
				if before[name], err = used(cmd.Process.Pid); err != nil {
					return err
				}
			}
		}
	}
	for name, cmd := range processes {
		now, err := used(cmd.Process.Pid)
		if err != nil {
			return fmt.Errorf("the %s has ended: %w", name, err)
		}
		was := before[name]
		fmt.Printf("%s after %d runs: %d handles and %d MB; before: %d handles and %d MB\n",
			name, runs, now.handles, now.memory>>20, was.handles, was.memory>>20)
		if now.handles > was.handles+8 || now.memory > was.memory*3/2+32<<20 {
			return fmt.Errorf("the %s grows", name)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		_ = cmd.Wait() // the exit code says it
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			return fmt.Errorf("the %s ends with %d", name, code)
		}
	}
	if code, out := j.try("store", "check"); code != 0 {
		return fmt.Errorf("store check: exit %d: %s", code, out)
	}
	return nil
}

// serveOne starts a run, which the server or the worker drives, decides its gate and waits for its end. Meanwhile a
// process writes to a pipe that nothing reads.
func (j *job) serveOne(ctx context.Context, n int) error {
	w := formats["aiflow"]
	if n%2 == 0 {
		w = formats["agent-flow"]
	}
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000002", n)
	wait := func(states ...string) error {
		state := ""
		for deadline := time.Now().Add(endTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
			_, out := j.try("status", id, "--json")
			var printed struct{ State string }
			if json.Unmarshal([]byte(out), &printed) == nil {
				state = printed.State
			}
			for _, s := range states {
				if state == s {
					return nil
				}
			}
		}
		return fmt.Errorf("run %s is %s", id, state)
	}
	start := append([]string{"run", w.name, "--run-id", id, "--script", "replies.yaml", "--detach"}, w.input...)
	if code, out := j.try(start...); code != 0 {
		return fmt.Errorf("run: exit %d: %s", code, out)
	}
	r, stalled, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	reader := j.command(ctx, "transcript", id, "--follow")
	reader.Stdout = stalled
	if err := errors.Join(reader.Start(), stalled.Close()); err != nil {
		return err
	}
	if err := wait("waiting"); err != nil {
		return err
	}
	if n%5 == 4 {
		j.wall.jump(rand.New(rand.NewPCG(uint64(n), 0)))
	}
	j.try("approve", id, "--no-continue")
	j.try("signal", id, w.event, "--no-continue")
	if err := wait("finished"); err != nil {
		return err
	}
	_ = reader.Process.Kill() // it may have ended
	_ = reader.Wait()
	if code, out := j.try("audit", "verify", id); code != 0 {
		return fmt.Errorf("audit verify %s: exit %d: %s", id, code, out)
	}
	if n%10 == 9 {
		j.try("runs", "rm", "--status", "finished", "--keep", "5")
	}
	return nil
}
