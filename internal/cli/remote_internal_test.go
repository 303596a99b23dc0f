package cli

import (
	"errors"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/client"
)

// tryServerFirst repeats what fails with an *app.Error, so an accepted request must not fail with one.
func TestAcceptedRequestIsNotRepeatedWithoutServer(t *testing.T) {
	lost := &app.Error{Kind: app.StoreUnavailable, Reason: client.Unreachable, Message: "the server is gone"}
	err := lostServer("5ff07bf3-0000-4000-8000-000000000000", lost)
	if errors.As(err, new(*app.Error)) || err == nil || err.Error() != lost.Message {
		t.Errorf("%v", err)
	}
	other := &app.Error{Kind: app.NotReady}
	if err := lostServer("r", other); err != other || lostServer("r", nil) != nil {
		t.Errorf("%v", err)
	}
}
