package step_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// repeat is a kind of step that repeats a word.
type repeat struct{ stepkind.Base[repeatSettings] }

func (repeat) Name() string { return "repeat" }

// repeater runs the tasks of the kind.
type repeater struct {
	step.Base[repeat, repeatSettings]
}

var (
	_ stepkind.Kind = repeat{}
	_ step.Settings = repeatSettings{}
)

type repeatSettings struct {
	Word  string `json:"word"`
	Times int    `json:"times"`
}

func (s repeatSettings) Run(_ context.Context, job *step.Job) (step.Result, error) {
	if s.Times < 1 {
		return step.Result{}, step.Errorf(ir.ClassInput, "%s repeats nothing", job.Step.ID)
	}
	value, err := json.Marshal(strings.Repeat(s.Word, s.Times))
	return step.Result{Value: value}, err
}

// A runner decodes the settings of a task and does one attempt at its work.
func Example() {
	var task ir.Task
	task.Settings.Put("word", "ha", task.Settings.At(""))
	task.Settings.Put("times", 3, task.Settings.At(""))
	job := &step.Job{Step: &ir.Step{ID: "laugh"}, Task: &task}

	result, err := repeater{}.Run(context.Background(), job)
	fmt.Println(string(result.Value), err)

	task.Settings.Put("times", 0, task.Settings.At(""))
	_, err = repeater{}.Run(context.Background(), job)
	fmt.Println(err)
	fmt.Println(repeater{}.Recovery(&task, nil))
	// Output:
	// "hahaha" <nil>
	// laugh repeats nothing
	// rerun
}
