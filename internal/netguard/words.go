package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// Words says in few words why a server could not be spoken to, without what the
// libraries put around it.
func Words(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return err.Error()
	}
	at, failed := request.URL, request.Err
	if u, err := url.Parse(request.URL); err == nil {
		at = u.Host
	}
	if at == "" { // where a redirect leads to is named as the server wrote it
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
