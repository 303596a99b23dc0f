package web

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/report"
)

// systemPage shows what doctor, tools and users show on the command line, and how large the store is.
type systemPage struct {
	shell
	Diagnosis *app.Diagnosis
	NoModel   bool // nothing but a model is missing
	Users     []identity.Account
	ShowUsers bool
	Root      string
	Platform  string
	Notebooks []app.Notebook
	Tooling   *app.Tooling
	Servers   []app.ServerTools // what the MCP servers answer, if they were asked
	// Reports that this is the response to the form that asks the MCP servers. Asking starts their programs, so a GET
	// request does not do it.
	Asked     bool
	Keeping   *app.Housekeeping // nil if there are no runs yet
	Size      string
	Retention string
}

// system shows the state of the installation. Accounts are listed for those who can manage the server.
func (h *Handler) system(r *request) error {
	page := systemPage{shell: h.shell(r, "system", "System"), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	var err error
	if page.Diagnosis, err = h.o.App.Diagnose(r.Context(), false); err != nil {
		return err
	}
	page.NoModel = noModel(page.Diagnosis)
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
	if page.Tooling, err = h.o.App.Tooling(r.Context()); err != nil {
		return err
	}
	if page.Asked = r.Method == http.MethodPost; page.Asked {
		if page.Servers, err = h.o.App.ListServers(r.Context()); err != nil {
			return err
		}
	}
	page.Keeping, err = h.o.App.Housekeeping(r.Context())
	switch {
	case noRuns(err):
	case err != nil:
		return err
	default:
		page.Size, page.Retention = byteSize(page.Keeping.Bytes), retention(page.Keeping)
	}
	return h.render(r, http.StatusOK, "system.html", page)
}

// noModel reports whether the only thing that is missing is a default model. The page then explains how to choose one,
// instead of listing components.
func noModel(d *app.Diagnosis) bool {
	missing := slices.DeleteFunc(slices.Clone(d.Components), func(f app.Component) bool {
		return f.State == app.ComponentOK || f.State == app.ComponentUnset
	})
	return len(missing) == 1 && missing[0].What == "model" && missing[0].State == app.ComponentMissing
}

// byteSize formats a number of bytes in decimal units: 1 kB is 1,000 bytes.
func byteSize(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	size, unit := float64(n), 0
	for size >= 1000 && unit < len(units)-1 {
		size, unit = size/1000, unit+1
	}
	if unit == 0 {
		return report.Number(n) + " bytes"
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[unit]
}

// retention says when finished runs are removed.
func retention(k *app.Housekeeping) string {
	if k.OlderThan == 0 {
		return "Finished runs are kept."
	}
	text := fmt.Sprintf("Finished runs are removed after %d days", int(k.OlderThan.Hours()/24))
	if k.OlderThan < 48*time.Hour {
		text = "Finished runs are removed after " + k.OlderThan.String()
	}
	if k.Keep > 0 {
		text += fmt.Sprintf("; the newest %s stay", report.Number(k.Keep))
	}
	return text + "."
}
