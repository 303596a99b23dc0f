package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// startBenchServer starts a server in a new project and returns when the server is ready. The caller kills the process.
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
	streams := make([]stream, clients)
	var followers sync.WaitGroup
	for i := range streams {
		conn, err := s.follow()
		if err != nil {
			return nil, err
		}
		followers.Go(func() {
			defer conn.Close()
			streams[i].read(conn, runs)
		})
	}
	for range runs {
		w, err := s.request("POST", "/api/v1/runs", []byte(`{"workflow": "paced", "simulate": true}`),
			http.StatusCreated)
		if err != nil {
			return nil, err
		}
		w.Body.Close()
		time.Sleep(pace)
	}
	followers.Wait()
	s.process.kill()
	used := s.process.cmd.ProcessState
	var delays []time.Duration
	for i := range streams {
		got, err := streams[i].delays()
		if err != nil {
			return nil, err
		}
		delays = append(delays, got...)
	}
	slices.Sort(delays)
	return figures{
		"p99": milliseconds(delays[len(delays)*99/100]), "median": milliseconds(delays[len(delays)/2]),
		"processor": milliseconds(used.UserTime()+used.SystemTime()) / runs,
	}, nil
}

// stream is what a client got. It is read when the measurement is over: the clients share the cores with the server.
type stream struct {
	text   []byte
	pieces []piece
	err    error
}

// streamBytes is about what a client gets of a run.
const streamBytes = 4 << 10

// piece is a part of a stream up to an offset, and when it came.
type piece struct {
	end int
	at  time.Time
}

// follow opens a stream of all events and reads its header. An HTTP client would take more time than the server.
func (s *benchServer) follow() (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
		strings.TrimPrefix(s.url, "http://"), s.token)
	header := make([]byte, 4<<10)
	n, err := conn.Read(header)
	if err == nil && !bytes.HasPrefix(header, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("the stream of events: %s", header[:n])
	}
	return conn, err
}

// read reads a stream until a number of runs has finished.
func (s *stream) read(body io.Reader, runs int) {
	finished := []byte("event: run.finished\n")
	s.text = make([]byte, 0, runs*streamBytes)
	buffer := make([]byte, 8<<10)
	for runs > 0 {
		n, err := body.Read(buffer)
		if n > 0 {
			s.pieces = append(s.pieces, piece{len(s.text) + n, time.Now()})
			from := max(0, len(s.text)-len(finished)+1)
			s.text = append(s.text, buffer[:n]...)
			runs -= bytes.Count(s.text[from:], finished)
		}
		if err != nil {
			s.err = fmt.Errorf("the stream ended with %d runs unfinished: %w", runs, err)
			return
		}
	}
}

// delays returns the time from each event to its arrival.
func (s *stream) delays() (out []time.Duration, err error) {
	end := 0
	for line := range bytes.Lines(s.text) {
		end += len(line)
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || !bytes.HasSuffix(data, []byte("\n")) { // the last line may be incomplete
			continue
		}
		for s.pieces[0].end < end {
			s.pieces = s.pieces[1:]
		}
		var e struct {
			At time.Time `json:"at"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		out = append(out, s.pieces[0].at.Sub(e.At))
	}
	return out, s.err
}
