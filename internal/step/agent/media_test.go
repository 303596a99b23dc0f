package agent_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

// What a tool shows is kept as a file of the run, reaches the model, and does so
// again when the conversation is resumed.
func TestMediaReachesTheModel(t *testing.T) {
	picture := tool.NewMedia("image/png; charset=binary", []byte("\x89PNG\r\n\x1a\n..."))
	dir := t.TempDir()
	log, world := &steptest.Log{}, &steptest.World{Replies: searches(1)}
	play := steptest.Play{Settings: handy, With: func(j *step.Job) {
		j.Dir = dir
		j.Tools = box(func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: step.JSON(picture.Placeholder()), Media: []tool.Media{picture}}, nil
		})
	}}
	if _, err := play.Done(t, agent.Runner{}, log, world); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(picture.File()))); err != nil ||
		!bytes.Equal(kept, picture.Data) {
		t.Errorf("the file holds %q, %v", kept, err)
	}
	resumed := &steptest.World{Replies: searches(1)}
	if _, err := play.Done(t, agent.Runner{}, steptest.Resumed(log.Notes[:len(log.Notes)-1]), resumed); err != nil {
		t.Fatal(err)
	}
	for _, requests := range [][]provider.Request{world.Requests[1:], resumed.Requests} {
		last := requests[0].Messages[len(requests[0].Messages)-1].Blocks[0]
		if len(last.Media) != 1 || last.Media[0].Type != "image/png" || !bytes.Equal(last.Media[0].Data, picture.Data) {
			t.Errorf("the model gets %+v", last.Media)
		}
		if !strings.Contains(string(last.Content), "[image image/png, 11 bytes, kept as media/") {
			t.Errorf("the placeholder is %s", last.Content)
		}
	}
}
