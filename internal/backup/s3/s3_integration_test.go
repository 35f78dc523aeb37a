//go:build integration

package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "naupegos-s3-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if program, err = testkit.Released(dir, testkit.S3Server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// server runs until the test ends or calls stop.
type server struct {
	data string // buckets are its subdirectories
	spec s3.Spec
	stop func()
}

func start(t *testing.T, data string) *server {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Join(data, "demo"), 0o755))
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	cmd := exec.Command(program, "--access", "testkey", "--secret", "testsecret", "--port", addr, "posix", data)
	testkit.Must(t, cmd.Start())
	s := &server{data: data, stop: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}}
	t.Cleanup(s.stop)
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	s.spec = s3.Spec{Endpoint: "http://" + addr, Bucket: "demo", Prefix: "k8s/a", CredentialsFile: credentials(t, "testkey", "testsecret")}
	return s
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// large writes the given number of full parts and 1 MiB of another one, and calls then before the file ends.
func large(parts int, then func() error) func(io.Writer) error {
	return func(w io.Writer) error {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 16*parts + 1 {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return then()
	}
}

func names(t *testing.T, b *s3.Bucket) (all []string) {
	t.Helper()
	for _, f := range testkit.Value(b.List(t.Context(), "c"))(t) {
		all = append(all, f.Name)
	}
	slices.Sort(all)
	return all
}

func TestBucket(t *testing.T) {
	ctx := t.Context()
	b := s3.New(start(t, t.TempDir()).spec)
	if got := names(t, b); len(got) > 0 {
		t.Errorf("at first there are %v", got)
	}
	testkit.Must(t, b.Create(ctx, "c/one/a", text("first")))
	testkit.Must(t, b.Create(ctx, "c/one/a", text("second")))
	testkit.Must(t, b.Create(ctx, "c/empty", text("")))
	testkit.Must(t, b.Create(ctx, "other/b", text("theirs")))
	testkit.Must(t, b.Create(ctx, "c/large", large(2, func() error { return nil })))
	if got := names(t, b); !slices.Equal(got, []string{"c/empty", "c/large", "c/one/a"}) {
		t.Errorf("there are %v", got)
	}
	r, size, err := b.Open(ctx, "c/one/a")
	if err != nil || size != 6 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if got := testkit.Value(io.ReadAll(r))(t); string(got) != "second" {
		t.Errorf("it reads %q", got)
	}
	testkit.Must(t, r.Close())
	if _, size, err := b.Open(ctx, "c/large"); err != nil || size != 33<<20 {
		t.Errorf("%d bytes, %v", size, err)
	}
	testkit.Must(t, b.Remove(ctx, "c/one/a", "c/large", "c/empty", "c/never"))
	if got := names(t, b); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if _, _, err := b.Open(ctx, "c/one/a"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("after the removal: %v", err)
	}
}

// TestFailedUploads checks that a failed upload leaves nothing and reports its cause.
func TestFailedUploads(t *testing.T) {
	s := start(t, t.TempDir())
	b := s3.New(s.spec)
	own := errors.New("etcd is gone")
	if err := b.Create(t.Context(), "c/a", large(2, func() error { return own })); !errors.Is(err, own) {
		t.Errorf("of who fills it: %v", err)
	}
	if err := b.Create(t.Context(), "c/a", large(1, func() error { return io.ErrUnexpectedEOF })); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an end that is none: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Create(ctx, "c/a", large(2, func() error { cancel(); <-ctx.Done(); return ctx.Err() })); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("cancelled: %v", err)
	}
	if got := names(t, b); len(got) > 0 { // includes unfinished uploads
		t.Errorf("left: %v", got)
	}
	// the bucket disappears during an upload
	err := b.Create(t.Context(), "c/a", large(2, func() error { return os.RemoveAll(filepath.Join(s.data, "demo")) }))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("the bucket is gone: %v: %v", fail.KindOf(err), err)
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(s.data, "demo"), 0o755))
	if got := names(t, b); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	// the service stops permanently
	began := time.Now()
	err = b.Create(t.Context(), "c/a", large(2, func() error { s.stop(); return nil }))
	if fail.KindOf(err) != fail.Unreachable || time.Since(began) > 2*time.Minute {
		t.Errorf("the service is gone: %v: %v after %v", fail.KindOf(err), err, time.Since(began))
	}
	if _, err := b.List(t.Context(), "c"); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("the service is gone: %v: %v", fail.KindOf(err), err)
	}
}

// TestUnfinished checks that an unfinished upload is listed, is not a backup and can be removed.
func TestUnfinished(t *testing.T) {
	ctx := t.Context()
	b := s3.New(start(t, t.TempDir()).spec)
	hold, begun := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- b.Create(ctx, "c/20261123T110000Z-0001/manifest.json", large(2, func() error { close(begun); <-hold; return nil }))
	}()
	<-begun
	if got := names(t, b); len(got) != 1 || got[0] != "c/20261123T110000Z-0001/.upload-manifest.json" {
		t.Errorf("there are %v", got)
	}
	if sets := testkit.Value(backup.List(ctx, b, "c"))(t); len(sets) > 0 {
		t.Errorf("listed are %d sets", len(sets))
	}
	testkit.Must(t, b.Remove(ctx, names(t, b)...))
	if got := names(t, b); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	close(hold)
	if err := <-ended; err == nil {
		t.Error("an upload that was taken away came to its end")
	}
}

func TestRefused(t *testing.T) {
	s := start(t, t.TempDir())
	with := func(change func(*s3.Spec)) *s3.Bucket {
		spec := s.spec
		change(&spec)
		return s3.New(spec)
	}
	for name, c := range map[string]struct {
		b    *s3.Bucket
		kind fail.Kind
		say  string
	}{
		"another key":         {with(func(x *s3.Spec) { x.CredentialsFile = credentials(t, "nobody", "testsecret") }), fail.Unauthorized, "look at the credentials"},
		"another secret":      {with(func(x *s3.Spec) { x.CredentialsFile = credentials(t, "testkey", "wrongsecret") }), fail.Unauthorized, "look at the credentials"},
		"no credentials":      {with(func(x *s3.Spec) { x.CredentialsFile = "/nonexistent" }), fail.Unauthorized, "no such file"},
		"half credentials":    {with(func(x *s3.Spec) { x.CredentialsFile = credentials(t, "testkey", "") }), fail.Unauthorized, "aws_secret_access_key"},
		"no bucket":           {with(func(x *s3.Spec) { x.Bucket = "absent" }), fail.Refused, "make the bucket"},
		"not spoken in https": {with(func(x *s3.Spec) { x.Endpoint = strings.Replace(x.Endpoint, "http:", "https:", 1) }), fail.Invalid, "but the service speaks http"},
	} {
		err := c.b.Create(t.Context(), "c/a", text("x"))
		if fail.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.say) || strings.Contains(fmt.Sprint(err), "secret =") {
			t.Errorf("%s: create: %v: %v", name, fail.KindOf(err), err)
		}
		if _, err := c.b.List(t.Context(), "c"); fail.KindOf(err) != c.kind {
			t.Errorf("%s: list: %v: %v", name, fail.KindOf(err), err)
		}
	}
}

// TestFullDisk checks that a service's full disk is reported and leaves no set.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("naupegos-test", dir, "tmpfs", 0, "size=24m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	b := s3.New(start(t, dir).spec)
	err := b.Create(t.Context(), "c/a", large(3, func() error { return nil }))
	if k := fail.KindOf(err); k != fail.Refused && k != fail.Unreachable {
		t.Errorf("%v: %v", k, err)
	}
	t.Logf("it says: %v", err)
	if got := names(t, b); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}
