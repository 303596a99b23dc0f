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

func TestWords(t *testing.T) {
	post := func(err error) error {
		return fmt.Errorf("asking: %w", &url.Error{Op: "Post", URL: "http://127.0.0.1:9/v1/messages?key=x", Err: err})
	}
	for err, want := range map[error]string{
		post(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}): "127.0.0.1:9 cannot be reached: connection refused",
		post(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x"}}):       "127.0.0.1:9 cannot be reached: no such host",
		post(&net.DNSError{Err: "no such host", Name: "x"}):                                                  "127.0.0.1:9 cannot be reached: no such host",
		post(io.ErrUnexpectedEOF): "the connection to 127.0.0.1:9 broke: unexpected EOF",
		errors.New("else"):        "else",
		&url.Error{Op: "Get", URL: "/again", Err: errors.New("it was redirected too often")}: "it was redirected too often",
	} {
		if got := netguard.Words(err); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
