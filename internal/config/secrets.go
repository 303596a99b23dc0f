package config

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/text"
)

// Secret is the source of a secret; exactly one of Env, File and Command is set.
type Secret struct {
	Env     string
	File    string
	Command []string
	// Unapproved reports that the source is not approved; see PrivilegedSetting.
	Unapproved bool
	// simulated is the value in a simulated run, which starts no command.
	simulated string
}

// Path returns the path of the file that contains the secret, in a project; empty if no file does.
func (s *Secret) Path(dir string, getenv func(string) string) string {
	path := s.File
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(getenv("HOME"), rest)
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readSecrets reads the secrets section. Each secret has exactly one source.
func readSecrets(f *fields) []Named[Secret] {
	return entries(f, "secrets", "secret", "Sources of secrets. Refer to a secret as secret://NAME.",
		func(name text.Text, f *fields) Secret {
			s := Secret{
				Env:  f.text("env", "The environment variable that contains the secret.").Value,
				File: f.text("file", "The file that contains only the secret; ~ is your home folder.").Value,
				Command: text.Values(f.texts("command",
					"The command that prints the secret, and its arguments, as a list.")),
			}
			f.exclusive("env", "file", "command")
			if name.Value != "" && f.lacks("env", "file", "command") {
				f.out.Errorf(CodeMissing, name.Span,
					"Add one of: env: VARIABLE, file: PATH, command: [NAME, ARGUMENT].", "The secret %q has no source.",
					name.Value)
			}
			if name.Value != "" && !secretName().MatchString(name.Value) {
				f.out.Errorf(CodeBadValue, name.Span, "Use letters, digits, dashes and underscores.",
					"Invalid secret name %q.", name.Value)
			}
			return s
		})
}

var secretName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// Reference returns the name of the secret that value refers to; ok is false if value is not a reference.
func Reference(value string) (name string, ok bool) { return strings.CutPrefix(value, secret.Scheme) }

// checkKey reports a key that is not a reference. The file is shared, so it must not contain keys. instead is what to
// write.
func (f *fields) checkKey(key text.Text, instead string) {
	if _, ok := Reference(key.Value); key.Value != "" && !ok {
		f.out.Errorf(CodeOpenKey, key.Span, "Declare a secret, and write "+instead+".",
			"The key of the %s is in plain text.", f.what)
	}
}

func (c *Config) checkReference(t text.Text, out *diag.List) {
	name, ok := Reference(t.Value)
	if !ok || c.Secret(name) != nil {
		return
	}
	names := Names(c.Secrets)
	help := fmt.Sprintf("Declare it: secrets: {%s: {env: %s}}.", name,
		strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	near := diag.Nearest(name, names)
	if near != "" {
		help = fmt.Sprintf("Did you mean %q?", secret.Scheme+near)
	}
	out.Errorf(CodeNoSecret, t.Span, help, "There is no secret %q.", name).Replace(name, near)
}

// Secret returns the declared secret of that name, or nil if there is none.
func (c *Config) Secret(name string) *Secret { return entry(c.Secrets, name) }

// Place describes the source of the secret.
func (s *Secret) Place() string {
	switch {
	case s.Env != "":
		return "the environment variable " + s.Env
	case s.File != "":
		return "the file " + s.File
	case len(s.Command) > 0:
		return "the command " + s.Command[0]
	}
	return "nowhere"
}

// secretSeconds limits the run time of a command. It is long enough for a command that asks a person.
const secretSeconds = 60

// maxSecretOutput limits the output of a command; more than that is not a secret.
const maxSecretOutput = 1 << 20

// Value returns the secret, without line ends after it. Relative paths and commands are resolved in dir, the root
// folder of the project. It reads its source with each call, so that a secret that is replaced takes effect;
// secret.Registry remembers the results of commands.
func (s *Secret) Value(ctx context.Context, dir string, getenv func(string) string) (string, error) {
	var value string
	switch {
	case s.simulated != "":
		return s.simulated, nil
	case s.Unapproved:
		return "", fmt.Errorf("%s. %s", NotApproved(s.Place()), Approval)
	case s.Env != "":
		value = getenv(s.Env)
	case s.File != "":
		raw, err := os.ReadFile(s.Path(dir, getenv))
		if err != nil {
			return "", fmt.Errorf("the file %s cannot be read: %w", s.File, err)
		}
		value = string(raw)
	case len(s.Command) > 0:
		printed, err := s.output(ctx, dir)
		if err != nil {
			return "", fmt.Errorf("the command %s failed: %w", s.Command[0], err)
		}
		value = printed
	}
	value = strings.TrimRight(value, "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", s.Place())
	}
	return value, nil
}

// output runs the command and returns its standard output. The command inherits the whole environment, because password
// managers read their own keys from it.
func (s *Secret) output(ctx context.Context, dir string) (string, error) {
	path := s.Command[0]
	if filepath.Base(path) == path {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", err
		}
		path = found
	}
	ctx, stop := context.WithTimeoutCause(ctx, secretSeconds*time.Second,
		fmt.Errorf("it took more than %d seconds", secretSeconds))
	defer stop()
	done, err := process.Run(ctx,
		process.Command{Path: path, Args: s.Command[1:], Dir: dir, Env: os.Environ(), MaxOutput: maxSecretOutput})
	switch {
	case err != nil:
		return "", err
	case done.Signal != "":
		return "", fmt.Errorf("it was ended by %s%s", done.Signal, lastLine(done.Stderr))
	case done.Exit != 0:
		return "", fmt.Errorf("exit status %d%s", done.Exit, lastLine(done.Stderr))
	}
	return string(done.Stdout), nil
}

// lastLine returns the last line of a command's error output, for an error message.
func lastLine(stderr []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stderr)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}
