//go:build !temporal

package registry

import (
	"context"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine"
)

// useTemporal reports that this program was built without Temporal, whose
// libraries would make it 19 MB larger.
func (*Runtime) useTemporal(_ engine.Config, o RuntimeOptions, _ func() time.Time) error {
	if _, err := temporalServer(o); err != nil {
		return err
	}
	return errNoTemporal
}

const errNoTemporal = StoreError("this build of Espalier has no Temporal engine: " +
	"build it with \"go build -tags temporal\"")

// reachTemporal reports that this program was built without Temporal.
func reachTemporal(context.Context, string, *config.Temporal, *Models) (version, limited string, err error) {
	return "", "", errNoTemporal
}
