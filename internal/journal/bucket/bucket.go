package bucket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/espalier-run/espalier/internal/journal"
)

// Config says where a bucket is.
type Config struct {
	Endpoint, Bucket, Prefix, Region string
	PathStyle                        bool
	// Keys returns the access key and its secret when they are first needed; empty keys are those of the environment or
	// of the machine.
	Keys func(context.Context) (id, secret string, err error)
}

// Bucket is a bucket. It is opened when it is first used. All methods are safe for concurrent use.
type Bucket struct {
	c Config

	mu     sync.Mutex // guards client; held while it is created, so that Keys is called once
	client *minio.Client
}

// New returns a bucket, which exists.
func New(c Config) *Bucket { return &Bucket{c: c} }

func (b *Bucket) open(ctx context.Context) (*minio.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	u, err := url.Parse(b.c.Endpoint)
	if err != nil {
		return nil, err
	}
	id, secret, err := b.c.Keys(ctx)
	if err != nil {
		return nil, err
	}
	keys := credentials.NewStaticV4(id, secret, "")
	if id == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
	}
	lookup := minio.BucketLookupAuto
	if b.c.PathStyle {
		lookup = minio.BucketLookupPath
	}
	b.client, err = minio.New(u.Host, &minio.Options{
		Creds: keys, Secure: u.Scheme == "https", Region: b.c.Region, BucketLookup: lookup, MaxRetries: 3,
	})
	return b.client, err
}

// Put stores an object.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	client, err := b.open(ctx)
	if err != nil {
		return b.explain(name, err)
	}
	_, err = client.PutObject(ctx, b.c.Bucket, b.c.Prefix+name, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return b.explain(name, err)
}

// Get returns an object, or journal.ErrUnknownBlob if it does not exist.
func (b *Bucket) Get(ctx context.Context, name string) ([]byte, error) {
	client, err := b.open(ctx)
	if err != nil {
		return nil, b.explain(name, err)
	}
	object, err := client.GetObject(ctx, b.c.Bucket, b.c.Prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(name, err)
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	return data, b.explain(name, err)
}

// Delete removes an object. An object that does not exist is no error.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	client, err := b.open(ctx)
	if err == nil {
		err = client.RemoveObject(ctx, b.c.Bucket, b.c.Prefix+name, minio.RemoveObjectOptions{})
	}
	return b.explain(name, err)
}

// explain adds the journal's meaning to an error.
func (b *Bucket) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return fmt.Errorf("%w: the object %s%s of the bucket %s: %w", journal.ErrUnknownBlob, b.c.Prefix, name,
			b.c.Bucket, err)
	}
	return &journal.UnavailableError{
		What: "the object storage cannot be used", Err: fmt.Errorf("the bucket %s: %w", b.c.Bucket, err),
	}
}
