package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/espalier-run/espalier/internal/diag"
)

// CommandCheck returns a check that runs a shell command, which gets the statement on its standard input and the path
// of the signature in ESPALIER_SIGNATURE. Its exit code decides.
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
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: the command reports %w: %s", ErrSignature, err,
				diag.Printable(string(bytes.TrimSpace(out))))
		}
		return nil
	}
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
			return Signature{}, fmt.Errorf("the command that signs failed: %w: %s", err,
				diag.Printable(string(bytes.TrimSpace(stderr.Bytes()))))
		}
		return Signature{Algorithm: SignedCommand, Signature: out}, nil
	}
}
