package objecttest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/espalier-run/espalier/internal/gotest"
)

// Version is the version of the Versity S3 Gateway, which keeps buckets in folders.
const Version = "v1.8.0"

// Program returns the path of the server and installs it into the user's cache if it is not there, which takes minutes.
func Program() (string, error) {
	return gotest.Install("github.com/versity/versitygw/cmd/versitygw", Version)
}

// The credentials and the only bucket of a server.
const (
	AccessKey = "espalier-tests"
	SecretKey = "not-a-secret-of-anything"
	Bucket    = "values"
)

// Server is a server.
type Server struct {
	URL    string
	cmd    *exec.Cmd
	client *minio.Client
}

// Start starts a server with an empty bucket. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, side := filepath.Join(dir, "data"), filepath.Join(dir, "metadata")
	for _, folder := range []string{filepath.Join(data, Bucket), side} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var output bytes.Buffer
	s := &Server{URL: "http://" + address}
	// The sidecar replaces extended attributes, which not every temporary folder has.
	s.cmd = exec.Command(program, "--access", AccessKey, "--secret", SecretKey, "--port", address, "--quiet",
		"posix", "--sidecar", side, data)
	s.cmd.Stdout, s.cmd.Stderr = &output, &output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	s.client, err = minio.New(address, &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		there, err := s.client.BucketExists(ctx, Bucket)
		cancel()
		if there {
			return s
		}
		if time.Now().After(end) {
			s.Kill()
			t.Fatalf("the server has no bucket: %v\n%s", err, &output)
		}
	}
}

// Kill ends the server.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Objects lists the names of all objects.
func (s *Server) Objects(t testing.TB) (names []string) {
	t.Helper()
	for object := range s.client.ListObjects(context.Background(), Bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			t.Fatal(object.Err)
		}
		names = append(names, object.Key)
	}
	return names
}

// Replace replaces the content of an object; nil removes it.
func (s *Server) Replace(t testing.TB, name string, data []byte) {
	t.Helper()
	var err error
	if data == nil {
		err = s.client.RemoveObject(t.Context(), Bucket, name, minio.RemoveObjectOptions{})
	} else {
		_, err = s.client.PutObject(t.Context(), Bucket, name, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
