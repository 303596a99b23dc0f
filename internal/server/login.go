package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// login signs the owner in with a one-time code, and removes the code from the address bar by a redirect. Without a
// code, it shows the form.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	code := r.URL.Query().Get("code")
	if code == "" && s.pages != nil {
		s.pages.ServeHTTP(w, r)
		return nil
	}
	if r.Method == http.MethodHead { // HEAD must not consume the code
		return nil
	}
	id, err := s.auth.RedeemLogin(code)
	if err != nil {
		if wait := s.auth.failures.add(remoteHost(r)); wait > 0 {
			return &Problem{Status: http.StatusTooManyRequests, Detail: "Too many attempts to sign in."}
		}
		return &Problem{
			Status: http.StatusForbidden, Code: "login-code",
			Detail: "This link is incomplete, has been used, or is too old.",
			Help:   "Restart \"espalier serve\" for a new link.",
		}
	}
	if err := s.auth.startSession(w, id); err != nil {
		return &Problem{Status: http.StatusInternalServerError}
	}
	http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
	return nil
}

// loginWithToken signs a user in with a token from a form. A browser with a wrong token gets the form again, until it
// has failed too often.
func (s *Server) loginWithToken(w http.ResponseWriter, r *http.Request) error {
	id, err := s.auth.Token(r.Context(), r.PostFormValue("token"))
	next := localPath(r.PostFormValue("next"))
	if err != nil {
		if s.pages != nil && strings.Contains(r.Header.Get("Accept"), "text/html") &&
			s.auth.failures.add(remoteHost(r)) == 0 {
			query := url.Values{"wrong": {"1"}, "next": {next}}
			http.Redirect(w, r, s.base+"/login?"+query.Encode(), http.StatusSeeOther)
			return nil
		}
		return s.auth.refusal(w, r)
	}
	if err := s.auth.startSession(w, id); err != nil {
		return &Problem{Status: http.StatusInternalServerError}
	}
	http.Redirect(w, r, s.base+next, http.StatusSeeOther)
	return nil
}

// forPeople refuses changes that a program makes through pages, because their forms act for a person. A program with an
// approver role may decide on pages.
func forPeople(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && automated(r.Context()) {
			writeProblem(w, r, Problem{
				Status: http.StatusForbidden, Code: "forbidden", Detail: "A program may not act for a person on pages.",
				Help: "Use the API, which /api/v1/openapi.json describes.",
			})
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// localPath returns the path and query of an address on this server; "/" for any other address, so that a link to sign
// in cannot lead to another site. Browsers read "//host" and backslashes as the start of a host.
func localPath(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") ||
		strings.Contains(address, "\\") {
		return "/"
	}
	return u.RequestURI()
}

// index passes requests to the pages, if there are any. Otherwise it lists the entry points for a person in a browser,
// and answers requests for routes of the API that do not exist. The pattern "/" gets also requests with a wrong method,
// so index tells 405 from 404 itself.
func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	if s.pages != nil && !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/hooks/") {
		s.pages.ServeHTTP(w, r)
		return nil
	}
	if methods := s.methods(r); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return &Problem{
			Status: http.StatusMethodNotAllowed, Code: "method-not-allowed",
			Detail: "This route does not take " + r.Method + ".", Help: "Use " + strings.Join(methods, " or ") + ".",
		}
	}
	if r.URL.Path != "/" {
		return &Problem{
			Status: http.StatusNotFound, Code: "no-route", Detail: "There is no such route.",
			Help: s.base + "/api/v1/openapi.json describes the routes.",
		}
	}
	who := "You are not signed in. Open the link that \"espalier serve\" printed, or send a token."
	if id, ok := IdentityOf(r.Context()); ok {
		who = "You are signed in as " + id.Name + "."
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Espalier\n\n%s\n\n"+
		"%[2]s/api/v1/openapi.json describes the API, %[2]s/api/v1/inbox lists what waits for you.\n", who, s.base)
	return nil
}

// methods returns the methods with which there is a route at the path of a request, other than the pattern "/".
func (s *Server) methods(r *http.Request) []string {
	var out []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != "/" {
			out = append(out, method)
		}
	}
	return out
}

// logout ends the session at the server, so that copies of the cookie are of no use, and then removes the cookie. A
// cross-site form cannot sign a person out: withSameOrigin refuses it.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	if cookie, err := r.Cookie(s.auth.cookie); err == nil {
		if err := s.auth.EndSession(cookie.Value); err != nil {
			logEntryOf(r.Context()).err = err
			return &Problem{Status: http.StatusInternalServerError, Detail: "The session cannot be ended."}
		}
	}
	s.auth.endSession(w)
	http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
	return nil
}
