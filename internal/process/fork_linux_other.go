//go:build linux && !amd64

package process

// spawn starts a program, on a thread that stays. exit is a file that can be
// read once it is dead; there are kernels that have none.
func spawn(path string, argv []string, dir string, env []string, f files) (pid, exit int, err error) {
	return forkExec(path, argv, dir, env, f)
}
