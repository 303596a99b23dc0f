package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a release; "make release" sets it with -ldflags. Other builds have the version that the Go
// toolchain derives from the repository.
var release string

type versionReport struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from files that are not in the commit
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *invocation) versionCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print the version of Espalier",
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	})
}

func (a *invocation) printVersion() error {
	v := readVersion()
	if a.json {
		return a.writeJSON(v)
	}
	built := ""
	if v.Commit != "" {
		built = fmt.Sprintf(" (%.12s", v.Commit)
		if v.Date != "" {
			built += ", " + v.Date
		}
		if v.Modified {
			built += ", modified"
		}
		built += ")"
	}
	_, err := fmt.Fprintf(a.stdout, "espalier %s%s %s %s\n", v.Version, built, v.Go, v.Platform)
	return err
}

// readVersion returns the version of this build. The commit is known only if the program was built in a repository.
func readVersion() versionReport {
	v := versionReport{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(release, info.Main.Version)
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
