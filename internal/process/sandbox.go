package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Sandbox is what a confined command may reach, besides the programs and
// libraries of the system. The zero value may reach nothing else; a network
// none reaches.
type Sandbox struct {
	Read  []string `json:"read,omitempty"`  // files and folders
	Write []string `json:"write,omitempty"` // folders; may be read, too

	by method
}

// method is what confines commands here.
type method struct {
	bubblewrap string // path of the program
	self       string // path of this program, which confines itself
}

// ErrNoSandbox is returned where commands cannot be confined.
var ErrNoSandbox = errors.New("commands cannot be confined on this machine: install bubblewrap (bwrap), or use a Linux kernel from 6.7 on, which has Landlock")

// NewSandbox makes a sandbox in which a project can be read, but for the
// names in without. It fails where there is nothing to confine commands with.
func NewSandbox(root string, without ...string) (*Sandbox, error) {
	by, err := findMethod()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{by: by}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !slices.Contains(without, e.Name()) && e.Type()&os.ModeSymlink == 0 {
			s.Read = append(s.Read, filepath.Join(root, e.Name()))
		}
	}
	return s, nil
}

// Confinable is why commands cannot be confined here; nil when they can.
func Confinable() error {
	_, err := findMethod()
	return err
}

func findMethod() (method, error) {
	if bwrap, err := exec.LookPath("bwrap"); err == nil && works(bwrap) {
		return method{bubblewrap: bwrap}, nil
	}
	self, err := os.Executable()
	if err != nil || !landlocked() {
		return method{}, ErrNoSandbox
	}
	return method{self: self}, nil
}

// works tells whether bubblewrap may do its work here: containers often do
// not let it.
func works(bwrap string) bool {
	return exec.Command(bwrap, "--ro-bind", "/", "/", "--unshare-all", "true").Run() == nil
}

// For is the sandbox with a folder that the command may change; nil stays nil.
func (s *Sandbox) For(dir string) *Sandbox {
	if s == nil {
		return nil
	}
	out := *s
	out.Write = append(slices.Clone(s.Write), dir)
	return &out
}

// system is what programs cannot do without.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/run/current-system"}

// confined is the command that runs another one in the sandbox.
func (s *Sandbox) confined(c Command) Command {
	inner := append([]string{c.Path}, c.Args...)
	if s.by.bubblewrap == "" {
		what, err := json.Marshal(s)
		if err != nil {
			panic(err) // strings
		}
		c.Path, c.Args = s.by.self, append([]string{confineWord, string(what)}, inner...)
		return c
	}
	args := []string{"--die-with-parent", "--unshare-all", "--new-session", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
	for _, path := range slices.Concat(system, s.Read) {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.Write {
		args = append(args, "--bind", path, path)
	}
	args = append(args, "--chdir", c.Dir, "--")
	c.Path, c.Args = s.by.bubblewrap, append(args, inner...)
	return c
}

// confineWord begins the arguments of this program when it is to confine
// itself and become another.
const confineWord = "__confine"

// Confine has to be called at the very beginning of a program whose commands
// may be confined. If this process was started for that it never returns:
// it gives up what it may not have and becomes the command.
func Confine(args []string) {
	if len(args) < 4 || args[1] != confineWord {
		return
	}
	var s Sandbox
	err := json.Unmarshal([]byte(args[2]), &s)
	if err == nil {
		err = become(s, args[3:])
	}
	fmt.Fprintln(os.Stderr, "the sandbox cannot be entered:", err)
	os.Exit(126)
}
