//go:build integration

package swift_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// large writes the given number of MiB and calls then before the last byte.
func large(mib int, then func() error) func(io.Writer) error {
	return func(w io.Writer) error {
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range mib {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		if err := then(); err != nil {
			return err
		}
		_, err := w.Write(block[:1])
		return err
	}
}

func names(t *testing.T, c *swift.Container) (all []string) {
	t.Helper()
	for _, f := range testkit.Value(c.List(t.Context(), "c"))(t) {
		all = append(all, f.Name)
	}
	slices.Sort(all)
	return all
}

// TestSwift exercises a container of a real Swift, including failures. At the end it stops the services.
func TestSwift(t *testing.T) {
	began := time.Now()
	real := startCloud(t)
	t.Logf("FIGURE Keystone and Swift serve after %v", time.Since(began).Round(100*time.Millisecond))
	spec := real.spec(t)
	c := swift.New(spec)

	t.Run("files", func(t *testing.T) {
		ctx := t.Context()
		if got := names(t, c); len(got) > 0 {
			t.Errorf("at first there are %v", got)
		}
		testkit.Must(t, c.Create(ctx, "c/one/a", text("first")))
		testkit.Must(t, c.Create(ctx, "c/one/a", text("second")))
		testkit.Must(t, c.Create(ctx, "c/empty", text("")))
		testkit.Must(t, c.Create(ctx, "c/o n?e/ä%", text("odd")))
		testkit.Must(t, c.Create(ctx, "other/b", text("theirs")))
		testkit.Must(t, c.Create(ctx, "c/large", large(33, func() error { return nil })))
		if got := names(t, c); !slices.Equal(got, []string{"c/empty", "c/large", "c/o n?e/ä%", "c/one/a"}) {
			t.Errorf("there are %v", got)
		}
		for _, f := range testkit.Value(c.List(ctx, "c"))(t) {
			if off := time.Since(f.Modified).Abs(); off > 10*time.Minute || f.Name == "c/large" && f.Size != 33<<20+1 {
				t.Errorf("%s has %d bytes, and was written at %s", f.Name, f.Size, f.Modified)
			}
		}
		for name, want := range map[string]string{"c/one/a": "second", "c/o n?e/ä%": "odd", "c/empty": ""} {
			r, size, err := c.Open(ctx, name)
			if err != nil || size != int64(len(want)) {
				t.Fatalf("%s: %d bytes, %v", name, size, err)
			}
			if got := testkit.Value(io.ReadAll(r))(t); string(got) != want {
				t.Errorf("%s reads %q", name, got)
			}
			testkit.Must(t, r.Close())
		}
		testkit.Must(t, c.Remove(ctx, "c/one/a", "c/large", "c/empty", "c/never", "c/o n?e/ä%"))
		if got := names(t, c); len(got) > 0 {
			t.Errorf("left: %v", got)
		}
		if _, _, err := c.Open(ctx, "c/one/a"); fail.KindOf(err) != fail.NotFound {
			t.Errorf("after the removal: %v", err)
		}
	})
	t.Run("uploads that fail", func(t *testing.T) {
		own := errors.New("etcd is gone")
		if err := c.Create(t.Context(), "c/a", large(20, func() error { return own })); !errors.Is(err, own) {
			t.Errorf("of who fills it: %v", err)
		}
		if err := c.Create(t.Context(), "c/a", large(1, func() error { return io.ErrUnexpectedEOF })); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("an end that is none: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.Create(ctx, "c/a", large(20, func() error { cancel(); <-ctx.Done(); return ctx.Err() })); fail.KindOf(err) != fail.Interrupted {
			t.Errorf("cancelled: %v", err)
		}
		if got := names(t, c); len(got) > 0 {
			t.Errorf("left: %v", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		with := func(change func(*swift.Spec)) *swift.Container {
			s := spec
			change(&s)
			return swift.New(s)
		}
		for name, x := range map[string]struct {
			c    *swift.Container
			kind fail.Kind
			say  string
		}{
			"another credential":  {with(func(s *swift.Spec) { s.CredentialsFile = credential(t, "nobody", real.Secret) }), fail.Unauthorized, "look at the application credential"},
			"another secret":      {with(func(s *swift.Spec) { s.CredentialsFile = credential(t, real.ID, "wrong") }), fail.Unauthorized, "look at the application credential"},
			"no credential":       {with(func(s *swift.Spec) { s.CredentialsFile = "/nonexistent" }), fail.Unauthorized, "no such file"},
			"half a credential":   {with(func(s *swift.Spec) { s.CredentialsFile = credential(t, real.ID, "") }), fail.Unauthorized, "OS_APPLICATION_CREDENTIAL_SECRET"},
			"no container":        {with(func(s *swift.Spec) { s.Container = "absent" }), fail.Refused, "make the container"},
			"another region":      {with(func(s *swift.Spec) { s.Region = "Moon" }), fail.Refused, "no object store in region Moon"},
			"not Keystone":        {with(func(s *swift.Spec) { s.AuthURL = real.proxy + "/none" }), fail.Refused, "address of Keystone"},
			"not spoken in https": {with(func(s *swift.Spec) { s.AuthURL = strings.Replace(s.AuthURL, "http:", "https:", 1) }), fail.Invalid, "but the service speaks http"},
		} {
			err := x.c.Create(t.Context(), "c/a", text("x"))
			if fail.KindOf(err) != x.kind || !strings.Contains(fmt.Sprint(err), x.say) || strings.Contains(fmt.Sprint(err), real.Secret) {
				t.Errorf("%s: create: %v: %v", name, fail.KindOf(err), err)
			}
			if _, err := x.c.List(t.Context(), "c"); fail.KindOf(err) != x.kind {
				t.Errorf("%s: list: %v: %v", name, fail.KindOf(err), err)
			}
		}
	})
	t.Run("a token that is revoked", func(t *testing.T) {
		r := testkit.Value(http.NewRequest(http.MethodDelete, real.keystone+"/v3/auth/tokens", nil))(t)
		r.Header.Set("X-Auth-Token", real.token)
		r.Header.Set("X-Subject-Token", c.Token())
		res := testkit.Value(http.DefaultClient.Do(r))(t)
		testkit.Must(t, res.Body.Close())
		if res.StatusCode != http.StatusNoContent {
			t.Fatalf("revoked: %s", res.Status)
		}
		testkit.Must(t, c.Create(t.Context(), "c/a", text("x")))
		testkit.Must(t, c.Remove(t.Context(), "c/a"))
	})
	t.Run("an empty disk in place of the one that was there", func(t *testing.T) {
		dir := filepath.Join(real.dir, "devices", "d1")
		testkit.Must(t, unix.Mount("naupegos-test", dir, "tmpfs", 0, "size=24m"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		err := c.Create(t.Context(), "c/a", text("x"))
		t.Logf("its content is lost: %v", err)
		if fail.KindOf(err) != fail.Refused {
			t.Errorf("%v: %v", fail.KindOf(err), err)
		}
	})
	t.Run("the store goes in the middle", func(t *testing.T) {
		began := time.Now()
		err := c.Create(t.Context(), "c/a", large(20, func() error { real.stop("proxy"); return nil }))
		if fail.KindOf(err) != fail.Unreachable || time.Since(began) > 2*time.Minute {
			t.Errorf("%v: %v after %v", fail.KindOf(err), err, time.Since(began))
		}
		if _, err := c.List(t.Context(), "c"); fail.KindOf(err) != fail.Unreachable {
			t.Errorf("%v: %v", fail.KindOf(err), err)
		}
		real.stop("keystone")
		if _, err := swift.New(spec).List(t.Context(), "c"); fail.KindOf(err) != fail.Unreachable {
			t.Errorf("with Keystone stopped: %v: %v", fail.KindOf(err), err)
		}
	})
}
