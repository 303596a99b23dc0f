package client

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Client sends requests to one server. It has the methods of app.App that commands use, with the same results and
// errors. It is safe for concurrent use.
type Client struct {
	base  string // without a final slash
	token string
	http  *http.Client
}

// connectTimeout is how long a server may take to begin its response. Responses as a whole have no timeout: streams
// last.
const connectTimeout = 30 * time.Second

// New returns a client of the server at an address, which may have a path. Without encryption, it accepts only this
// machine, because the token could be read on the way.
func New(address, token string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a server: write https://HOST", address)
	}
	if host := u.Hostname(); u.Scheme == "http" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return nil, fmt.Errorf("%s is not encrypted: tokens are sent to other machines over https only", address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = connectTimeout
	return &Client{
		base: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), token: token,
		http: &http.Client{
			Transport: transport,
			// A redirect would take the token to another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// URL returns the address of the server.
func (c *Client) URL() string { return c.base }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// probeTimeout is how long the search for a local server may take.
const probeTimeout = 2 * time.Second

// Local returns a client of the running server of a project on this machine; nil if there is none. It sends the token
// only to a server that proves to have it: the file that names the server may be left over from one that was killed,
// and another program may listen on its port now.
func Local(stateDir string) *Client {
	f, token, ok := identity.ReadServerFile(stateDir)
	if !ok {
		return nil
	}
	c, err := New(f.URL, token)
	if err != nil {
		return nil
	}
	raw := make([]byte, 16)
	rand.Read(raw) // never fails
	challenge := hex.EncodeToString(raw)
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+identity.ProofPath+"?challenge="+challenge, nil)
	if err != nil {
		return nil
	}
	w, err := c.http.Do(r)
	if err != nil {
		return nil
	}
	defer w.Body.Close()
	var answer struct {
		Proof string `json:"proof"`
	}
	if w.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(w.Body, 4096)).Decode(&answer) != nil ||
		!hmac.Equal([]byte(answer.Proof), []byte(identity.Proof(token, challenge))) {
		return nil
	}
	return c
}

// Reasons of errors that only a client has.
const (
	Unreachable app.Reason = "server-unreachable"
	SignIn      app.Reason = "sign-in"
)

// request sends a request and returns its response, which has succeeded. The caller closes the body. Errors of the
// server are *app.Error values, as if app had returned them.
func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var content io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	w, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.unreachable(err)
	}
	if w.StatusCode >= 300 {
		defer w.Body.Close()
		return nil, c.problem(w)
	}
	return w, nil
}

// NotSent reports whether a request failed because no connection to the server could be made, so that it had no effect.
func NotSent(err error) bool {
	var failed *app.Error
	var network *net.OpError
	return errors.As(err, &failed) && failed.Reason == Unreachable && errors.As(err, &network) && network.Op == "dial"
}

func (c *Client) unreachable(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return &app.Error{
		Kind: app.StoreUnavailable, Reason: Unreachable,
		Message: fmt.Sprintf("the server %s cannot be reached: %v", c.base, err),
		Advice:  "Check ESPALIER_SERVER and that the server is running.", Err: err,
	}
}

// maxResponse is how large a response may be, in bytes, that is read at once.
const maxResponse = 256 << 20

// get asks for a resource and decodes it.
func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, nil)
}

// call sends a request and decodes the response.
func call[T any](ctx context.Context, c *Client, method, path string, in any) (out T, err error) {
	raw, err := c.read(ctx, method, path, in)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("%s has sent an unexpected response: %w", c.base, err)
	}
	return out, nil
}

func (c *Client) read(ctx context.Context, method, path string, in any) ([]byte, error) {
	w, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(w.Body, maxResponse))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return raw, nil
}

// Me returns who the server takes the client for.
func (c *Client) Me(ctx context.Context) (identity.Identity, error) {
	return get[identity.Identity](ctx, c, "/me")
}

func runPath(id journal.RunID, below string) string {
	return "/runs/" + url.PathEscape(string(id)) + below
}

// Find returns the run that a person means.
func (c *Client) Find(ctx context.Context, name string) (*app.Run, error) {
	if name == "" {
		return nil, &app.Error{
			Kind: app.InvalidRequest, Reason: app.NoRunName,
			Message: "name a run by its ID, or the beginning of it",
		}
	}
	return c.Get(ctx, journal.RunID(name))
}

// Get returns a run.
func (c *Client) Get(ctx context.Context, id journal.RunID) (*app.Run, error) {
	s, err := get[api.Status](ctx, c, runPath(id, ""))
	if err != nil {
		return nil, err
	}
	return s.Run.App(), nil
}

// RootRun returns the run that a child run belongs to; any other run as it is.
func (c *Client) RootRun(ctx context.Context, r *app.Run) (*app.Run, error) {
	if r.Root == "" {
		return r, nil
	}
	return c.Get(ctx, r.Root)
}

// Status returns the state of a run.
func (c *Client) Status(ctx context.Context, id journal.RunID) (*app.Status, error) {
	s, err := get[api.Status](ctx, c, runPath(id, ""))
	if err != nil {
		return nil, err
	}
	return s.App(), nil
}

// pageSize is how many runs are asked for at once.
const pageSize = 500

// Runs lists the runs of the project, the newest first.
func (c *Client) Runs(ctx context.Context, f app.Filter) ([]app.Run, error) {
	return c.RunsIn(ctx, "", f)
}

// RunsIn lists the runs that s and f select, the newest first, page by page. The server has no filter by the prefix of
// an id, nor one by a state and unfinished runs together, so these are applied here.
func (c *Client) RunsIn(ctx context.Context, s app.StateFilter, f app.Filter) ([]app.Run, error) {
	query := url.Values{}
	if s != "" {
		query.Set("state", string(s))
	} else if f.Unfinished {
		query.Set("state", string(app.Unfinished))
	}
	if f.Name != "" {
		query.Set("workflow", f.Name)
	}
	if f.Children {
		query.Set("children", "true")
	}
	list := []app.Run{}
	for {
		limit := pageSize
		if f.Limit > 0 {
			limit = min(limit, f.Limit-len(list))
		}
		query.Set("limit", strconv.Itoa(limit))
		page, err := get[struct {
			Runs []api.Run `json:"runs"`
			Next string    `json:"next"`
		}](ctx, c, "/runs?"+query.Encode())
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			run := page.Runs[i].App()
			if f.Unfinished && run.Status == journal.Finished ||
				f.Prefix != "" && !strings.HasPrefix(string(run.ID), f.Prefix) {
				continue
			}
			list = append(list, *run)
		}
		if page.Next == "" || f.Limit > 0 && len(list) >= f.Limit {
			return list, nil
		}
		query.Set("cursor", page.Next)
	}
}

// Ending returns how a run ended.
func (c *Client) Ending(ctx context.Context, r *app.Run) (*app.Ending, error) {
	return get[*app.Ending](ctx, c, runPath(r.ID, "/output"))
}

// Exhausted returns the budget that a run waits for.
func (c *Client) Exhausted(ctx context.Context, id journal.RunID) (app.Exhausted, error) {
	return get[app.Exhausted](ctx, c, runPath(id, "/exhausted"))
}

// Executions returns the executions of a step in a run, in order.
func (c *Client) Executions(ctx context.Context, id journal.RunID, name string) ([]*app.Execution, error) {
	list, err := get[[]api.Execution](ctx, c, runPath(id, "/steps/"+url.PathEscape(name)))
	return xslices.Map(list, func(e api.Execution) *app.Execution { return e.App() }), err
}

// AuditLog returns the audit log of a run, one JSON object per line.
func (c *Client) AuditLog(ctx context.Context, r *app.Run) (io.ReadCloser, error) {
	w, err := c.request(ctx, http.MethodGet, runPath(r.ID, "/audit"), nil)
	if err != nil {
		return nil, err
	}
	return w.Body, nil
}

// SetAside returns the audit logs and transcripts of a run, on the server, that did not match the journal.
func (c *Client) SetAside(ctx context.Context, r *app.Run) ([]string, error) {
	reports, err := c.VerifyAudit(ctx, r)
	for i := range reports {
		if reports[i].Run == r.ID {
			return reports[i].SetAside(), err
		}
	}
	return nil, err
}

// VerifyAudit verifies the records of a run, on the server.
func (c *Client) VerifyAudit(ctx context.Context, r *app.Run) ([]app.AuditReport, error) {
	out, err := get[struct {
		Logs []app.AuditReport `json:"logs"`
	}](ctx, c, runPath(r.ID, "/audit/verify"))
	return out.Logs, err
}
