package netguard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/netguard"
)

func TestPrivateKnowsEverySpecialRange(t *testing.T) {
	for _, text := range []string{
		"127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
		"0.0.0.0", "0.1.2.3", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7",
		"203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1", "2001:db8::1",
		"100::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:7f00:0:100::", "64:ff9b:1::808:808",
		"::ffff:0:127.0.0.1", "::ffff:0:a00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:0:0:0:0:80ff:fffe",
	} {
		if netguard.Private(netip.MustParseAddr(text)) == "" {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1",
		"::ffff:8.8.8.8", "::ffff:0:8.8.8.8",
	} {
		if kind := netguard.Private(netip.MustParseAddr(text)); kind != "" {
			t.Errorf("%s counts as %s", text, kind)
		}
	}
}

func server(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func forbidden(err error) bool {
	var f *netguard.ForbiddenError
	return errors.As(err, &f)
}

func TestOnlyAllowedPrivateHostsAreReached(t *testing.T) {
	var reached atomic.Int64
	u := server(t, func(w http.ResponseWriter, r *http.Request) { reached.Add(1) })
	port := u.Port()
	for _, c := range []struct {
		url   string
		allow []string
		ok    bool
	}{
		{"http://127.0.0.1:" + port, nil, false},
		{"http://localhost:" + port, nil, false},
		{"http://[::ffff:127.0.0.1]:" + port, nil, false},
		{"http://2130706433:" + port, nil, false}, // 127.0.0.1 as one number
		{"http://0:" + port, nil, false},
		{"http://127.0.0.1:" + port, []string{"127.0.0.1"}, true},
		{"http://127.0.0.1:" + port, []string{"127.0.0.1:" + port}, true},
		{"http://127.0.0.1:" + port, []string{"127.0.0.1:1"}, false},
		{"http://127.0.0.1:" + port, []string{"127.0.0.0/8"}, true},
		{"http://127.0.0.1:" + port, []string{"10.0.0.0/8", "localhost"}, false},
		{"http://a.corp.example:" + port, []string{"*.corp.example"}, true},
		{"http://a.corp.example.evil.example:" + port, []string{"*.corp.example"}, false},
		{"http://corp.example:" + port, []string{"*.corp.example"}, false},
	} {
		before := reached.Load()
		resolve := func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		client := netguard.Client(netguard.Options{Allow: c.allow, Resolve: resolve})
		resp, err := client.Get(c.url)
		if err == nil {
			resp.Body.Close()
		}
		if c.ok != (err == nil) || !c.ok && (!forbidden(err) || reached.Load() != before) {
			t.Errorf("%s with %v: %v", c.url, c.allow, err)
		}
	}
}

// The name resolves to an allowed address first and to a private one afterwards.
// The client must dial the address it has checked.
func TestDNSRebindingHasNoEffect(t *testing.T) {
	u := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a private server was reached") })
	const checked = "255.255.255.255" // connecting to it fails at once
	asked := 0
	client := netguard.Client(netguard.Options{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		if asked++; asked == 1 {
			return []netip.Addr{netip.MustParseAddr(checked)}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}, Allow: []string{checked}})
	for range 2 {
		resp, err := client.Get("http://rebind.example:" + u.Port())
		if err == nil {
			resp.Body.Close()
			t.Fatal("the server was reached")
		}
		if want := asked == 2; forbidden(err) != want {
			t.Errorf("request %d: %v", asked, err)
		}
	}
}

func TestOnePrivateAddressForbidsTheName(t *testing.T) {
	client := netguard.Client(netguard.Options{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("10.0.0.1")}, nil
	}})
	if resp, err := client.Get("http://mixed.example"); !forbidden(err) {
		if err == nil {
			resp.Body.Close()
		}
		t.Error(err)
	}
}

func TestRedirectsAreCheckedAndDropCredentials(t *testing.T) {
	var key atomic.Value
	inside := server(t, func(w http.ResponseWriter, r *http.Request) { key.Store(r.Header.Get("X-Key")) })
	var target atomic.Value
	outside := server(t, func(w http.ResponseWriter, r *http.Request) {
		to := target.Load().(string)
		if to == "" {
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	get := func(to string, allow ...string) error {
		target.Store(to)
		client := netguard.Client(netguard.Options{Allow: allow})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, outside.String(), nil)
		req.Header.Set("X-Key", "secret")
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	only := outside.Host
	if err := get(inside.String(), only); !forbidden(err) {
		t.Errorf("to a private address: %v", err)
	}
	if err := get("file:///etc/passwd", only); !errors.Is(err, netguard.ErrScheme) {
		t.Errorf("to a file: %v", err)
	}
	if err := get(outside.String(), only); !errors.Is(err, netguard.ErrRedirects) {
		t.Errorf("in a loop: %v", err)
	}
	if err := get(inside.String(), only, inside.Host); err != nil || key.Load() != "" {
		t.Errorf("to another host: %v, with the key %q", err, key.Load())
	}
}

func TestProxySettingsAreIgnored(t *testing.T) {
	u := server(t, func(w http.ResponseWriter, r *http.Request) {})
	t.Setenv("HTTP_PROXY", u.String())
	t.Setenv("http_proxy", u.String())
	if resp, err := netguard.Client(netguard.Options{}).Get("http://10.0.0.1:" + u.Port()); !forbidden(err) {
		if err == nil {
			resp.Body.Close()
		}
		t.Error(err)
	}
}

func TestOnlyHTTPAddressesWithAHostPass(t *testing.T) {
	for text, ok := range map[string]bool{
		"http://a": true, "https://a/b?c": true,
		"file:///etc/passwd": false, "ftp://a": false, "http:///x": false, "a": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if (netguard.Check(u) == nil) != ok {
			t.Errorf("%s: %v", text, netguard.Check(u))
		}
	}
}

func TestReadAllStopsAtTheLimit(t *testing.T) {
	if got, err := netguard.ReadAll(strings.NewReader("12345"), 5); err != nil || string(got) != "12345" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := netguard.ReadAll(strings.NewReader("123456"), 5)
	if !errors.Is(err, netguard.ErrTooLong) || string(got) != "12345" {
		t.Errorf("%q, %v", got, err)
	}
}
