package netguard_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/netguard"
)

func TestErrorTextNamesHostAndCause(t *testing.T) {
	post := func(err error) error {
		return fmt.Errorf("asking: %w", &url.Error{Op: "Post", URL: "http://127.0.0.1:9/v1/messages?key=x", Err: err})
	}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	unknown := &net.DNSError{Err: "no such host", Name: "x"}
	for err, want := range map[error]string{
		post(dial(refused)):       "127.0.0.1:9 cannot be reached: connection refused",
		post(dial(unknown)):       "127.0.0.1:9 cannot be reached: no such host",
		post(unknown):             "127.0.0.1:9 cannot be reached: no such host",
		post(io.ErrUnexpectedEOF): "the connection to 127.0.0.1:9 broke: unexpected EOF",
		errors.New("else"):        "else",
		&url.Error{Op: "Get", URL: "/again", Err: errors.New("redirected too often")}: "redirected too often",
	} {
		if got := netguard.ErrorText(err); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
