//go:build linux && !amd64 && !arm64

package process

var archDeniedCalls, archAttributeCalls []uintptr
