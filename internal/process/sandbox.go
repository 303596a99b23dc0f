package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Sandbox is what a confined command may reach, besides the programs and
// libraries of the system. The zero value may reach nothing else; a network
// none reaches.
type Sandbox struct {
	Read  []string `json:"read,omitempty"`  // files and folders
	Write []string `json:"write,omitempty"` // folders; may be read, too

	root    string // a folder of which all can be read
	without []string
	by      method
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
	return &Sandbox{root: root, without: without, by: by}, nil
}

// readable are the files and folders to be read, as they are at this moment:
// what a step has made can be read by the next.
func (s *Sandbox) readable() []string {
	out := slices.Clone(s.Read)
	entries, _ := os.ReadDir(s.root) // one that is gone has nothing to be read
	for _, e := range entries {
		if !slices.Contains(s.without, e.Name()) && e.Type()&os.ModeSymlink == 0 {
			out = append(out, filepath.Join(s.root, e.Name()))
		}
	}
	return out
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

// Sees tells whether a folder is one in which a command can work.
func (s *Sandbox) Sees(dir string) bool {
	if rel, err := filepath.Rel(s.root, dir); err == nil && s.root != "" && filepath.IsLocal(rel) {
		first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if !slices.Contains(s.without, first) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(s.Read, s.Write), func(one string) bool { return within(one, dir) })
}

// For is the sandbox with a folder that the command may change; nil stays nil.
// It is also the command's home, and the place for its temporary files.
func (s *Sandbox) For(dir string) *Sandbox {
	if s == nil {
		return nil
	}
	out := *s
	out.Read = slices.Clone(s.Read)
	out.Write = append([]string{dir}, s.Write...)
	return &out
}

// settled is an environment in which programs look for what is theirs where
// they may.
func (s *Sandbox) settled(environ []string) []string {
	if len(s.Write) == 0 {
		return environ
	}
	out := slices.DeleteFunc(slices.Clone(environ), func(one string) bool {
		return strings.HasPrefix(one, "HOME=") || strings.HasPrefix(one, "TMPDIR=")
	})
	return append(out, "HOME="+s.Write[0], "TMPDIR="+s.Write[0])
}

// system is what programs cannot do without.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/run/current-system"}

// confined is the command that runs another one in the sandbox.
func (s *Sandbox) confined(c Command) Command {
	inner := append([]string{c.Path}, c.Args...)
	c.Env = s.settled(c.Env)
	if s.by.bubblewrap == "" {
		what, err := json.Marshal(Sandbox{Read: s.readable(), Write: s.Write})
		if err != nil {
			panic(err) // strings
		}
		c.Path, c.Args = s.by.self, append([]string{confineWord, string(what)}, inner...)
		return c
	}
	args := []string{"--die-with-parent", "--unshare-all", "--new-session", "--proc", "/proc", "--dev", "/dev"}
	for _, path := range slices.Concat(system, s.readable()) {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.Write {
		args = append(args, "--bind-try", path, path)
	}
	if !slices.ContainsFunc(slices.Concat(system, s.readable(), s.Write), func(dir string) bool { return within(dir, c.Path) }) {
		args = append(args, "--ro-bind-try", filepath.Dir(c.Path), filepath.Dir(c.Path))
	}
	// What stands around these is made up, and nothing that would be written
	// there could be found again.
	args = append(args, "--remount-ro", "/")
	if c.Dir != "" {
		args = append(args, "--chdir", c.Dir)
	}
	args = append(args, "--")
	c.Path, c.Args = s.by.bubblewrap, append(args, inner...)
	return c
}

// within tells whether a path is a folder or something in it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
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
