package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/mcpserver"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/server"
	"github.com/espalier-run/espalier/internal/web"
)

func main() {
	process.Confine(os.Args)
	os.Exit(run())
}

func run() int {
	// Commands are short: memory that is free in a moment anyway is worth
	// less than the time to collect it.
	debug.SetGCPercent(400)
	// Discard log output of libraries.
	log.SetOutput(io.Discard)
	received, signals := make(chan os.Signal, 8), cli.NewSignals()
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup means it
		signal.Notify(received, syscall.SIGHUP)
	}
	go func() {
		for s := range received {
			if !signals.Deliver(s) {
				os.Exit(cli.ExitInterrupted)
			}
		}
	}()
	// A closed pipe must not end a run: with a handler for SIGPIPE, writing returns
	// an error instead of ending the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "espalier: the working folder is gone:", err)
		return cli.ExitNotReady
	}
	return cli.Main(cli.Environment{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Dir: dir, Signals: signals,
		NewServer: newServer, ServeMCP: serveMCP,
	}, os.Args[1:])
}

func newServer(o cli.ServerOptions) cli.HTTPServer {
	return server.New(server.Options{
		App: o.App, Auth: o.Auth, StateDir: o.StateDir, PublicURL: o.PublicURL, TLS: o.TLS, Encrypts: o.Encrypts,
		Version: o.Version, Log: o.Log,
		Pages: func(s *server.Server) http.Handler {
			return web.New(web.Options{
				App: o.App, Identity: server.IdentityOf, Users: o.Auth.Users(), SSO: o.Auth.OIDC() != nil,
				Base: s.Base(), Version: o.Version, Stopping: s.Stopping(), Log: o.Log,
			})
		},
		MCP: func(caller func(*http.Request) (journal.Actor, string)) http.Handler {
			return mcpserver.Handler(func(r *http.Request) mcpserver.Options {
				by, token := caller(r)
				return mcpserver.Options{App: o.App, Version: o.Version, By: by, Token: token}
			})
		},
	})
}

func serveMCP(ctx context.Context, a *app.App, by journal.Actor, version string, in io.Reader, out io.Writer) error {
	return mcpserver.ServeStdio(ctx, mcpserver.Options{App: a, Version: version, By: by}, in, out)
}
