package cpython

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/xslices"
)

//go:embed python.wasm.gz
var image []byte

// machine is the interpreter as machine code.
type machine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

var load = sync.OnceValues(func() (*machine, error) { return newMachine(cacheDir()) })

// prepared returns the interpreter of this process, which it loads on first use.
func prepared(ctx context.Context) (*machine, error) {
	type loaded struct {
		m   *machine
		err error
	}
	done := make(chan loaded, 1)
	go func() {
		m, err := load()
		done <- loaded{m, err}
	}()
	select {
	case l := <-done:
		return l.m, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Prepare loads the interpreter, so that the first Run does not have to.
func Prepare(ctx context.Context) error {
	_, err := prepared(ctx)
	return err
}

// IsCached reports whether the machine code is in the user's cache folder. Without
// it, the first use takes some seconds.
func IsCached() bool {
	sums, err := filepath.Glob(filepath.Join(cacheDir(), "*", "*"+sumSuffix))
	return err == nil && len(sums) > 0
}

// cacheDir returns the folder for machine code, or "" if the user has no cache folder.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "espalier", "python-"+imageSHA256[:16])
}

// newMachine translates the interpreter, or reads the translation from the cache. It
// works without a cache if the folder cannot be used.
func newMachine(dir string) (*machine, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	wasm, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	if isPrivate(dir) {
		discardDamaged(dir)
		if cache, err := wazero.NewCompilationCacheWithDir(dir); err == nil {
			if m, err := compile(wasm, cache); err == nil {
				recordSums(dir)
				return m, nil
			}
		}
	}
	return compile(wasm, nil)
}

// isPrivate creates the cache folder, and reports whether only this user can change it. Its files are machine code,
// which is executed without further checks.
func isPrivate(dir string) bool {
	if dir == "" || private.MakeFolder(dir) != nil {
		return false
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range append(paths, filepath.Dir(dir)) {
		if private.Check(path) != nil {
			return false
		}
	}
	return true
}

func compile(wasm []byte, cache wazero.CompilationCache) (*machine, error) {
	const page = 1 << 16
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0))
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(MaxMemory / page)
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(ctx, config)
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	if err == nil {
		var compiled wazero.CompiledModule
		if compiled, err = r.CompileModule(ctx, wasm); err == nil {
			return &machine{r, compiled}, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("the Python interpreter cannot be loaded: %w", err), r.Close(ctx))
}

// sumSuffix is the suffix of a file with the checksum of another file.
const sumSuffix = ".sum"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// discardDamaged removes cached files that are not what was written. wazero itself
// verifies only a part of a file.
func discardDamaged(dir string) {
	for _, path := range cached(dir) {
		want, err := os.ReadFile(path + sumSuffix)
		if err != nil || string(want) != sum(path) {
			_ = os.Remove(path)
			_ = os.Remove(path + sumSuffix)
		}
	}
}

// recordSums writes the checksums of new files. A process that is interrupted before
// leaves a file without one, which the next process discards.
func recordSums(dir string) {
	for _, path := range cached(dir) {
		if _, err := os.Stat(path + sumSuffix); err == nil {
			continue
		}
		temporary, err := os.CreateTemp(filepath.Dir(path), "new-*"+sumSuffix+".tmp")
		if err != nil {
			continue
		}
		_, err = temporary.WriteString(sum(path))
		if err = errors.Join(err, temporary.Close()); err == nil {
			err = os.Rename(temporary.Name(), path+sumSuffix)
		}
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}
}

// cached returns the files that hold machine code.
func cached(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	return xslices.Filter(all, func(path string) bool {
		return !strings.HasSuffix(path, sumSuffix) && !strings.HasSuffix(path, ".tmp")
	})
}

func sum(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var out [4]byte
	crc := crc32.Checksum(data, castagnoli)
	for i := range out {
		out[i] = byte(crc >> (8 * i))
	}
	return hex.EncodeToString(out[:])
}
