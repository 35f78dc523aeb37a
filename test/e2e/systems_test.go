//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// buildSystem puts a system image with these options below dir. It reuses an image in the user's cache from the same agent, bundle and code, because
// installing Debian's packages and compressing the result take minutes.
func buildSystem(t *testing.T, o image.Options, dir string) *order.System {
	t.Helper()
	began := time.Now()
	o.Agent, o.Version = filepath.Join(filepath.Dir(built.bin), "naupegos-agent"), "test"
	o.Output = filepath.Join(testkit.Value(os.UserCacheDir())(t), "naupegos", "test-systems", systemKey(t, o))
	testkit.Must(t, os.MkdirAll(o.Output, 0o755))
	lock := testkit.Value(os.Create(filepath.Join(o.Output, "lock")))(t)
	defer lock.Close()
	testkit.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	removeOldSystems(t, filepath.Dir(o.Output))
	kept := testkit.Value(image.Systems(o.Output))(t)
	from := "found"
	if len(kept) == 0 {
		from, kept = "built", []order.System{*testkit.Value(image.BuildSystem(t.Context(), o))(t)}
	}
	s := &kept[0]
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	if out, err := exec.Command("cp", "-a", "--reflink=auto", filepath.Join(o.Output, s.ID[7:]), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s a system image of %d MiB, %d to fetch, in %v", from, s.Root.RawSize>>20, s.Root.Size>>20, time.Since(began).Round(time.Second))
	return s
}

// systemKey identifies the content of a system image: the options, the agent, and the code that builds the image.
func systemKey(t *testing.T, o image.Options) string {
	t.Helper()
	sum := sha256.New()
	fmt.Fprintln(sum, o.Virtual, testkit.Value(rootfs.FileDigest(o.Agent))(t))
	if o.Bundle != nil {
		fmt.Fprintln(sum, o.Bundle.ID, len(o.Bundle.Manifest.Images), len(o.Bundle.Manifest.Binaries))
	}
	for _, pkg := range []string{"image", "rootfs", "machine", "agent/install/slots"} {
		for _, file := range testkit.Value(filepath.Glob(filepath.Join("../../internal", pkg, "*.go")))(t) {
			if !strings.HasSuffix(file, "_test.go") {
				fmt.Fprintln(sum, file, testkit.Value(rootfs.FileDigest(file))(t))
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// removeOldSystems removes cached images that no test has used for two days.
func removeOldSystems(t *testing.T, cache string) {
	t.Helper()
	for _, lock := range testkit.Value(filepath.Glob(filepath.Join(cache, "*", "lock")))(t) {
		if st, err := os.Stat(lock); err == nil && time.Since(st.ModTime()) > 48*time.Hour {
			testkit.Must(t, os.RemoveAll(filepath.Dir(lock)))
		}
	}
}
