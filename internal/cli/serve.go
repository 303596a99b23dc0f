package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
)

// HTTPServer serves a project; see Environment.NewServer.
type HTTPServer interface {
	// Serve serves a listener until the context ends, and then until the requests
	// under way have been answered or grace has passed.
	Serve(ctx context.Context, l net.Listener, grace time.Duration) error
	// SetReady reports that runs are being driven.
	SetReady()
	// URL returns the address under which people reach the server.
	URL(listen net.Addr) string
	// LocalURL returns the address of the server on this machine.
	LocalURL(listen net.Addr) string
	// LoginURL returns an address that signs the owner of the project in once.
	LoginURL(listen net.Addr) string
}

// ServerOptions are what the serve command decides about a server.
type ServerOptions struct {
	App       *app.App
	Auth      *identity.Authenticator
	StateDir  string
	PublicURL *url.URL
	TLS       bool
	Encrypts  bool // the server itself has a certificate
	Version   string
	Log       *slog.Logger
}

// defaultAddr is where the server listens: on this machine alone.
const defaultAddr = "127.0.0.1:7477"

type serveFlags struct {
	addr, public string
	logging      logFlags
	proxied      bool
	cert, key    string
	oidc         string
	labels       []string
}

func (a *invocation) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [DIR] [--addr HOST:PORT] [--public-url URL]",
		Short: "Start the server: web pages, API and live events",
		Long: `Serve a project over HTTP, and drive its runs as "espalier work" does.

The server listens on this machine alone unless --addr says otherwise. It prints
a link that opens its pages and signs you in once; programs send the token in
.espalier/server-token, or the token of a user that "espalier user add" creates.

To serve other machines, create users and give the server a certificate
(--tls-cert, --tls-key), or put it behind a proxy that encrypts connections and
set --trusted-proxy and --public-url.

Interrupt it to stop: running steps finish first. SIGTERM gives them the grace
period (grace_period in espalier.yaml, 10s by default). The server reloads the
configuration, secrets and --oidc when their files change and on SIGHUP; the
port stays open. Users and certificates are read again when their files change.`,
		Example: `  espalier serve
  espalier serve --addr 127.0.0.1:8080
  espalier serve --addr 0.0.0.0:7477 --trusted-proxy \
    --public-url https://flows.example.org`,
		Args:              takes(0, 1, "at most one folder"),
		ValidArgsFunction: completeFolder,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, file := range []*string{&f.cert, &f.key, &f.oidc} { // they are not files of the project in DIR
				if *file != "" {
					*file = a.inDir(*file)
				}
			}
			if len(args) == 1 {
				dir := a.inDir(args[0])
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return usage("Name the folder of a project; \"espalier init DIR\" creates one.",
						"there is no folder %q", args[0])
				}
				a.Dir = dir
			}
			return a.serve(&f)
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&f.addr, "addr", defaultAddr, "`HOST:PORT` to listen on; port 0 picks a free one")
	flags.StringVar(&f.public, "public-url", "",
		"the `URL` under which people reach the server, if it is behind a proxy")
	flags.BoolVar(&f.proxied, "trusted-proxy", false, "a proxy in front of the server encrypts connections")
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate of the server")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the key of the certificate")
	flags.StringVar(&f.oidc, "oidc", "", "JSON `FILE` with an OpenID Connect provider through which people sign in")
	addLabels(flags, &f.labels)
	f.logging.add(cmd)
	return cmd
}

// validate returns the public URL.
func (f *serveFlags) validate() (*url.URL, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, usage("Use both or none.", "--tls-cert and --tls-key belong together")
	}
	if f.public == "" {
		return nil, nil
	}
	public, err := url.Parse(f.public)
	if err != nil || public.Scheme != "http" && public.Scheme != "https" || public.Host == "" || public.RawQuery != "" {
		return nil, usage("Write it as https://HOST or https://HOST/PATH.",
			"--public-url %q is not the address of a server", f.public)
	}
	return public, nil
}

func (f *serveFlags) encrypted() bool { return f.cert != "" || f.proxied }

// serve serves until a signal. The loop opens one application for each version of the configuration; the port stays
// open between two of them. The first configuration has to be valid; a later one that is not is waited for, because the
// server has been in use.
func (a *invocation) serve(f *serveFlags) error {
	public, err := f.validate()
	if err != nil {
		return err
	}
	log, err := a.logger(&f.logging)
	if err != nil {
		return err
	}
	worker, err := a.worker(f.labels)
	if err != nil {
		return err
	}
	var port *keptListener
	defer func() {
		if port != nil {
			port.TCPListener.Close()
		}
	}()
	var more []string
	if f.oidc != "" {
		more = append(more, f.oidc)
	}
	_, release := a.Signals.handle() // also between two configurations
	defer release()
	for first := true; ; first = false {
		a.app(worker, func(o *app.Options) { o.Log = log })
		watch := a.watchConfig(more...)
		reload, err := a.serveOnce(f, public, log, &port, watch, first)
		if !reload && (port == nil || err == nil || !a.waitForConfig(err, watch, a.note)) { // it could be used before
			watch.Stop()
			return err
		}
		watch.Stop()
		a.close()
		a.opened = nil // to read the configuration again
	}
}

// serveOnce serves with the configuration as it is now. It reports whether to start again. It opens the port if port is
// nil, and sets it: the caller closes it.
func (a *invocation) serveOnce(
	f *serveFlags, public *url.URL, log *slog.Logger, port **keptListener, watch *configWatch, first bool,
) (reload bool, err error) {
	state, err := a.app().StateDir(context.Background())
	if err != nil {
		return false, err
	}
	auth, err := a.authenticator(f, state)
	if err != nil {
		return false, err
	}
	if *port == nil {
		if *port, err = a.listen(f, auth); err != nil {
			return false, err
		}
	}
	listener, err := f.wrapTLS((*port).open())
	if err != nil {
		return false, err
	}
	server := a.NewServer(ServerOptions{
		App: a.app(), Auth: auth, StateDir: state, PublicURL: public, TLS: f.encrypted(), Encrypts: f.cert != "",
		Version: readVersion().Version, Log: log,
	})
	return a.runServer(server, listener, state, watch, first, public != nil)
}

// authenticator returns the authentication of a project's server.
func (a *invocation) authenticator(f *serveFlags, state string) (*identity.Authenticator, error) {
	auth, err := identity.NewAuthenticator(state)
	if err != nil {
		return nil, fail(ExitNotReady, "", "%v", err)
	}
	if f.oidc == "" {
		return auth, nil
	}
	settings, err := identity.ReadOIDC(f.oidc)
	if err != nil {
		return nil, fail(ExitNotReady, "docs/users.md describes the file.", "%v", err)
	}
	auth.UseOIDC(settings)
	return auth, nil
}

// keptListener is a port that stays open when a server that listens on it stops: connections wait in the backlog of the
// kernel for the next server.
type keptListener struct{ *net.TCPListener }

// open lets the next server accept connections, by removing the deadline that Close has set.
func (l *keptListener) open() net.Listener {
	_ = l.SetDeadline(time.Time{}) // Accept reports a port that is closed
	return l
}

// Close makes Accept return by a deadline in the past, and keeps the port open.
func (l *keptListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// listen opens the port. A server that other machines can reach needs users and
// encryption, because its tokens open everything that its runs can do.
func (a *invocation) listen(f *serveFlags, auth *identity.Authenticator) (*keptListener, error) {
	if _, _, err := net.SplitHostPort(f.addr); err != nil {
		help := "Use --addr HOST:PORT, such as 127.0.0.1:7475."
		if _, err := strconv.ParseUint(f.addr, 10, 16); err == nil {
			help = fmt.Sprintf("Use --addr HOST:PORT: --addr 127.0.0.1:%s.", f.addr)
		}
		return nil, usage(help, "%q is not an address to listen on", f.addr)
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return nil, fail(ExitNotReady, "Use --addr with another port; port 0 picks a free one.",
			"cannot listen on %s: %v", f.addr, err)
	}
	if err := f.mayListen(l.Addr(), auth); err != nil {
		l.Close()
		return nil, err
	}
	return &keptListener{l.(*net.TCPListener)}, nil
}

// mayListen returns an error if other machines can reach an address, and the server must not let them: without
// encryption, tokens could be read on the way, and without users, only the owner's token exists. The address is that of
// the open listener, since a name in --addr can resolve to any.
func (f *serveFlags) mayListen(addr net.Addr, auth *identity.Authenticator) error {
	at, err := netip.ParseAddrPort(addr.String())
	if err == nil && at.Addr().Unmap().IsLoopback() {
		return nil
	}
	if !f.encrypted() {
		return usage("Use --tls-cert and --tls-key, or --trusted-proxy if a proxy encrypts connections.",
			"%s can be reached from other machines, and connections are not encrypted", f.addr)
	}
	accounts, err := auth.Users().List()
	if err != nil {
		return fail(ExitNotReady, "", "%v", err)
	}
	if len(accounts) == 0 && auth.OIDC() == nil {
		return usage("Create one with \"espalier user add NAME --role admin\".",
			"%s can be reached from other machines, and the project has no users", f.addr)
	}
	return nil
}

// runServer serves and drives runs until a signal. It reports whether to start again with the configuration as it is
// now: after SIGHUP or a change of the watched files, if the configuration is valid. On the way out, the context ends
// serving, parking lets running steps finish, and both goroutines have ended when runServer returns.
func (a *invocation) runServer(
	server HTTPServer, l net.Listener, state string, watch *configWatch, first, public bool,
) (reload bool, err error) {
	signals, release := a.Signals.handle()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	worked, served := make(chan error, 1), make(chan error, 1)
	go func() {
		worked <- a.app().Work(ctx, func(string) { server.SetReady() }, a.skipped)
	}()
	go func() { served <- server.Serve(ctx, l, a.app().GracePeriod()) }()
	a.app().SetPublicURL(server.URL(l.Addr()), public)
	// Commands of the same user find the server by this file; it has to be gone when the server has ended.
	forget, err := identity.WriteServerFile(state, server.LocalURL(l.Addr()))
	if err != nil {
		a.note("Other commands do not find the server: %v", err)
	} else {
		defer forget()
	}
	if first {
		if err := a.announce(server, l.Addr()); err != nil {
			return false, err
		}
	} else {
		a.note("The configuration is reloaded.")
	}
	sig, ended, err := a.waitForStop(signals, watch, worked, served)
	cancel()
	switch ended {
	case worked:
		<-served
		return false, err
	case served:
		return false, fail(ExitNotReady, "", "%v", err)
	}
	if sig = a.parkOrReload(sig, signals); sig == nil {
		return false, <-served
	}
	err = <-served
	if worked := <-worked; err == nil && !errors.Is(worked, context.Canceled) {
		err = worked
	}
	if err != nil || sig == syscall.SIGHUP {
		return err == nil, err
	}
	return false, fail(ExitInterrupted, "", "stopped; the runs continue with the next \"espalier serve\"")
}

// announce prints where the server is.
func (a *invocation) announce(server HTTPServer, at net.Addr) error {
	login := server.LoginURL(at)
	if a.json {
		return a.writeJSON(map[string]any{"address": at.String(), "login_url": login})
	}
	if _, err := fmt.Fprintln(a.stdout, login); err != nil {
		return err
	}
	a.note("Serving on %s. Open the link above to sign in; it works once. Interrupt to stop.", at)
	return nil
}
