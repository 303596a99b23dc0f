package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// Objects keeps large blobs outside of the database. Its methods are called concurrently.
type Objects interface {
	Put(ctx context.Context, name string, data []byte) error
	// Get returns an object, or an ErrUnknownBlob if it does not exist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete removes an object. One that does not exist is no error.
	Delete(ctx context.Context, name string) error
}

// The name of an object is unique to its upload: a process that removes an object can never remove what another one has
// uploaded since then. An object without a blob is in the table garbage, from before its upload until a blob refers to
// it, and from its removal until it is deleted. So none is lost from sight if a process dies in between.

// defaultObjectsAbove is the size of the largest blob that stays in the database.
const defaultObjectsAbove = 1 << 20

// uploadTimeout is how long an upload may take. After it, or if the upload fails, the blob is stored in the database:
// the result of a step must not be lost because a bucket cannot be reached.
const uploadTimeout = time.Minute

// uploadFirst uploads the large blobs of a batch before it is committed, and reports whether it does. Batches of other
// runs do not wait for it; those of the same run do, so that they keep their order. Close waits for it.
func (s *Store) uploadFirst(j job) bool {
	run := j.batch.Run
	large := slices.ContainsFunc(j.batch.Blobs, func(b journal.Blob) bool { return s.isLarge(&b) })
	if s.objects == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The key exists as long as the goroutine of the run works: later batches queue behind it.
	if waiting, ok := s.uploading[run]; ok {
		s.uploading[run] = append(waiting, j)
		return true
	}
	if !large || s.closed.Load() {
		return false
	}
	s.uploading[run] = []job{j}
	s.uploads.Go(func() {
		for {
			s.mu.Lock()
			next := s.uploading[run]
			if len(next) == 0 {
				delete(s.uploading, run)
				s.mu.Unlock()
				return
			}
			s.uploading[run] = next[1:]
			s.mu.Unlock()
			next[0].uploaded = s.upload(context.Background(), run, next[0].batch.Blobs)
			s.put(next[0])
		}
	})
	return true
}

// isLarge reports whether a blob belongs into object storage.
func (s *Store) isLarge(b *journal.Blob) bool {
	return s.objects != nil && int64(len(b.Data)) > s.objectsAbove
}

// upload uploads the large blobs of a batch that the database does not have. It returns the names of the objects by
// their hashes.
func (s *Store) upload(ctx context.Context, run journal.RunID, blobs []journal.Blob) map[string]string {
	uploaded := map[string]string{}
	for i := range blobs {
		b := &blobs[i]
		if !s.isLarge(b) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, uploadTimeout)
		name, err := s.uploadBlob(limited, b)
		cancel()
		if err != nil {
			s.log.Warn("a large value is stored in the database", "run", run, "size", len(b.Data), "error", err)
			s.noticeUpload(run, len(b.Data), err)
		} else if name != "" {
			uploaded[b.Hash] = name
		}
	}
	return uploaded
}

// maxNoticed is how many runs are remembered so that each has one notice.
const maxNoticed = 1000

// noticeUpload logs, once for each run, that a value is not in object storage.
func (s *Store) noticeUpload(run journal.RunID, size int, err error) {
	s.mu.Lock()
	known := s.noticed[run]
	if len(s.noticed) >= maxNoticed {
		clear(s.noticed)
	}
	s.noticed[run] = true
	s.mu.Unlock()
	if !known {
		s.notice(fmt.Sprintf("Run %.8s: a value of %.1f MB is stored in the database: %v", run, float64(size)/1e6, err))
	}
}

// uploadBlob uploads a blob. It returns an empty name if the database has the blob.
func (s *Store) uploadBlob(ctx context.Context, b *journal.Blob) (name string, err error) {
	var known bool
	err = s.pool.QueryRow(ctx, s.q(`SELECT id::text || '/' || $1 || '.' || $2,
		EXISTS (SELECT 1 FROM @.blobs b JOIN @.uses u ON u.blob = b.n WHERE hash = $1) FROM @.journal`),
		encodeText(b.Hash), rand.Text()).Scan(&name, &known)
	if err != nil || known {
		return "", err
	}
	// The name is garbage before the object exists: if this process dies during the upload, a sweep deletes the object.
	if _, err := s.pool.Exec(ctx, s.q("INSERT INTO @.garbage (object, removed) VALUES ($1, false)"), name); err != nil {
		return "", err
	}
	return name, s.objects.Put(ctx, name, b.Data)
}

// queueObject adds a blob whose data is an object that was uploaded. The object is garbage no more, unless another
// process was faster. An upload that took too long may be deleted: then there is no blob, which the group notices.
func (s *Store) queueObject(batch *pgx.Batch, hash, name string) {
	batch.Queue(s.q(`INSERT INTO @.blobs (hash, data, object)
		SELECT $1, '', object FROM @.garbage WHERE object = $2 AND NOT removed FOR UPDATE
		ON CONFLICT (hash) DO NOTHING`), hash, name)
	batch.Queue(
		s.q("DELETE FROM @.garbage WHERE object IN (SELECT object FROM @.blobs WHERE hash = $1 AND object = $2)"),
		hash, name)
}

// readObject returns the data of a blob that is an object.
func (s *Store) readObject(ctx context.Context, hash, name string) ([]byte, error) {
	if s.objects == nil {
		return nil, fmt.Errorf("%w: the value %s is in object storage, which is not configured",
			journal.ErrUnavailable, hash)
	}
	return s.objects.Get(ctx, name)
}

// orphanAge is the age at which an object without a blob counts as left behind by a process that crashed.
const orphanAge = time.Hour

// sweep deletes objects that no blob refers to. What fails is tried again by the next sweep.
func (s *Store) sweep(ctx context.Context) error {
	if s.objects == nil {
		return nil
	}
	// A process that is about to refer to an object does not find it among the garbage anymore.
	rows, err := s.pool.Query(ctx, s.q(`UPDATE @.garbage SET removed = true
		WHERE removed OR added < now() - $1::interval RETURNING object`), orphanAge)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := s.objects.Delete(ctx, name); err != nil {
			errs = append(errs, err)
			continue
		}
		// The row goes after the object, so that a crash in between leads to another, harmless deletion.
		if _, err := s.pool.Exec(ctx, s.q("DELETE FROM @.garbage WHERE object = $1"), name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
