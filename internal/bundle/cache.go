package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// cacheEntry is a cached result: the directory cache/<name>-<start of the key> with entry.json and the files that it lists. The key is the digest
// of all inputs. One rename puts the directory in place.
type cacheEntry struct {
	Key   string     `json:"key"`
	Files []Artifact `json:"files"`

	dir string
}

const entryFile = "entry.json"

// cacheKey returns a digest of everything that determines a result.
func cacheKey(parts any) (string, error) {
	data, err := json.Marshal(parts)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the inputs of a build")
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func readEntry(dir string) (*cacheEntry, error) {
	data, err := os.ReadFile(filepath.Join(dir, entryFile))
	if err != nil {
		return nil, err
	}
	e := &cacheEntry{dir: dir}
	return e, json.Unmarshal(data, e)
}

func (e *cacheEntry) path(name string) string { return filepath.Join(e.dir, name) }

func (e *cacheEntry) file(name string) (Artifact, error) {
	for _, a := range e.Files {
		if a.Name == name {
			return a, nil
		}
	}
	return Artifact{}, fail.New(fail.Internal, "cached result has no %q", name).At(e.dir)
}

func (e *cacheEntry) usedBy(used map[string]bool) bool {
	for _, a := range e.Files {
		if used[hexOf(a.Digest)] {
			return true
		}
	}
	return false
}

func (l *Library) entryDir(name, key string) string {
	return filepath.Join(l.cacheDir(), name+"-"+key[:24])
}

// cached returns the result of this key if all its files have their recorded digests; otherwise it removes the result and returns nil.
func (l *Library) cached(ctx context.Context, name, key string) (*cacheEntry, error) {
	dir := l.entryDir(name, key)
	e, err := readEntry(dir)
	if err == nil && e.Key == key {
		whole := true
		for _, a := range e.Files {
			same, err := sameFile(ctx, e.path(a.Name), a)
			if err != nil {
				return nil, err
			}
			whole = whole && same
		}
		if whole {
			return e, nil
		}
	}
	if err := os.RemoveAll(dir); err != nil { // absent, or damaged: it is recreated
		return nil, ioError(err, "remove damaged cache", dir)
	}
	return nil, nil
}

// store moves the directory out, which contains exactly the named files, into the cache as the result of this key.
func (l *Library) store(ctx context.Context, name, key, out string, names []string) (*cacheEntry, error) {
	e := &cacheEntry{Key: key, dir: l.entryDir(name, key)}
	for _, n := range names {
		file := filepath.Join(out, n)
		info, err := os.Stat(file)
		if err != nil {
			return nil, ioError(err, "keep result of "+name, file)
		}
		digest, err := fileDigest(ctx, file)
		if err != nil {
			return nil, ioError(err, "keep result of "+name, file)
		}
		if err := syncFile(file, info.Mode()&0o111 != 0); err != nil {
			return nil, err
		}
		e.Files = append(e.Files, Artifact{Name: n, Digest: digest, Size: info.Size()})
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "keep result of %s", name)
	}
	if err := writeFile(filepath.Join(out, entryFile), data, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(out, e.dir); err != nil {
		return nil, ioError(err, "keep result of "+name, e.dir)
	}
	return e, syncDir(l.cacheDir())
}

// syncFile flushes a file that another program wrote and gives it the mode of a blob.
func syncFile(path string, executable bool) error {
	f, err := os.Open(path)
	if err != nil {
		return ioError(err, "flush file", path)
	}
	if err := finish(f, nil, blobMode(executable)); err != nil {
		return ioError(err, "flush file", path)
	}
	return nil
}

func blobMode(executable bool) os.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// workDir returns an empty temporary directory for one task.
func (l *Library) workDir(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(l.tmpDir(), name+"-*")
	if err != nil {
		return "", nil, ioError(err, "make directory for "+name, l.tmpDir())
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, ioError(err, "make directory for "+name, dir)
	}
	return dir, func() { os.RemoveAll(dir) }, nil // cleanTmp removes any remains
}

// cleanTmp removes the temporary files of killed processes. The caller must hold the lock.
func (l *Library) cleanTmp() error {
	entries, err := os.ReadDir(l.tmpDir())
	if err != nil {
		return ioError(err, "clean up", l.tmpDir())
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(l.tmpDir(), e.Name())); err != nil {
			return ioError(err, "clean up", e.Name())
		}
	}
	return nil
}
