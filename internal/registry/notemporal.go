//go:build !temporal

package registry

import (
	"time"

	"github.com/espalier-run/espalier/internal/engine"
)

// useTemporal reports that this program was built without Temporal, whose
// libraries would make it 19 MB larger.
func (*Runtime) useTemporal(_ engine.Config, o RuntimeOptions, _ func() time.Time) error {
	if _, err := temporalServer(o); err != nil {
		return err
	}
	return StoreError("this build of Espalier has no Temporal engine: build it with \"go build -tags temporal\"")
}
