package process

import (
	"context"
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
// libraries of the system. The zero value reaches nothing else. No sandbox
// reaches a network.
type Sandbox struct {
	Read  []string // files and folders
	Write []string // folders; they can be read, too

	root    string // a folder that can be read, except for the entries in without
	without []string
	by      method
}

// method is how commands are confined.
type method struct {
	bubblewrap string // path of the program; empty when Landlock confines commands
	self       string // path of this program, which confines itself with Landlock
	isolation  isolation
}

// isolation is which namespaces a command gets that Landlock confines.
// Bubblewrap creates its own.
type isolation int

const (
	noNamespaces    isolation = iota
	mountNamespace            // as root, where user namespaces are not permitted
	userNamespace             // and a mount namespace that belongs to it
	isolationLevels = iota
)

// Confinement describes how commands are confined on this machine.
type Confinement struct {
	// By is the mechanism, for people to read.
	By string
	// Gaps are the things outside of the sandbox that the kernel does not
	// protect from a confined command.
	Gaps []string
}

// String returns the description in one line.
func (c Confinement) String() string {
	if len(c.Gaps) == 0 {
		return c.By
	}
	return c.By + "; not confined: " + strings.Join(c.Gaps, ", ")
}

// ErrNoSandbox is returned where commands cannot be confined.
var ErrNoSandbox = errors.New("commands cannot be confined on this machine: " +
	"install bubblewrap (bwrap), or use Linux 6.7 or later, which has Landlock")

// ErrNotConfinable is returned instead in a program that does not call Confine.
var ErrNotConfinable = errors.New("commands cannot be confined: install bubblewrap (bwrap), " +
	"or call process.Confine first in the main function of this program")

// NewSandbox returns a sandbox in which a project can be read, except for the
// entries in without. It fails with ErrNoSandbox where nothing confines commands.
func NewSandbox(root string, without ...string) (*Sandbox, error) {
	by, err := findMethod()
	if err != nil {
		return nil, err
	}
	return &Sandbox{root: root, without: without, by: by}, nil
}

// readable returns the files and folders that can be read, as they are at this
// moment: a step can read what the step before it has created.
func (s *Sandbox) readable() []string {
	out := slices.Clone(s.Read)
	entries, _ := os.ReadDir(s.root) // without the folder there is nothing to read
	for _, e := range entries {
		if !slices.Contains(s.without, e.Name()) && e.Type()&os.ModeSymlink == 0 {
			out = append(out, filepath.Join(s.root, e.Name()))
		}
	}
	return out
}

// Confined returns how commands are confined on this machine.
func Confined() (Confinement, error) {
	by, err := findMethod()
	if err != nil {
		return Confinement{}, err
	}
	return by.confinement(), nil
}

// findMethod returns the first method that works. Containers often permit
// neither bubblewrap nor namespaces, so each is tried with a real command.
func findMethod() (method, error) {
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		if by := (method{bubblewrap: bwrap}); by.works() {
			return by, nil
		}
	}
	self, err := os.Executable()
	if err != nil || !landlockAvailable() {
		return method{}, ErrNoSandbox
	}
	if !confinable {
		return method{}, ErrNotConfinable
	}
	for level := isolationLevels - 1; level >= 0; level-- {
		if by := (method{self: self, isolation: isolation(level)}); by.works() {
			return by, nil
		}
	}
	return method{}, ErrNoSandbox
}

// works reports whether the method confines a command that does nothing.
func (m method) works() bool {
	c := Command{Path: "/bin/sh", Args: []string{"-c", ":"}, Dir: "/", Sandbox: &Sandbox{by: m}}
	o, err := Run(context.Background(), c)
	return err == nil && o.Exit == 0
}

// Sees reports whether a command can work in a folder.
func (s *Sandbox) Sees(dir string) bool {
	if rel, err := filepath.Rel(s.root, dir); err == nil && s.root != "" && filepath.IsLocal(rel) {
		first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if !slices.Contains(s.without, first) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(s.Read, s.Write), func(one string) bool { return within(one, dir) })
}

// For returns the sandbox with a folder that the command may change; nil stays
// nil. The folder is also the command's home, and holds its temporary files.
func (s *Sandbox) For(dir string) *Sandbox {
	if s == nil {
		return nil
	}
	out := *s
	out.Read = slices.Clone(s.Read)
	out.Write = append([]string{dir}, s.Write...)
	return &out
}

// environment returns the variables with HOME and TMPDIR in a folder that the
// command may change.
func (s *Sandbox) environment(environ []string) []string {
	if len(s.Write) == 0 {
		return environ
	}
	out := slices.DeleteFunc(slices.Clone(environ), func(one string) bool {
		return strings.HasPrefix(one, "HOME=") || strings.HasPrefix(one, "TMPDIR=")
	})
	return append(out, "HOME="+s.Write[0], "TMPDIR="+s.Write[0])
}

// systemPaths returns what programs need of the system, all of it read-only.
//
// Of /etc, only what programs read to run, to resolve names and to verify
// certificates is included. The rest holds password hashes, private keys and the
// credentials of services, and root may read all of it.
func systemPaths() []string {
	out := []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/run/current-system"}
	for _, pattern := range etc {
		paths, _ := filepath.Glob("/etc/" + pattern) // the patterns are well-formed
		out = append(out, paths...)
	}
	return out
}

// etc are patterns of names below /etc.
var etc = []string{
	// Programs and libraries.
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "ld-musl-*.path", "static",
	"os-release", "lsb-release", "*_version", "*-release", "shells", "profile", "profile.d", "bash.bashrc", "bashrc",
	"inputrc", "terminfo", "magic", "magic.mime", "mime.types", "fonts", "java*", "python3*", "perl", "php", "R",
	"texmf", "ImageMagick-*", "crypto-policies", "papersize",
	// Users, time and language.
	"passwd", "group", "nsswitch.conf", "localtime", "timezone", "locale.conf", "locale.alias", "default/locale",
	// Names.
	"hosts", "host.conf", "hostname", "resolv.conf", "gai.conf", "services", "protocols", "networks", "rpc",
	// Certificates, but no private keys.
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
	"pki/ca-trust", "ca-certificates", "ca-certificates.conf",
}

// confine returns the command that runs another one in the sandbox.
func (s *Sandbox) confine(c Command) Command {
	inner := append([]string{c.Path}, c.Args...)
	c.Env = s.environment(c.Env)
	// With Landlock, this program is started again, confines itself (Confine) and becomes the command.
	if s.by.bubblewrap == "" {
		what, err := json.Marshal(confined{
			Read: s.readable(), Write: s.Write, Dir: c.Dir, Isolation: s.by.isolation, Limits: c.Limits,
		})
		if err != nil {
			panic(err) // strings and a number
		}
		c.Path, c.Args, c.isolation = s.by.self, append([]string{confineWord, string(what)}, inner...), s.by.isolation
		return c
	}
	// /proc is read-only as a whole: root owns its settings and could write
	// them without any capability.
	args := []string{
		"--die-with-parent", "--unshare-all", "--new-session", "--cap-drop", "ALL",
		"--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev",
	}
	// Later mounts cover earlier ones, so the folders that can be written come after those that can be read.
	readable := append(systemPaths(), s.readable()...)
	for _, path := range readable {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.Write {
		args = append(args, "--bind-try", path, path)
	}
	if !slices.ContainsFunc(append(readable, s.Write...), func(dir string) bool { return within(dir, c.Path) }) {
		args = append(args, "--ro-bind-try", filepath.Dir(c.Path), filepath.Dir(c.Path))
	}
	// The folders around these exist in memory only: a file written there
	// would be lost.
	args = append(args, "--remount-ro", "/")
	if c.Dir != "" {
		args = append(args, "--chdir", c.Dir)
	}
	if filtersAvailable() {
		c.filtered = true
		args = append(args, "--seccomp", fmt.Sprint(filterFD))
	}
	args = append(args, "--")
	c.Path, c.Args = s.by.bubblewrap, append(args, inner...)
	return c.limited()
}

// filterFD is the file descriptor from which bubblewrap reads its filter.
const filterFD = 3

// within reports whether a path is a folder or something in it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// confineWord is the first argument of this program when it has to confine
// itself and become a command.
const confineWord = "__confine"

// confined is what a process needs to know to confine itself.
type confined struct {
	Read      []string  `json:"read,omitempty"`
	Write     []string  `json:"write,omitempty"`
	Dir       string    `json:"dir,omitempty"`
	Isolation isolation `json:"isolation,omitempty"`
	Limits    Limits    `json:"limits"`
}

// confinable is set by Confine. Otherwise this program, started to confine itself, would run its main function.
var confinable bool

// Confine must be called first in the main function of a program whose commands
// are confined. If this process was started to confine itself, Confine gives up
// what the command may not have, becomes the command, and does not return.
func Confine(args []string) {
	confinable = true
	if len(args) < 4 || args[1] != confineWord {
		return
	}
	var c confined
	err := json.Unmarshal([]byte(args[2]), &c)
	if err == nil {
		err = c.become(args[3:])
	}
	fmt.Fprintln(os.Stderr, "espalier: cannot enter the sandbox:", err)
	os.Exit(126)
}
