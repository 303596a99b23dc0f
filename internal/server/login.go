package server

import (
	"net/http"
)

// login signs the owner in with a one-time code, and removes the code from the
// address bar.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" {
		s.mux.ServeHTTP(w, withPath(r, "/sign-in"))
		return
	}
	id, err := s.auth.RedeemLogin(code)
	if err != nil {
		if wait := s.auth.failures.add(remoteHost(r)); wait > 0 {
			writeProblem(w, r, Problem{Status: http.StatusTooManyRequests, Detail: "Too many attempts to sign in."})
			return
		}
		writeProblem(w, r, Problem{
			Status: http.StatusForbidden, Code: "login-code", Detail: "This link has been used, or is too old.",
			Help: "Run \"espalier login\" for a new one.",
		})
		return
	}
	if err := s.auth.startSession(w, id); err != nil {
		writeProblem(w, r, Problem{Status: http.StatusInternalServerError})
		return
	}
	http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
}

func withPath(r *http.Request, path string) *http.Request {
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = path, ""
	return r
}

// loginWithToken signs a user in with a token from a form.
func (s *Server) loginWithToken(w http.ResponseWriter, r *http.Request) {
	id, err := s.auth.Token(r.PostFormValue("token"))
	if err != nil {
		s.auth.refuse(w, r)
		return
	}
	if err := s.auth.startSession(w, id); err != nil {
		writeProblem(w, r, Problem{Status: http.StatusInternalServerError})
		return
	}
	http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.auth.endSession(w)
	http.Redirect(w, r, s.base+"/", http.StatusSeeOther)
}
