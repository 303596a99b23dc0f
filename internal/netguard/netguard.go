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

// Options configure a client.
type Options struct {
	// Allow lists non-public hosts that may be reached: "localhost",
	// "127.0.0.1:8080", "10.1.0.0/16", "*.corp.example". It must come from the
	// operator's configuration, never from a workflow file.
	Allow []string
	// Timeout limits the whole exchange including redirects. 0 means
	// DefaultTimeout, a negative value no timeout.
	Timeout time.Duration
	// Resolve returns the addresses of a host name; nil means the system resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

const (
	// DefaultTimeout applies if Options.Timeout is 0.
	DefaultTimeout = 30 * time.Second
	// MaxRedirects is the number of redirects that a client follows.
	MaxRedirects = 10
)

// ForbiddenError reports a request to an address that is not public.
type ForbiddenError struct {
	Host string // as requested
	Addr netip.Addr
	Kind string // such as "a loopback address"; see Private
}

func (e *ForbiddenError) Error() string {
	if e.Host == e.Addr.String() {
		return fmt.Sprintf("%s is %s", e.Host, e.Kind)
	}
	return fmt.Sprintf("%s is at %s, %s", e.Host, e.Addr, e.Kind)
}

// ErrScheme is returned for URLs whose scheme is not http or https.
var ErrScheme = errors.New("only http and https URLs are supported")

// ErrRedirects is returned after too many redirects.
var ErrRedirects = fmt.Errorf("redirected more than %d times", MaxRedirects)

// Client returns a new HTTP client.
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
		CheckRedirect: checkRedirect,
	}
}

// Check returns an error unless the URL has a supported scheme and a host. It does not resolve the host.
func Check(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return ErrScheme
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	}
	return nil
}

// checkRedirect limits redirects and drops headers when a redirect leaves the
// host, because they may hold credentials for that host only.
func checkRedirect(next *http.Request, via []*http.Request) error {
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

// dial resolves the host, checks every address, and connects to one of the
// checked addresses.
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
			return nil, err // one forbidden address forbids the name: the choice among them is arbitrary
		}
	}
	var failed error = fmt.Errorf("%s has no address", host)
	for _, addr := range addrs {
		d := net.Dialer{Control: func(_, dialed string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(dialed)
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
	allowed := func(entry string) bool { return allows(entry, host, port, addr) }
	if kind == "" || slices.ContainsFunc(g.allow, allowed) {
		return nil
	}
	return &ForbiddenError{Host: host, Addr: addr, Kind: kind}
}

// allows reports whether an allowlist entry covers a destination.
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

// special lists the non-public ranges that netip has no method for.
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
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a private address"}, // the position of an embedded IPv4 address varies
	{netip.MustParsePrefix("100::/64"), "a discarding address"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
	{netip.MustParsePrefix("5f00::/16"), "a reserved address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
}

// embeddings lists IPv6 ranges whose addresses embed an IPv4 address at a byte
// offset.
var embeddings = []struct {
	prefix   netip.Prefix
	at       int
	inverted bool // all bits of the IPv4 address are inverted (Teredo)
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, false},
	{netip.MustParsePrefix("2002::/16"), 2, false},
	{netip.MustParsePrefix("2001::/32"), 12, true},
	{netip.MustParsePrefix("::/96"), 12, false},
}

// Private describes a non-public address, as in "a loopback address". It returns
// "" for a public address.
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
		for _, c := range embeddings {
			if !c.prefix.Contains(addr) {
				continue
			}
			inner := [4]byte(raw[c.at:])
			if c.inverted {
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

// ErrTooLong is returned for a response that exceeds its size limit.
var ErrTooLong = errors.New("the response exceeds the size limit")

// ReadAll reads a response of up to limit bytes. If it is longer, ReadAll
// returns the first limit bytes and ErrTooLong.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		return raw[:limit], ErrTooLong
	}
	return raw, err
}
