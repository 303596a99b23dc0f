package netguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Options are the choices of a client.
type Options struct {
	// Allow lists what may be reached although it is not on the open internet:
	// "localhost", "127.0.0.1:8080", "10.1.0.0/16", "*.corp.example". It is
	// for the person who runs things, never for files.
	Allow []string
	// Timeout is for a whole exchange, redirects included; 0 is DefaultTimeout,
	// and less is none at all.
	Timeout time.Duration
	// Resolve finds the addresses of a name; nil asks the system.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// What holds when the options say nothing else.
const (
	DefaultTimeout = 30 * time.Second
	// MaxRedirects is how often an answer may send us elsewhere.
	MaxRedirects = 10
)

// ForbiddenError is an address that must not be reached.
type ForbiddenError struct {
	Host string // as it was asked for
	Addr netip.Addr
	Kind string // what it is: a loopback address, …
}

func (e *ForbiddenError) Error() string {
	if e.Host == e.Addr.String() {
		return fmt.Sprintf("%s is %s", e.Host, e.Kind)
	}
	return fmt.Sprintf("%s is at %s, %s", e.Host, e.Addr, e.Kind)
}

// ErrScheme is returned for anything but http and https.
var ErrScheme = errors.New("only http and https can be reached")

// ErrRedirects is returned when answers send us on for ever.
var ErrRedirects = fmt.Errorf("it was redirected more than %d times", MaxRedirects)

// Client makes a client.
func Client(o Options) *http.Client {
	g := &guard{allow: o.Allow, resolve: o.Resolve}
	if g.resolve == nil {
		g.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return &http.Client{
		Timeout: max(o.Timeout, 0),
		Transport: &http.Transport{
			DialContext: g.dial, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 1 << 20,
		},
		CheckRedirect: redirected,
	}
}

// Check tells at once whether a URL can be reached at all, before a name is
// resolved.
func Check(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return ErrScheme
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	}
	return nil
}

// redirected lets a redirect pass. What was meant for one host only, such as
// a key in a header, does not travel to another.
func redirected(next *http.Request, via []*http.Request) error {
	if len(via) >= MaxRedirects {
		return ErrRedirects
	}
	if err := Check(next.URL); err != nil {
		return err
	}
	first := via[0].URL
	if next.URL.Host != first.Host || first.Scheme == "https" && next.URL.Scheme != "https" {
		kept := http.Header{}
		for _, name := range []string{"Accept", "Accept-Language", "User-Agent", "Content-Type"} {
			if v := next.Header.Values(name); len(v) > 0 {
				kept[name] = v
			}
		}
		next.Header = kept
	}
	return nil
}

type guard struct {
	allow   []string
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// dial resolves, looks at every address, and connects to one of those it has
// looked at.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{addr}
	} else if addrs, err = g.resolve(ctx, host); err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if err := g.check(host, port, addr); err != nil {
			return nil, err // one bad address spoils the name: which one is dialled would be luck
		}
	}
	var failed error = fmt.Errorf("%s has no address", host)
	for _, addr := range addrs {
		d := net.Dialer{Control: func(_, really string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(really)
			if err != nil {
				return err
			}
			return g.check(host, port, at.Addr())
		}}
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

func (g *guard) check(host, port string, addr netip.Addr) error {
	kind := Private(addr)
	if kind == "" || slices.ContainsFunc(g.allow, func(entry string) bool { return allows(entry, host, port, addr) }) {
		return nil
	}
	return &ForbiddenError{Host: host, Addr: addr, Kind: kind}
}

// allows tells whether an entry of the allowlist means a place.
func allows(entry, host, port string, addr netip.Addr) bool {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		return prefix.Contains(addr.Unmap())
	}
	if h, p, err := net.SplitHostPort(entry); err == nil {
		if p != port {
			return false
		}
		entry = h
	}
	if one, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		return one.Unmap() == addr.Unmap()
	}
	entry, host = strings.ToLower(entry), strings.ToLower(strings.TrimSuffix(host, "."))
	if suffix, ok := strings.CutPrefix(entry, "*"); ok {
		return strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix)
	}
	return entry == host
}

// special are the ranges that are not on the open internet, besides those that
// netip knows.
var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a provider's private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for measurements"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private address"}, // of IPv4 in it, only the network knows where
	{netip.MustParsePrefix("100::/64"), "a discarding address"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
	{netip.MustParsePrefix("5f00::/16"), "a reserved address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
}

// carriers are ranges of IPv6 in whose addresses one of IPv4 is wrapped up,
// beginning at the byte given.
var carriers = []struct {
	prefix netip.Prefix
	at     int
	turned bool // every bit of it
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, false},
	{netip.MustParsePrefix("2002::/16"), 2, false},
	{netip.MustParsePrefix("2001::/32"), 12, true},
	{netip.MustParsePrefix("::/96"), 12, false},
}

// Private says what an address is when it is not on the open internet, in a
// few words; "" when it is.
func Private(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	switch {
	case !addr.IsValid():
		return "no address"
	case addr.IsUnspecified():
		return "the unspecified address"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsPrivate():
		return "a private address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.kind
		}
	}
	if addr.Is6() {
		raw := addr.As16()
		for _, c := range carriers {
			if !c.prefix.Contains(addr) {
				continue
			}
			inner := [4]byte(raw[c.at:])
			if c.turned {
				for i := range inner {
					inner[i] = ^inner[i]
				}
			}
			if kind := Private(netip.AddrFrom4(inner)); kind != "" {
				return kind
			}
		}
	}
	return ""
}

// ErrTooLong is returned for an answer that is longer than it may be.
var ErrTooLong = errors.New("the answer is longer than it may be")

// ReadAll reads an answer up to a size; more is ErrTooLong, with what fits.
func ReadAll(r io.Reader, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(raw)) > most {
		return raw[:most], ErrTooLong
	}
	return raw, err
}
