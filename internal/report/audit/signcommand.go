package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
)

// CommandCheck returns a check that runs a shell command, which gets the statement on its standard input and the path
// of the signature in ESPALIER_SIGNATURE. Its exit code decides; a command that cannot be run says nothing about the
// signature.
func CommandCheck(command string) SignatureCheck {
	return func(statement []byte, s Signature) error {
		f, err := os.CreateTemp("", "espalier-signature-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(s.Signature)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Stdin = bytes.NewReader(statement)
		cmd.Env = append(os.Environ(), "ESPALIER_SIGNATURE="+f.Name())
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !rejects(err) {
			return fmt.Errorf("the command that checks the signature could not be run: %w. Check --check-command",
				withOutput(err, out))
		}
		return fmt.Errorf("%w: the command reports %w", ErrSignature, withOutput(err, out))
	}
}

// rejects reports whether a command has ended with an exit code of its own, rather than by a signal or with a code by
// which the shell says that it cannot run a command.
func rejects(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && !slices.Contains([]int{-1, 126, 127}, exit.ExitCode())
}

// withOutput adds what a command has printed to its error.
func withOutput(err error, output []byte) error {
	text := diag.Printable(string(bytes.TrimSpace(output)))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// CommandSigner returns a signer that runs a shell command, which gets the statement on its standard input and writes
// the signature to its standard output.
func CommandSigner(command string) Signer {
	return func(statement []byte) (Signature, error) {
		cmd := exec.Command("sh", "-c", command)
		cmd.Stdin = bytes.NewReader(statement)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err == nil && len(out) == 0 {
			err = errors.New("it has printed nothing")
		}
		if err != nil {
			return Signature{}, fmt.Errorf("the command that signs failed: %w", withOutput(err, stderr.Bytes()))
		}
		return Signature{Algorithm: SignedCommand, Signature: out}, nil
	}
}
