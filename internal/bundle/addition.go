package bundle

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Addition stores the files of images while the library is locked.
type Addition struct {
	lib    *Library
	report *reporter
	Dir    string // for temporary files; removed afterwards
}

// AddImages locks the library, calls fetch, which stores the files of images, and then adds the images that it returns to a set. A killed or failed
// call leaves the set as it was; the next one uses the files that are complete.
func (l *Library) AddImages(ctx context.Context, set string, progress func(Event), fetch func(*Addition) ([]SetImage, error)) (AddedSet, error) {
	if err := CheckSetName(set); err != nil {
		return AddedSet{}, err
	}
	report := &reporter{to: progress}
	waiting := time.AfterFunc(2*time.Second, func() { report.note("library", "waiting for another naupegos that writes to the library") })
	unlock, err := l.write(ctx, longWait)
	waiting.Stop()
	if err != nil {
		return AddedSet{}, err
	}
	defer unlock()
	dir, remove, err := l.workDir("add")
	if err != nil {
		return AddedSet{}, err
	}
	defer remove()
	images, err := fetch(&Addition{lib: l, report: report, Dir: dir})
	if err != nil {
		return AddedSet{}, err
	}
	s, err := l.Set(set)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return AddedSet{}, err
	}
	s.Schema, s.Name = schemaVersion, set
	for _, i := range images {
		s.Put(i)
	}
	return l.putSet(s.Set)
}

// Missing returns the files that the library lacks or holds damaged, and fails with fail.Refused if the disk has no space for them.
func (a *Addition) Missing(ctx context.Context, files []Artifact) ([]Artifact, error) {
	var missing []Artifact
	var size int64
	for _, f := range files {
		same, err := sameFile(ctx, filepath.Join(a.lib.blobDir(), hexOf(f.Digest)), f)
		if err != nil {
			return nil, err
		}
		if !same {
			missing = append(missing, f)
			size += f.Size
		}
	}
	return missing, a.Space(size)
}

// reserve is how many bytes stay free on the library's disk.
const reserve = 256 << 20

// Space refuses more bytes than fit on the disk.
func (a *Addition) Space(size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(a.lib.root, &st); err != nil {
		return ioError(err, "look for space", a.lib.root)
	}
	free := int64(st.Bavail) * st.Bsize
	if size == 0 || size+reserve <= free {
		return nil
	}
	return fail.New(fail.Refused, "the images need %d MiB, and the disk of the library has %d MiB free, of which %d MiB stay free", size>>20, free>>20, int64(reserve>>20)).
		At(a.lib.root).Do("free space there, or name another library")
}

// Store stores a file that Missing returned. Content with another size or digest is fail.Refused.
func (a *Addition) Store(ctx context.Context, f Artifact, r io.Reader) error {
	t := a.report.begin(fmt.Sprintf("%s %s", f.Name, hexOf(f.Digest)[:12]), PhaseDownload, f.Size)
	got, err := a.lib.addBlobAs(ctx, f, t.counting(io.LimitReader(r, f.Size+1)))
	if err != nil {
		return err
	}
	if got.Digest != f.Digest || got.Size != f.Size {
		return fail.New(fail.Refused, "%s holds a file with other content than its manifest says: %s", f.Name, f.Digest).
			Do("nothing was added: the source is damaged, or was changed")
	}
	t.finish(false)
	return nil
}
