package logs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

// mostFiles bounds the number of files that are read at once; names of containers select fewer.
const mostFiles = 500

// logFile is the log of one run of a container.
type logFile struct {
	path                      string
	namespace, pod, container string
	run                       int
}

// files lists the logs of the present or, with Previous, of the former run of each requested container.
func (r *reading) files() ([]logFile, error) {
	root := cmp.Or(r.Dir, "/var/log/pods")
	dirs, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a gateway has none
		return nil, fail.Wrap(fail.Internal, err, "list the logs of pods")
	}
	var out []logFile
	for _, d := range dirs {
		// NAMESPACE_POD_UID; the UID of a static pod is the digest of its manifest.
		parts := strings.Split(d.Name(), "_")
		if len(parts) != 3 || !r.wantsPod(parts[0], parts[1], parts[2]) {
			continue
		}
		containers, err := os.ReadDir(filepath.Join(root, d.Name()))
		if err != nil {
			continue // it was removed meanwhile
		}
		for _, c := range containers {
			if r.Container != "" && c.Name() != r.Container {
				continue
			}
			f := logFile{namespace: parts[0], pod: parts[1], container: c.Name()}
			if f.find(filepath.Join(root, d.Name(), c.Name()), r.Previous) {
				out = append(out, f)
			}
		}
	}
	if len(out) > mostFiles {
		return nil, fail.New(fail.Refused, "%d containers are meant, and at most %d can be read at once", len(out), mostFiles).Do("name a pod or a container")
	}
	return out, nil
}

func (r *reading) wantsPod(namespace, pod, uid string) bool {
	want := r.Pod
	if in, name, ok := strings.Cut(want, "/"); ok {
		if in != namespace {
			return false
		}
		want = name
	}
	if r.Pod == "" && r.Container == "" {
		return !strings.Contains(uid, "-")
	}
	return strings.HasPrefix(pod, want)
}

// find looks for the file of the container's newest run, or of the one before.
func (f *logFile) find(dir string, previous bool) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it was removed meanwhile
	}
	var runs []int
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".log") // others are rotated
		if n, err := strconv.Atoi(name); ok && err == nil {
			runs = append(runs, n)
		}
	}
	slices.Sort(runs)
	if previous && len(runs) > 0 {
		runs = runs[:len(runs)-1]
	}
	if len(runs) == 0 {
		return false
	}
	f.run = runs[len(runs)-1]
	f.path = filepath.Join(dir, strconv.Itoa(f.run)+".log")
	return true
}

// file reads a log from an offset to its present end, and returns where the last whole line ends.
func (r *reading) file(ctx context.Context, f logFile, from int64, emit func(logs.Line) error) (int64, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, fail.Wrap(fail.Internal, err, "read a container's log")
	}
	defer file.Close()
	return r.lines(ctx, file, f, from, emit)
}

// lines reads from a file that may grow.
func (r *reading) lines(ctx context.Context, file *os.File, f logFile, from int64, emit func(logs.Line) error) (int64, error) {
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return from, fail.Wrap(fail.Internal, err, "read a container's log")
	}
	in := bufio.NewReaderSize(file, longest)
	for ctx.Err() == nil {
		data, length, err := wholeLine(in)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return from, nil
			}
			return from, fail.Wrap(fail.Internal, err, "read a container's log")
		}
		from += length
		l := logs.Line{Namespace: f.namespace, Pod: f.pod, Container: f.container}
		if !parseCRI(data, &l) || !r.wanted(l) {
			continue
		}
		if err := emit(l); err != nil {
			return from, err
		}
	}
	return from, ctx.Err()
}

// wholeLine reads a line, keeps its beginning, and returns its length. For an incomplete line it returns io.EOF.
func wholeLine(in *bufio.Reader) (text string, length int64, err error) {
	var kept []byte
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		kept = append(kept, part[:min(len(part), longest-len(kept))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimSuffix(string(kept), "\n"), length, err
		}
	}
}

// parseCRI reads a line as container runtimes write it: TIME STREAM TAGS TEXT.
func parseCRI(data string, l *logs.Line) bool {
	stamp, rest, _ := strings.Cut(data, " ")
	_, rest, _ = strings.Cut(rest, " ")
	_, text, ok := strings.Cut(rest, " ")
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if !ok || err != nil {
		return false
	}
	l.Time, l.Text = t.UTC(), text
	return true
}

// followFiles reads new lines, also in the files of containers that start later and in files that replace rotated ones.
func (r *reading) followFiles(ctx context.Context, emit func(logs.Line) error) error {
	open := map[string]*os.File{}
	defer func() {
		for _, f := range open {
			_ = f.Close() // opened read-only
		}
	}()
	at := map[string]int64{}
	for path, n := range r.read {
		at[path] = n
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		files, err := r.files()
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, f := range files {
			seen[f.path] = true
			if err := r.more(ctx, f, open, at, emit); err != nil {
				return err
			}
		}
		for path, file := range open {
			if !seen[path] { // a new run of the container took its place, or the pod is gone: its last lines
				if _, err := r.lines(ctx, file, named(path), at[path], emit); err != nil {
					return err
				}
				_ = file.Close() // opened read-only
				delete(open, path)
				delete(at, path)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// more reads a file's new lines. If another file has replaced it, more first reads the rest of the old one.
func (r *reading) more(ctx context.Context, f logFile, open map[string]*os.File, at map[string]int64, emit func(logs.Line) error) (err error) {
	now, err := os.Stat(f.path)
	if err != nil {
		return nil //nolint:nilerr // it was removed meanwhile
	}
	file := open[f.path]
	if file != nil {
		if was, err := file.Stat(); err != nil || !os.SameFile(was, now) {
			if _, err := r.lines(ctx, file, f, at[f.path], emit); err != nil {
				return err
			}
			_ = file.Close() // opened read-only
			file, at[f.path] = nil, 0
			delete(open, f.path)
		}
	}
	if file == nil {
		if file, err = os.Open(f.path); err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		open[f.path] = file
	}
	if now.Size() < at[f.path] { // cut off
		at[f.path] = 0
	}
	if now.Size() > at[f.path] {
		at[f.path], err = r.lines(ctx, file, f, at[f.path], emit)
	}
	return err
}

// named returns the names in a path.
func named(path string) logFile {
	dir := filepath.Dir(path)
	parts := strings.Split(filepath.Base(filepath.Dir(dir)), "_")
	f := logFile{path: path, container: filepath.Base(dir)}
	if len(parts) == 3 {
		f.namespace, f.pod = parts[0], parts[1]
	}
	return f
}
