package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// paced is a workflow of one step.
const paced = "---\nname: paced\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: One step.\n" +
	"triggers: {api: true}\n---\n" +
	"```step\nid: only\ntype: transform\ndescription: Do something\nwrites: [output.text]\n```\n"

// benchServer is a server process over a new project.
type benchServer struct {
	process    *other
	url, token string
	started    time.Duration // from starting the process until it answers
}

func startBenchServer(dir string) (*benchServer, error) {
	project := filepath.Join(dir, "project")
	if err := os.MkdirAll(project, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(project, "paced.md"), []byte(paced), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(dir), espalierFile), "serve", "--addr", "127.0.0.1:0", "--json",
		"--log-level", "error")
	cmd.Dir, cmd.Env = project, append(os.Environ(), "HOME="+dir)
	began := time.Now()
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	var at struct {
		Address string `json:"address"`
	}
	var text []byte
	for at.Address == "" {
		if !p.out.Scan() {
			p.kill()
			return nil, fmt.Errorf("espalier serve has no address: %s", text)
		}
		text = append(text, p.out.Bytes()...)
		_ = json.Unmarshal(text, &at) // it may be incomplete
	}
	s := &benchServer{process: p, url: "http://" + at.Address}
	for {
		ready, err := http.Get(s.url + "/readyz")
		if err != nil {
			p.kill()
			return nil, err
		}
		ready.Body.Close()
		if ready.StatusCode == http.StatusOK {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.started = time.Since(began)
	token, err := os.ReadFile(filepath.Join(project, ".espalier", "server-token"))
	if err != nil {
		p.kill()
		return nil, err
	}
	s.token = strings.TrimSpace(string(token))
	return s, nil
}

// request calls the API.
func (s *benchServer) request(method, path string, body []byte, want int) (*http.Response, error) {
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	if err == nil && w.StatusCode != want {
		w.Body.Close()
		err = fmt.Errorf("%s %s: %s", method, path, w.Status)
	}
	return w, err
}

func measureServerStart(dir string) (figures, error) {
	s, err := startBenchServer(dir)
	if err != nil {
		return nil, err
	}
	s.process.kill()
	return figures{"ready": milliseconds(s.started)}, nil
}

// measureEvents starts runs at a steady pace while clients follow the events of all runs. The delay of an event is the
// time from its fact to its arrival, so it includes the commit.
func measureEvents(dir string) (figures, error) {
	const clients, runs, pace = 1000, 40, 200 * time.Millisecond
	s, err := startBenchServer(dir)
	if err != nil {
		return nil, err
	}
	defer s.process.kill()
	var mu sync.Mutex
	var delays []time.Duration
	var followers sync.WaitGroup
	failed := make(chan error, clients)
	for range clients {
		w, err := s.request("GET", "/api/v1/events", nil, http.StatusOK)
		if err != nil {
			return nil, err
		}
		followers.Go(func() {
			defer w.Body.Close()
			got, err := followRuns(w, runs)
			mu.Lock()
			delays = append(delays, got...)
			mu.Unlock()
			if err != nil {
				failed <- err
			}
		})
	}
	for range runs {
		w, err := s.request("POST", "/api/v1/runs", []byte(`{"workflow": "paced", "simulate": true}`), http.StatusCreated)
		if err != nil {
			return nil, err
		}
		w.Body.Close()
		time.Sleep(pace)
	}
	followers.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	slices.Sort(delays)
	return figures{
		"p99": milliseconds(delays[len(delays)*99/100]), "median": milliseconds(delays[len(delays)/2]),
		"events": float64(len(delays)),
	}, nil
}

// followRuns returns the delays of the events of a stream until a number of runs has finished.
func followRuns(w *http.Response, runs int) (delays []time.Duration, err error) {
	lines := bufio.NewScanner(w.Body)
	for runs > 0 && lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		now := time.Now()
		var e struct {
			Type string    `json:"type"`
			At   time.Time `json:"at"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		delays = append(delays, now.Sub(e.At))
		if e.Type == "run.finished" {
			runs--
		}
	}
	if runs > 0 {
		return nil, fmt.Errorf("the stream ended with %d runs unfinished: %v", runs, lines.Err())
	}
	return delays, nil
}
