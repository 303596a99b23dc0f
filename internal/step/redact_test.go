package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
)

const hush = "hush-hush-hush"

func hushed() *secret.Registry {
	return secret.New(secret.Source{Name: "key", Find: func(context.Context) (string, error) { return hush, nil }})
}

// within is a kind of work that is a function.
type within struct {
	step.Runner
	do func(ctx context.Context, job *step.Job) (step.Result, error)
}

func (w within) Run(ctx context.Context, job *step.Job) (step.Result, error) { return w.do(ctx, job) }

// noted is a log that remembers.
type noted struct {
	step.Log
	all []step.Note
}

func (n *noted) Note(_ context.Context, notes ...step.Note) error {
	n.all = append(n.all, notes...)
	return nil
}

func (n *noted) texts() []string {
	var out []string
	for _, one := range n.all {
		out = append(out, one.Kind+" "+string(step.JSON(one.Data)))
	}
	return out
}

func TestRedactingRunnerMasksSecrets(t *testing.T) {
	log := &noted{}
	job := &step.Job{
		Host: step.Host{Log: log}, Workflow: &ir.Program{Name: "w"}, Task: &ir.Task{Kind: "k"},
		Step:     &ir.Step{ID: "s", Description: "say [secret key]", Action: ir.Task{Kind: "k"}},
		Reads:    []step.Read{{Path: "input.token", Value: json.RawMessage(`"[secret key]"`)}},
		Branches: []step.Branch{{Error: "[secret key]!", Value: json.RawMessage(`["[secret key]"]`)}},
		History:  []journal.TaskNoted{{Kind: "x", Data: json.RawMessage(`"[secret key]"`)}},
	}
	hiding := step.RedactingRunner{Secrets: hushed(), InWorkflow: true, Runner: within{do: func(
		ctx context.Context, job *step.Job,
	) (step.Result, error) {
		for what, text := range map[string]string{
			"read": string(job.Reads[0].Value), "branch": string(job.Branches[0].Value),
			"error of a branch": job.Branches[0].Error, "history": string(job.History[0].Data),
			"step": job.Step.Description,
		} {
			if !strings.Contains(text, hush) {
				t.Errorf("%s: %q has no value", what, text)
			}
		}
		piece := func(text string) step.Note {
			return step.Note{Kind: journal.NoteStream, Data: journal.Stream{Chunk: text}}
		}
		wrote := func(stream, text string) step.Note {
			return step.Note{Kind: journal.NoteOutput, Data: journal.Output{Stream: stream, Chunk: text}}
		}
		err := errors.Join(
			job.Log.Note(ctx, step.Note{Kind: "a", Data: map[string]string{"b": "<" + hush + ">"}}),
			job.Log.Note(ctx, piece("so "+hush[:6])),
			job.Log.Note(ctx, piece(hush[6:]+" it goes, hus")),
			job.Log.Note(ctx, step.Note{Kind: "c"}),
			job.Log.Note(ctx, wrote(journal.Stdout, "out "+hush[:6]), wrote(journal.Stderr, "err "+hush[:3])),
			job.Log.Note(ctx, wrote(journal.Stdout, hush[6:]+"\n"), wrote(journal.Stderr, hush[3:]+"\nhus")),
			job.Log.Note(ctx, piece("hush-hush-")))
		return step.Result{
			Value: json.RawMessage(`{"v":"` + hush + `"}`),
			Notes: []step.Note{{Kind: "d", Data: hush}},
		}, err
	}}}
	result, err := hiding.Run(t.Context(), job)
	if err != nil || string(result.Value) != `{"v":"[secret key]"}` {
		t.Errorf("got %s, %v", result.Value, err)
	}
	log.all = append(log.all, result.Notes...)
	want := []string{
		`a {"b":"<[secret key]>"}`, `stream {"chunk":"so "}`, `stream {"chunk":"[secret key] it goes, "}`, `stream {"chunk":"hus"}`, `c null`,
		`output {"stream":"stdout","chunk":"out "}`, `output {"stream":"stderr","chunk":"err "}`,
		`output {"stream":"stdout","chunk":"[secret key]\n"}`, `output {"stream":"stderr","chunk":"[secret key]\n"}`,
		`stream {"chunk":"hush-hush-"}`, `output {"stream":"stderr","chunk":"hus"}`, `d "[secret key]"`,
	}
	if got := log.texts(); !slices.Equal(got, want) {
		t.Errorf("noted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if string(job.Reads[0].Value) != `"[secret key]"` || job.Step.Description != "say [secret key]" {
		t.Error("what the engine holds has been changed")
	}
}

// Tools of one turn write notes concurrently; the race detector checks it.
func TestRedactingLogIsSafeForConcurrentUse(t *testing.T) {
	_, err := step.RedactingRunner{Secrets: hushed(), Runner: within{do: func(
		ctx context.Context, job *step.Job,
	) (step.Result, error) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := job.Log.Note(ctx, step.Note{Kind: "a", Data: hush}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return step.Result{}, nil
	}}}.Run(t.Context(), &step.Job{Host: step.Host{Log: &deaf{}}})
	if err != nil {
		t.Error(err)
	}
}

// deaf is a log that forgets.
type deaf struct{ step.Log }

func (deaf) Note(context.Context, ...step.Note) error { return nil }

// What a job does not have it does not get: kinds ask for it.
func TestRedactingRunnerKeepsNilFields(t *testing.T) {
	_, err := step.RedactingRunner{Runner: within{do: func(_ context.Context, job *step.Job) (step.Result, error) {
		if job.Reads != nil || job.Branches != nil || job.History != nil {
			t.Errorf("got %#v", job)
		}
		return step.Result{}, nil
	}}}.Run(t.Context(), &step.Job{})
	if err != nil {
		t.Error(err)
	}
}

// Notes that are JSON already are hidden as they are; what is none stays none.
func TestRedactingRunnerMasksEncodedNotes(t *testing.T) {
	log := &noted{}
	hiding := step.RedactingRunner{Secrets: hushed(), Runner: within{
		do: func(ctx context.Context, job *step.Job) (step.Result, error) {
			return step.Result{}, job.Log.Note(ctx,
				step.Note{Kind: "json", Data: json.RawMessage(`{"a": "` + hush + `"}`)},
				step.Note{Kind: "no json", Data: json.RawMessage(`{"a": "` + hush)})
		},
	}}
	if _, err := hiding.Run(t.Context(), &step.Job{Host: step.Host{Log: log}}); err != nil || len(log.all) != 2 {
		t.Fatalf("%v, %v", log.all, err)
	}
	for _, n := range log.all {
		raw, ok := n.Data.(json.RawMessage)
		if hidden := strings.Contains(string(raw), "[secret key]"); !ok || !hidden ||
			strings.Contains(string(raw), hush) || json.Valid(raw) != (n.Kind == "json") {
			t.Errorf("%s: %q", n.Kind, raw)
		}
	}
}

func TestRedactingRunnerMasksErrors(t *testing.T) {
	run := func(secrets *secret.Registry, job *step.Job, do func() error) error {
		_, err := step.RedactingRunner{Secrets: secrets, Runner: within{
			do: func(context.Context, *step.Job) (step.Result, error) {
				return step.Result{}, do()
			},
		}}.Run(t.Context(), job)
		return err
	}
	var failed *step.Error
	err := run(hushed(), &step.Job{}, func() error {
		return &step.Error{Class: ir.ClassTool, Message: "no " + hush, Exit: 3, Value: json.RawMessage(`"` + hush + `"`)}
	})
	if !errors.As(err, &failed) || failed.Message != "no [secret key]" || string(failed.Value) != `"[secret key]"` || failed.Class != ir.ClassTool || failed.Exit != 3 {
		t.Errorf("got %+v", err)
	}
	err = run(hushed(), &step.Job{}, func() error { return errors.Join(io.ErrUnexpectedEOF, errors.New(hush)) })
	if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), hush) {
		t.Errorf("got %v", err)
	}
	err = run(secret.New(), &step.Job{Reads: []step.Read{{Value: json.RawMessage(`"[secret gone]"`)}}}, func() error {
		t.Error("it was done without the value")
		return nil
	})
	if !errors.As(err, &failed) || failed.Class != ir.ClassMissing || !strings.Contains(failed.Message, `the secret "gone" is not declared`) {
		t.Errorf("got %v", err)
	}
	defer func() {
		if p, _ := recover().(string); p != "oh [secret key]" {
			t.Errorf("a panic says %q", p)
		}
	}()
	_ = run(hushed(), &step.Job{}, func() error { panic("oh " + hush) })
}

// A command's file with a secret in it is not left in the run's folder by a crash.
func TestTemporaryFilesWithSecretsAvoidTheRunFolder(t *testing.T) {
	job := &step.Job{Host: step.Host{Dir: t.TempDir(), Secrets: hushed()}}
	if dir, err := job.TempDir("echo [secret x]"); err != nil || dir != job.Dir {
		t.Errorf("got %s, %v", dir, err)
	}
	if dir, err := job.TempDir("echo " + hush); err != nil || dir == job.Dir {
		t.Errorf("got %s, %v", dir, err)
	}
}
