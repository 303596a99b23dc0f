package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// ErrorText returns a short description of a failed request: the host and the
// root cause, without the layers that net/http and net wrap around it.
func ErrorText(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return err.Error()
	}
	at, failed := request.URL, request.Err
	if u, err := url.Parse(request.URL); err == nil {
		at = u.Host
	}
	if at == "" { // the URL is a redirect target without a host
		return failed.Error()
	}
	var dial *net.OpError
	var name *net.DNSError
	var call *os.SyscallError
	switch {
	case errors.As(failed, &name):
		return fmt.Sprintf("%s cannot be reached: %s", at, name.Err)
	case errors.As(failed, &dial) && dial.Op == "dial":
		failed = dial.Err
		if errors.As(failed, &call) {
			failed = call.Err
		}
		return fmt.Sprintf("%s cannot be reached: %v", at, failed)
	}
	return fmt.Sprintf("the connection to %s broke: %v", at, failed)
}
