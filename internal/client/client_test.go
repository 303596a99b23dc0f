package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/journal"
)

// A message may be sent again in another way only if the server has certainly not received it.
func TestNotSentIsCertain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // the message arrived, and the connection breaks
	}))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func() error {
		_, err := c.Send(t.Context(), "r", journal.Actor{}, app.Pause{})
		return err
	}
	if err := send(); err == nil || client.NotSent(err) {
		t.Errorf("a message that may have arrived: %v", err)
	}
	server.Close()
	if err := send(); !client.NotSent(err) {
		t.Errorf("a message without a connection: %v", err)
	}
}
