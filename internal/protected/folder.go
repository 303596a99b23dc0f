package protected

import (
	"errors"
	"os"
)

// MkdirIn creates a folder and those between it and a base folder, which must exist: a storage folder that was removed
// is not created again without the signature of its owner, which makes it look like one of another user.
func MkdirIn(base, below string) error {
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	return errors.Join(root.MkdirAll(below, 0o700), root.Close())
}
