//go:build openstack

package images

import (
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestImageUpload takes an image through its life in the real Glance: stopped, killed and cut off half-way, then whole, then found
// again, with other properties, and beside another of its name.
func TestImageUpload(t *testing.T) {
	useBed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	want := randomImage(t)
	dying := &dyingTransport{next: http.DefaultTransport}
	s := imageService(ctx, t, want.Name, dying)

	stopped, stop := context.WithCancel(ctx)
	_, err := s.Upload(stopped, want, progressFunc(func(format string, args ...any) {
		if strings.HasPrefix(format, "uploading") && args[0].(int64) > 16 {
			stop()
		}
	}))
	if fail.KindOf(err) != fail.Interrupted {
		t.Fatalf("stopped: %v", err)
	}
	if all := named(ctx, t, s, want.Name); len(all) != 0 {
		t.Fatalf("a stopped upload left %v", all)
	}
	t.Logf("stopped: %v", err)

	dying.after.Store(16 << 20) // from then on, not a word reaches the cloud: as if the program were killed
	_, err = s.Upload(ctx, want, progressFunc(func(string, ...any) {}))
	if fail.KindOf(err) != fail.Unreachable {
		t.Fatalf("killed: %v", err)
	}
	t.Logf("killed: %v", err)
	left := named(ctx, t, s, want.Name)
	if len(left) != 0 {
		t.Fatalf("there is an answer without a connection: %v", left)
	}
	dying.after.Store(0)
	dying.dead.Store(false)
	if left = named(ctx, t, s, want.Name); len(left) != 1 || left[0].Status == images.ImageStatusActive {
		t.Fatalf("the killed upload left %v", left)
	}

	made := upload(ctx, t, s, want)
	if made.Done != Uploaded || made.ID != left[0].ID || made.Status != "active" || made.MinDiskGiB != 4 || made.Properties["os_distro"] != "debian" {
		t.Errorf("the next run: %+v", made)
	}
	if again := upload(ctx, t, s, want); again.Done != Unchanged || again.ID != made.ID {
		t.Errorf("run again: %+v", again)
	}
	want.Properties["os_distro"], want.Properties["hw_disk_bus"], want.MinDiskGiB = "ubuntu", "scsi", 5
	if changed := upload(ctx, t, s, want); changed.Done != Changed || changed.ID != made.ID || changed.Properties["hw_disk_bus"] != "scsi" || changed.MinDiskGiB != 5 {
		t.Errorf("other properties: %+v", changed)
	}
	if all := named(ctx, t, s, want.Name); len(all) != 1 {
		t.Errorf("there are %d images of the name", len(all))
	}

	other := randomImage(t)
	other.Name = want.Name
	if _, err := s.Upload(ctx, other, progressFunc(t.Logf)); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), made.ID) {
		t.Errorf("another file under the same name: %v", err)
	}
}

// TestImageLeftOfAnotherFile frees a name that an interrupted upload of another file occupies.
func TestImageLeftOfAnotherFile(t *testing.T) {
	useBed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	want := randomImage(t)
	s := imageService(ctx, t, want.Name, http.DefaultTransport)
	other := want
	other.Properties = map[string]string{digestProperty: strings.Repeat("0", 128)}
	left, err := s.create(ctx, other)
	testkit.Must(t, err)
	made := upload(ctx, t, s, want)
	if all := named(ctx, t, s, want.Name); len(all) != 1 || made.ID == left.ID {
		t.Errorf("%v", all)
	}
	wrong := want
	wrong.Format = "nonsense"
	wrong.Name += "-wrong"
	if _, err := s.Upload(ctx, wrong, progressFunc(t.Logf)); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "disk_format") {
		t.Errorf("a format that Glance does not take: %v", err)
	}
}

// randomImage is a file of 64 MiB.
func randomImage(t *testing.T) Image {
	t.Helper()
	data := make([]byte, 64<<20)
	_, err := rand.Read(data)
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "disk.raw")
	testkit.Must(t, os.WriteFile(file, data, 0o600))
	sum := sha512.Sum512(data)
	return Image{
		Name: fmt.Sprintf("img-test-%x", sum[:4]), File: file, Format: "raw", Size: int64(len(data)), SHA512: hex.EncodeToString(sum[:]), MinDiskGiB: 4,
		Properties: map[string]string{"os_distro": "debian"},
	}
}

// useBed has the test speak to the test bed of test/openstack, and never to a cloud that the user's environment names.
func useBed(t *testing.T) {
	t.Helper()
	b := testkit.Value(bed.Open(bed.Options{}))(t)
	t.Setenv("OS_CLIENT_CONFIG_FILE", b.CloudsYAML())
	t.Setenv("OS_CLOUD", bed.Cloud)
}

// imageService logs in, and has the test remove every image of a name in the end.
func imageService(ctx context.Context, t *testing.T, name string, via http.RoundTripper) *Service {
	t.Helper()
	s, err := Open(ctx, Options{Calls: cloud.Calls{HTTPClient: &http.Client{Transport: via}, Retry: cloud.Retry{Attempts: 1}}, Poll: 100 * time.Millisecond})
	testkit.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, i := range named(ctx, t, s, name) {
			if err := s.delete(ctx, i.ID); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func upload(ctx context.Context, t *testing.T, s *Service, want Image) *Result {
	t.Helper()
	made, err := s.Upload(ctx, want, progressFunc(func(string, ...any) {}))
	testkit.Must(t, err)
	return made
}

func named(ctx context.Context, t *testing.T, s *Service, name string) []images.Image {
	t.Helper()
	all, err := cloud.Pages(ctx, images.List(s.c.Image, images.ListOpts{Name: name}), images.ExtractImages)
	if err != nil && !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	return all
}

type progressFunc func(format string, args ...any)

func (f progressFunc) Status(format string, args ...any) { f(format, args...) }

var errDead = errors.New("this program is dead")

// dyingTransport sends so many bytes of an upload and then nothing any more.
type dyingTransport struct {
	next  http.RoundTripper
	after atomic.Int64 // 0: it lives
	dead  atomic.Bool
}

func (d *dyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.dead.Load() {
		return nil, errDead
	}
	if cloud.IsUpload(r) && d.after.Load() > 0 {
		r.Body = &dyingBody{ReadCloser: r.Body, d: d}
	}
	resp, err := d.next.RoundTrip(r)
	if d.dead.Load() {
		return nil, errDead
	}
	return resp, err
}

type dyingBody struct {
	io.ReadCloser
	d *dyingTransport
	n int64
}

func (b *dyingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.n += int64(n); b.n > b.d.after.Load() {
		b.d.dead.Store(true)
		return 0, errDead
	}
	return n, err
}
