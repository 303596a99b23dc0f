package registry

import (
	"crypto/subtle"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/trust"
)

// storageFolders are the folders, below a storage folder, whose entries decide what runs do or who may act on them.
// What is in the folders of runs is their own: commands may leave anything there.
var storageFolders = []string{"", "storage", "storage/postgres"}

// checkStorage refuses a storage folder if others can change it or a part of it, or if one of them is a link: otherwise
// another user could decide what runs of this user do.
func checkStorage(dir string) error {
	for _, folder := range storageFolders {
		path := filepath.Join(dir, folder)
		if err := private.Check(path); err != nil {
			return err
		}
		entries, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if err := private.Check(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

const ignoreFile = ".gitignore"

// signatureFile has the signature of the user who created the storage folder.
const signatureFile = "signature"

// makeStorage creates the folder, accessible only to its owner and ignored by git. It refuses a folder that others can
// change or that another user created: a repository or an archive can contain a folder with runs, which would be
// continued with the rights of this user.
func makeStorage(dir string, by *trust.Store) error {
	fresh, err := isFresh(dir)
	if err != nil {
		return err
	}
	if fresh {
		if err := private.Check(dir); err != nil {
			return err
		}
		if err := freshStorage(dir, by); err != nil {
			return err
		}
	}
	if err := checkStorage(dir); err != nil {
		return err
	}
	if by == nil {
		return nil
	}
	return checkSignature(dir, *by)
}

// freshStorage creates the folder, or completes an empty one. Other processes may do the same concurrently, so it
// prepares a temporary folder and renames it.
func freshStorage(dir string, by *trust.Store) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-*") // with mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	files := []string{ignoreFile}
	if err := os.WriteFile(filepath.Join(made, ignoreFile), []byte("*\n"), 0o600); err != nil {
		return err
	}
	if by != nil {
		if err := sign(made, *by); err != nil {
			return err
		}
		files = append(files, signatureFile)
	}
	if err := os.Rename(made, dir); err == nil {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	for _, name := range files {
		from, to := filepath.Join(made, name), filepath.Join(dir, name)
		if err := os.Rename(from, to); err != nil {
			if err := writeOver(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOver copies a small file to another file system: the folder may be a mounted volume. The file has all of its
// content or none, because other processes may write the same content at the same time.
func writeOver(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// isFresh reports whether a folder contains nothing but empty files, which keep folders in archives, and ignoreFile.
func isFresh(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return false, err
		}
		if e.Name() != ignoreFile && (!info.Mode().IsRegular() || info.Size() > 0) {
			return false, nil
		}
	}
	return true, nil
}

func sign(dir string, by trust.Store) error {
	signature, err := by.Signature()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, signatureFile), []byte(signature+"\n"), 0o600)
}

// checkSignature returns an error unless this user has signed the storage folder on this machine. The signature is
// derived from a key of the user, so it cannot come with a repository. A folder that several machines share has a line
// for each.
func checkSignature(dir string, by trust.Store) error {
	want, err := by.Signature()
	if err != nil {
		return err
	}
	is, err := os.ReadFile(filepath.Join(dir, signatureFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(is)) { // one for each machine that shares the folder
		if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(line)), []byte(want)) == 1 {
			return nil
		}
	}
	return &private.Error{
		Path: dir, Why: "was not created by you on this machine. It may come from a repository or an archive, and " +
			"Espalier would trust its runs",
		Help: "If it is yours, as after a move or an upgrade, run \"espalier trust\". Otherwise remove it.",
	}
}

// ForeignStorage reports whether there is a storage folder that this user has
// not made.
func ForeignStorage(dir string, by trust.Store) bool {
	fresh, err := isFresh(dir)
	return err == nil && !fresh && checkSignature(dir, by) != nil
}

// AdoptStorage signs a storage folder that this user has not made, or has made on another machine. Earlier signatures
// stay.
func AdoptStorage(dir string, by trust.Store) error {
	if err := checkStorage(dir); err != nil {
		return err
	}
	if checkSignature(dir, by) == nil {
		return nil
	}
	signature, err := by.Signature()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, signatureFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(signature + "\n")
	return errors.Join(err, f.Close())
}
