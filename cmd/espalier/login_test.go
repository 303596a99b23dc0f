//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/npmtest"
)

// protectedServer returns the address of an MCP server whose only tool returns the token of the request, that of its
// authorization server, npm oidc-provider, and the valid tokens that the server has received.
func protectedServer(t *testing.T) (address, issuer string, received *sync.Map) {
	received = &sync.Map{}
	issuer = npmtest.Serve(t, filepath.Join("..", "..", "internal", "tool", "mcp", "testdata", "oauth.mjs"),
		"oidc-provider@9.13.3")
	mux := http.NewServeMux()
	remote := httptest.NewServer(mux)
	t.Cleanup(remote.Close)
	address = remote.URL + "/mcp"
	mux.HandleFunc("/.well-known/oauth-protected-resource", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"]}`, address, issuer)
	})
	inner := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "token", Description: "Returns the token."},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]string, error) {
				return nil, map[string]string{"token": token}, nil
			})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		resp, err := http.Get(issuer + "/valid?token=" + url.QueryEscape(token))
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if valid, _ := io.ReadAll(resp.Body); string(valid) != "true" {
			w.Header().Set("WWW-Authenticate",
				`Bearer resource_metadata="`+remote.URL+`/.well-known/oauth-protected-resource"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		received.Store(token, true)
		inner.ServeHTTP(w, r)
	})
	return address, issuer, received
}

const asksForTheToken = "---\nname: ask\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Asks.\n---\n" +
	"```step\nid: ask\ntype: tool\ntool: crm.token\ndescription: Ask\nwrites: [output.answer]\n```\n"

// A person signs in to an MCP server of the project with a browser. Then runs use its tools, and their records do not
// contain the token.
func TestRunsUseAnMCPServerAfterLogin(t *testing.T) {
	address, issuer, _ := protectedServer(t)
	p := newAWF(t, awfChain)
	p.writeFile("espalier.yaml",
		"mcp: {crm: {url: \""+address+"\", oauth: {client_id: public, issuer: \""+issuer+"\"}}}\n", 0o600)
	p.writeFile("ask.md", asksForTheToken, 0o600)
	p.wantExit(0, "trust", "--yes")
	if output := p.wantExit(6, "tools"); !strings.Contains(output, "you are not signed in") ||
		!strings.Contains(output, "espalier login --mcp crm") {
		t.Error(output)
	}
	if output := p.wantExit(6, "login", "--mcp", "cmr"); !strings.Contains(output, `Did you mean "crm"`) {
		t.Error(output)
	}

	cmd := p.command("login", "--mcp", "crm")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "http://") {
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	resp, err := browser.Get(strings.TrimSpace(lines.Text()))
	for _, form := range []url.Values{
		{"prompt": {"login"}, "login": {"ana"}, "password": {"any"}}, {"prompt": {"consent"}},
	} {
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		action := regexp.MustCompile(`action="([^"]+)"`).FindSubmatch(page)
		if action == nil {
			t.Fatalf("no form in %s", page)
		}
		to, parseErr := resp.Request.URL.Parse(string(action[1]))
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		resp, err = browser.PostForm(to.String(), form)
	}
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	output := ""
	for lines.Scan() {
		output += lines.Text() + "\n"
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(output, "You are signed in to crm.") {
		t.Fatalf("%v: %s", err, output)
	}

	if output := p.wantExit(0, "tools"); !strings.Contains(output, "crm.token") {
		t.Error(output)
	}
	const run = "00000000-0000-4000-8000-00000000000c"
	p.wantExit(0, "run", "ask", "--run-id", run)
	if output := p.wantExit(0, "transcript", run); !strings.Contains(output, "[secret mcp.crm]") {
		t.Errorf("the token is not hidden: %s", output)
	}
	p.wantExit(0, "logout", "--mcp", "crm")
	p.wantExit(2, "logout", "--mcp", "crm")
	p.wantExit(6, "tools")
}

// The token that a client of the configuration gets with its secret is in no file of the project, and is not printed.
func TestTokenOfAClientIsMasked(t *testing.T) {
	address, issuer, received := protectedServer(t)
	p := newAWF(t, awfChain)
	p.writeFile("espalier.yaml", "mcp: {crm: {url: \""+address+"\", oauth: {client_id: espalier, client_secret: "+
		"secret://crm, issuer: \""+issuer+"\"}}}\nsecrets: {crm: {env: CRM_SECRET}}\n", 0o600)
	p.writeFile("ask.md", strings.Replace(asksForTheToken, "output.answer", "state.answer", 1)+
		"```step\nid: check\ntype: gate\ngate_method: human_review\ndescription: Check\nreads: [state.answer]\n```\n"+
		"```step\nid: copy\ntype: transform\ndescription: Copy\nreads: [state.answer]\nwrites: [output.answer]\n"+
		"code: {language: sh, script: cat}\n```\n", 0o600)
	const run = "00000000-0000-4000-8000-00000000000c"
	espalier := func(want int, args ...string) string {
		t.Helper()
		cmd := p.command(args...)
		cmd.Env = append(cmd.Env, "CRM_SECRET=hidden")
		out, _ := cmd.CombinedOutput() // the exit code is checked
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Fatalf("espalier %s: exit %d: %s", strings.Join(args, " "), got, out)
		}
		return string(out)
	}
	output := espalier(4, "run", "ask.md", "--allow-shell", "--run-id", run)
	// Another process continues the run, which has the token of the first one.
	output += espalier(0, "approve", run) + espalier(0, "transcript", run) + espalier(0, "audit", run) +
		espalier(0, "output", run)
	tokens := 0
	for token := range received.Range {
		tokens++
		if strings.Contains(output, token.(string)) {
			t.Errorf("the token is printed: %s", output)
		}
		err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if strings.Contains(string(raw), token.(string)) {
				t.Errorf("the token is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if tokens == 0 || !strings.Contains(output, "[secret mcp.crm]") {
		t.Errorf("%d tokens: %s", tokens, output)
	}
}
