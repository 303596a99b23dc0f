package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var linkInPage = regexp.MustCompile(`(href|src|action|data-[a-z-]*(?:url|src|events))="([^"#]*)`)

// Behind a proxy that serves Espalier below a path, whether the proxy removes the path or not, a person signs in and
// reaches every page: all links, redirects, cookies and files stay below the path.
func TestServerWorksBelowAPathOfAProxy(t *testing.T) {
	for name, strips := range map[string]bool{"the proxy removes the path": true, "the proxy keeps the path": false} {
		t.Run(name, func(t *testing.T) {
			const base = "/tools/flows"
			var target *url.URL
			forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host
				if strips {
					r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, base)
				}
			}}
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, base) {
					http.Error(w, "another service of this host", http.StatusTeapot)
					return
				}
				forward.ServeHTTP(w, r)
			}))
			defer proxy.Close()

			p := &awfProject{t: t, dir: t.TempDir()}
			writeApproved(t, filepath.Join(p.dir, "tight.md"),
				strings.Replace(tightFlow, "max_steps: 1", "max_steps: 5", 1))
			s := startServer(p, "--public-url", proxy.URL+base)
			var err error
			if target, err = url.Parse(s.url); err != nil {
				t.Fatal(err)
			}
			run := s.call(http.MethodPost, "/api/v1/runs", `{"workflow": "tight", "simulate": true}`, 201)["run_id"].(string)
			s.waitForState(run, "finished")

			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			person := &http.Client{Jar: jar}
			signIn, err := person.PostForm(proxy.URL+base+"/login", url.Values{"token": {s.token}})
			if err != nil {
				t.Fatal(err)
			}
			signIn.Body.Close()
			if signIn.StatusCode != 200 {
				t.Fatalf("signing in: %s at %s", signIn.Status, signIn.Request.URL)
			}
			todo, seen := []string{base + "/", base + "/runs/" + run}, map[string]bool{}
			for len(todo) > 0 && len(seen) < 150 {
				path := todo[0]
				todo = todo[1:]
				if seen[path] || strings.Contains(path, "events") || strings.HasSuffix(path, "/logout") {
					continue
				}
				seen[path] = true
				w, err := person.Get(proxy.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(w.Body)
				w.Body.Close()
				if err != nil || w.StatusCode != 200 {
					t.Errorf("%s: %s %v", path, w.Status, err)
				}
				if !strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
					continue
				}
				for _, link := range linkInPage.FindAllSubmatch(body, -1) {
					to, err := w.Request.URL.Parse(strings.ReplaceAll(string(link[2]), "&amp;", "&"))
					if err != nil {
						t.Errorf("%s has the link %s", path, link[2])
						continue
					}
					if to.Host != w.Request.URL.Host {
						continue
					}
					if !strings.HasPrefix(to.Path, base+"/") {
						t.Errorf("%s leads out of the path: %s", path, link[2])
						continue
					}
					if string(link[1]) != "action" { // forms are not for GET
						todo = append(todo, to.RequestURI())
					}
				}
			}
			if len(seen) < 10 {
				t.Errorf("only %d pages and files were reached: %v", len(seen), seen)
			}
			outside, err := url.Parse(proxy.URL + "/")
			if err != nil {
				t.Fatal(err)
			}
			if cookies := jar.Cookies(outside); len(cookies) > 0 {
				t.Errorf("other services of the host get %v", cookies)
			}
		})
	}
}
