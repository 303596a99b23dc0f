package process_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/usertest"
)

// Variables of a test binary that runs itself again.
const (
	holding      = "ESPALIER_TEST_HOLDS"         // the mechanism that TestSandboxHolds has to find
	noNamespaces = "ESPALIER_TEST_NO_NAMESPACES" // set: deny namespaces first
	calling      = "ESPALIER_TEST_CALLS"         // set: print which system calls are permitted
)

func init() { innerTest = runInnerTest }

func runInnerTest() {
	if os.Getenv(noNamespaces) != "" {
		os.Unsetenv(noNamespaces)
		runtime.LockOSThread()
		err := process.DenyNamespaces()
		if err == nil {
			err = syscall.Exec(os.Args[0], os.Args, os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(calling) != "" {
		permittedCalls(os.Stdout)
		os.Exit(0)
	}
}

// TestSandboxHolds tries to get out of a sandbox: as root and as an ordinary
// user, with every mechanism that confines commands.
func TestSandboxHolds(t *testing.T) {
	if by := os.Getenv(holding); by != "" {
		testHolds(t, by)
		return
	}
	for user, credential := range testUsers(t) {
		for by, env := range map[string]string{
			"bubblewrap": "", "Landlock": "PATH=" + pathWithoutBwrap(t), "Landlock alone": noNamespaces + "=1",
		} {
			t.Run(user+"/"+by, func(t *testing.T) {
				if by == "bubblewrap" {
					needsBubblewrap(t)
				}
				dir := sharedFolder(t, credential)
				self := filepath.Join(dir, "process.test")
				copyProgram(t, self)
				cmd := exec.Command(self, "-test.run=^TestSandboxHolds$", "-test.v", "-test.timeout=2m")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), holding+"="+by, "HOME="+dir, "TMPDIR="+dir, env)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setsid: true, Setctty: true, Ctty: 3}
				cmd.ExtraFiles = []*os.File{terminal(t)}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// testUsers returns the users that sandboxes and limits are tested with: root and an ordinary user if this process is
// root, and otherwise its own user.
func testUsers(t *testing.T) map[string]*syscall.Credential {
	if os.Geteuid() == 0 {
		return map[string]*syscall.Credential{"root": nil, "ordinary user": {Uid: 65534, Gid: 65534}}
	}
	t.Run("root", func(t *testing.T) { usertest.Skip(t, "only root can run tests as two users") })
	return map[string]*syscall.Credential{"this user": nil}
}

// terminal returns a new terminal.
func terminal(t *testing.T) *os.File {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty
}

// inheritedFD is a file descriptor that programs inherit.
const inheritedFD = 50

// inherit opens a file for writing under inheritedFD, as the program may have been started with it.
func inherit(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Dup3(int(f.Fd()), inheritedFD, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(inheritedFD) })
}

func needsBubblewrap(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		usertest.Skip(t, "bubblewrap is not installed (apt-get install bubblewrap)")
	}
	if err := exec.Command("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true").Run(); err != nil {
		usertest.Skip(t, "bubblewrap is not permitted here: ", err)
	}
}

// pathWithoutBwrap returns a PATH for every user on which all programs are
// found except for bwrap.
func pathWithoutBwrap(t *testing.T) string {
	path := without(t, "bwrap")
	openToAll(t, path)
	return path
}

// openToAll lets every user enter a folder of t.TempDir.
func openToAll(t *testing.T, dir string) {
	for _, one := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(one, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// sharedFolder returns a folder that a user may enter and change.
func sharedFolder(t *testing.T, user *syscall.Credential) string {
	dir := t.TempDir()
	openToAll(t, dir)
	if user != nil {
		if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyProgram(t *testing.T, to string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func testHolds(t *testing.T, by string) {
	is, err := process.Confined()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"bubblewrap":     is.By == "bubblewrap",
		"Landlock":       strings.HasPrefix(is.By, "Landlock") && strings.HasSuffix(is.By, "namespaces"),
		"Landlock alone": strings.HasPrefix(is.By, "Landlock") && !strings.HasSuffix(is.By, "namespaces"),
	}
	if !want[by] {
		t.Fatalf("%s does not confine commands here, but %s", by, is)
	}
	gap := func(of string) bool {
		return slices.ContainsFunc(is.Gaps, func(one string) bool { return strings.Contains(one, of) })
	}
	if (by == "Landlock alone") != (len(is.Gaps) > 0) {
		t.Errorf("gaps: %q", is.Gaps)
	}
	root, outside := t.TempDir(), t.TempDir()
	dir := filepath.Join(root, "runs", "r1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(root, "top"), filepath.Join(outside, "file"), filepath.Join(dir, "own"),
	} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	box, err := process.NewSandbox(root, "runs")
	if err != nil {
		t.Fatal(err)
	}
	inherit(t, filepath.Join(outside, "file"))
	// Lowering the limits of another process, such as that of processor time, ends it.
	lower := fmt.Sprintf("prlimit --pid %d --core=0:", os.Getpid())
	try := fmt.Sprintf("exec 3<>/dev/tty && : >&%d", inheritedFD)
	if by != "Landlock alone" { // where the test denies the same calls as the sandbox
		try += " && " + lower
	}
	free := process.Command{Path: "/bin/bash", Args: []string{"-c", try}, Dir: dir}
	if got, err := process.Run(t.Context(), free); err != nil || got.Exit != 0 {
		t.Fatalf("without a sandbox, terminal, inherited files and limits cannot be used: %v %s", err, got.Stderr)
	}
	const privileges = "NoNewPrivs:\t"
	show := process.Command{Path: "/bin/cat", Args: []string{"/proc/self/status"}, Dir: dir}
	before, err := process.Run(t.Context(), show)
	if err != nil {
		t.Fatal(err)
	}
	if (by != "Landlock alone" || os.Geteuid() == 0) && !strings.Contains(string(before.Stdout), privileges+"0") {
		t.Fatalf("a command without a sandbox has no_new_privs already:\n%s", before.Stdout)
	}
	run := func(c process.Command) process.Outcome {
		c.Dir, c.Sandbox = dir, box.For(dir)
		got, err := process.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	type attempt struct {
		script string
		works  bool
	}
	// None of these changes anything outside of the test's own folders,
	// whether it works or not: settings are opened, but not written.
	attempts := []attempt{
		{"exec 3>>/proc/sys/kernel/core_pattern", false},
		{"exec 3>>/proc/sysrq-trigger", false},
		{"exec 3</etc/shadow", false},
		{"exec 3</etc/gshadow", false},
		{"ls /etc/ssl/private", false},
		{"exec 3</etc/passwd", true},
		{"exec 3</etc/nsswitch.conf", true},
		{"exec 3<>/dev/null", true},
		{"exec 3<>/dev/urandom", true},
		{"exec 3</dev/mem", false},
		{"exec 3>/dev/tty", false},
		{"exec 3</dev/tty", false},
		{fmt.Sprintf("echo y >&%d", inheritedFD), false},
		{lower, false},
		{"ulimit -c 0 && ulimit -n 100", true},
		{"mount -o remount,bind,rw /usr", false},
		{"mount -t tmpfs none own.d", false},
		{"unshare -Ur true", false},
		{"unshare -m true", false},
		{"chroot . /bin/true", false},
		{"echo y > own && rm own && echo x > own", true},
		{"echo y > ../../top", false},
		{"echo y > " + outside + "/file", false},
		{"mkdir own.d && rmdir own.d", true},
		{"mknod node c 1 1", false},
	}
	for _, path := range []string{"../../top", outside + "/file", "../..", outside} {
		attempts = append(
			attempts,
			attempt{"chmod 0755 " + path, gap("modes")},
			attempt{"chown $(id -u):$(id -g) " + path, gap("modes")},
			attempt{"touch -d 2001-01-01 " + path, gap("times")},
		)
	}
	attempts = append(
		attempts,
		attempt{"chmod 0640 own && chown $(id -u) own", by != "Landlock alone" || os.Geteuid() != 0},
		attempt{"touch -d 2001-01-01 own", true},
	)
	for _, one := range attempts {
		got := run(process.Command{
			Path: "/bin/bash", Args: []string{"-c", one.script}, Env: process.Environment(os.Environ()),
		})
		if hidden := strings.Contains(one.script, outside) &&
			by == "bubblewrap"; (got.Exit == 0) != (one.works && !hidden) {
			t.Errorf("%s: exit %d: %s", one.script, got.Exit, got.Stderr)
		}
	}
	for _, path := range []string{filepath.Join(root, "top"), filepath.Join(outside, "file")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if changed := info.Mode().Perm() != 0o600; changed != gap("modes") {
			t.Errorf("%s: %v", path, info.Mode())
		}
		if changed := info.ModTime().Year() == 2001; changed != gap("times") {
			t.Errorf("%s: %v", path, info.ModTime())
		}
	}
	// What the kernel says about a confined process.
	status := run(process.Command{Path: "/bin/cat", Args: []string{"/proc/self/status"}})
	if by != "bubblewrap" { // only the process itself can be seen, under the number that it had when it was confined
		script := `while read -r line; do echo "$line"; done </proc/$$/status`
		status = run(process.Command{Path: "/bin/bash", Args: []string{"-c", script}})
	}
	for _, want := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapAmb:\t0000000000000000", privileges + "1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(status.Stdout), want) {
			name, _, _ := strings.Cut(want, ":")
			_, got, _ := strings.Cut(string(status.Stdout), name+":")
			got, _, _ = strings.Cut(got, "\n")
			t.Errorf("%s of a confined process: %s %s", name, got, status.Stderr)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(string(status.Stdout), "CapBnd:\t0000000000000000") {
		t.Errorf("root can gain capabilities:\n%s", status.Stdout)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls := run(process.Command{Path: self, Env: append(os.Environ(), calling+"=1")})
	if calls.Exit != 0 || len(calls.Stdout) > 0 {
		t.Errorf("permitted system calls, exit %d %s:\n%s", calls.Exit, calls.Stderr, calls.Stdout)
	}
}

// permittedCalls makes system calls that have no effect, because of their
// arguments, and prints those that are permitted.
func permittedCalls(w io.Writer) {
	const none = ^uintptr(0)
	for name, call := range map[string][5]uintptr{
		"mount":             {unix.SYS_MOUNT, 0, 0, 0, 0},
		"umount2":           {unix.SYS_UMOUNT2, 0, 0, 0, 0},
		"pivot_root":        {unix.SYS_PIVOT_ROOT, 0, 0, 0, 0},
		"mount_setattr":     {unix.SYS_MOUNT_SETATTR, none, 0, 0, 0},
		"open_tree":         {unix.SYS_OPEN_TREE, none, 0, 0, 0},
		"fsopen":            {unix.SYS_FSOPEN, 0, 0, 0, 0},
		"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, none, 0, 0, 0},
		"unshare":           {unix.SYS_UNSHARE, 0, 0, 0, 0},
		"setns":             {unix.SYS_SETNS, none, 0, 0, 0},
		// A combination of flags that is never valid.
		"clone":            {unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_FS, 0, 0, 0},
		"ptrace":           {unix.SYS_PTRACE, none, none, 0, 0},
		"process_vm_readv": {unix.SYS_PROCESS_VM_READV, none, 0, 0, 0},
		"prlimit64":        {unix.SYS_PRLIMIT64, none, 0, 0, 0},
		"keyctl":           {unix.SYS_KEYCTL, none, 0, 0, 0},
		"add_key":          {unix.SYS_ADD_KEY, 0, 0, 0, 0},
		"request_key":      {unix.SYS_REQUEST_KEY, 0, 0, 0, 0},
		"bpf":              {unix.SYS_BPF, none, 0, 0, 0},
		"perf_event_open":  {unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0},
		"userfaultfd":      {unix.SYS_USERFAULTFD, none, 0, 0, 0},
		"io_uring_setup":   {unix.SYS_IO_URING_SETUP, 0, 0, 0, 0},
		"init_module":      {unix.SYS_INIT_MODULE, 0, 0, 0, 0},
		"vsock":            {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0, 0},
		"packet":           {unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0, 0},
		"TIOCSTI":          {unix.SYS_IOCTL, none, unix.TIOCSTI, 0, 0},
	} {
		if _, _, err := unix.Syscall6(call[0], call[1], call[2], call[3], call[4], 0, 0); err != unix.EPERM {
			fmt.Fprintln(w, name+":", err)
		}
	}
	if _, _, err := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); err != unix.ENOSYS {
		fmt.Fprintln(w, "clone3:", err)
	}
}
