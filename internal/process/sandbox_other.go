//go:build !linux

package process

import "errors"

// Cgroups returns an error: only Linux has cgroups.
func Cgroups() error { return errors.New("only Linux has cgroups") }

// landlockAvailable returns false: Landlock, seccomp and resource limits exist on Linux only.
func landlockAvailable() bool { return false }

func filtersAvailable() bool { return false }

func (m method) confinement() Confinement { return Confinement{By: "bubblewrap"} }

func (confined) become([]string) error { return ErrNoSandbox }

func (c Command) limited() Command { return c }
