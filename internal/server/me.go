package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/espalier-run/espalier/internal/identity"
)

func (s *Server) registerIdentity() {
	handleJSON(s, http.MethodGet, "/me", identity.Any, "Show who you are and what you may do", "Identity",
		func(ctx context.Context, _ *struct{}) (*identity.Identity, error) {
			id, _ := IdentityOf(ctx)
			return &id, nil
		})
}

// prove shows to a program that can read the project's token that this is the server of the project, before the program
// sends the token: the proof is computed from a challenge of the program and the token. Without it, another local
// program that listens on the recorded port would receive the token.
func (s *Server) prove(w http.ResponseWriter, r *http.Request) {
	raw, err := json.Marshal(map[string]string{"proof": s.o.Auth.Proof(r.URL.Query().Get("challenge"))})
	if err != nil {
		panic(err) // a string
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(raw)
}
