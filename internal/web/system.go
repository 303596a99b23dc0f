package web

import (
	"net/http"
	"runtime"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
)

type systemPage struct {
	shell
	Diagnosis *app.Diagnosis
	Users     []identity.Account
	ShowUsers bool
	Root      string
	Platform  string
	Notebooks []app.Notebook
}

func (h *Handler) system(r *request) error {
	page := systemPage{shell: h.shell(r, "system", "System"), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	var err error
	if page.Diagnosis, err = h.o.App.Diagnose(r.Context(), false); err != nil {
		return err
	}
	if page.Root, err = h.o.App.Root(); err != nil {
		return err
	}
	if page.ShowUsers = page.May[identity.Manage]; page.ShowUsers && h.o.Users != nil {
		if page.Users, err = h.o.Users.List(); err != nil {
			return err
		}
	}
	if page.Notebooks, err = h.o.App.Notebooks(); err != nil {
		return err
	}
	return h.render(r, http.StatusOK, "system.html", page)
}
