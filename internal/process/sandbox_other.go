//go:build !linux

package process

func landlocked() bool { return false }

func become(Sandbox, []string) error { return ErrNoSandbox }
