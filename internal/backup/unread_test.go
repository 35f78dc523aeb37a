package backup

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// archived is a target that no longer delivers some files.
type archived struct {
	Directory
	away  func(name string) bool
	kind  fail.Kind
	dated time.Time // of all files; zero: their own times
}

func (a archived) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if a.away(name) {
		return nil, 0, fail.New(a.kind, "read %s", name).Do("restore it from the archive")
	}
	return a.Directory.Open(ctx, name)
}

// TestOneUnreadable: List returns a set that alone can't be read with the reason; the others are usable, and the newest is not silently skipped.
func TestOneUnreadable(t *testing.T) {
	ctx := t.Context()
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	var ids []string
	for i := range 3 {
		ids = append(ids, testkit.Value(Create(ctx, d, source(t, "demo", noon.Add(time.Duration(i)*time.Hour), to)))(t).ID)
	}
	without := func(kind fail.Kind, gone ...string) archived {
		return archived{Directory: d, kind: kind, away: func(name string) bool {
			return slices.ContainsFunc(gone, func(id string) bool { return strings.HasPrefix(name, "demo/"+id) })
		}}
	}
	all, err := List(ctx, without(fail.Refused, ids[0]), "demo")
	if err != nil || len(all) != 3 || all[2].ID != ids[0] || !strings.Contains(all[2].Problem, "restore it from the archive") || all[0].Problem != "" || all[2].CreatedAt != noon {
		t.Errorf("%+v, %v", all, err)
	}
	if s, err := Open(ctx, without(fail.Unauthorized, ids[0]), "demo", Latest); err != nil || s.ID != ids[2] {
		t.Errorf("the latest: %+v, %v", s, err)
	}
	if last, _, err := Newest(ctx, without(fail.Unauthorized, ids[1], ids[2]), "demo", "demo-0badcafe"); err != nil || last.ID != ids[0] {
		t.Errorf("the newest: %+v, %v", last, err)
	}
	_, err = Open(ctx, without(fail.Unauthorized, ids[2]), "demo", Latest)
	testkit.Fails(t, err, fail.Unauthorized, ids[2])
	for _, kind := range []fail.Kind{fail.Unauthorized, fail.Refused} { // all of them
		_, err = List(ctx, without(kind, ids...), "demo")
		testkit.Fails(t, err, kind, "read demo/")
		_, _, err = Newest(ctx, without(kind, ids...), "demo", "demo-0badcafe")
		testkit.Fails(t, err, kind, "read demo/")
	}
	_, err = List(ctx, without(fail.Unreachable, ids[1]), "demo") // the service may be down
	testkit.Fails(t, err, fail.Unreachable, "read demo/")
}

// Grace and List make it a target with several writers.
func (a archived) Grace() time.Duration { return time.Hour }

func (a archived) List(ctx context.Context, dir string) ([]File, error) {
	files, err := a.Directory.List(ctx, dir)
	for i := range files {
		if !a.dated.IsZero() {
			files[i].Modified = a.dated
		}
	}
	return files, err
}

// TestSweepByTheStoresClock: a file that another machine began a minute ago stays, although this one's clock is two hours ahead.
func TestSweepByTheStoresClock(t *testing.T) {
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	const begun = "demo/20261123T110000Z-0001/set.age"
	testkit.Must(t, d.Create(t.Context(), begun, func(w io.Writer) error { _, err := w.Write([]byte("half")); return err }))
	there := func() bool {
		files := testkit.Value(d.List(t.Context(), "demo"))(t)
		return slices.ContainsFunc(files, func(f File) bool { return f.Name == begun })
	}
	target := archived{Directory: d, away: func(string) bool { return false }, dated: noon}
	testkit.Value(Create(t.Context(), target, source(t, "demo", noon.Add(2*time.Hour), to)))(t)
	if !there() {
		t.Error("it was removed")
	}
}
