//go:build integration

package runner

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
)

type silent struct{}

func (silent) Status(string, ...any) {}

// TestOwnImageIsUnpacked unpacks the root file system of a disk from Glance, and checks that data with another digest than the image's properties
// are refused.
func TestOwnImageIsUnpacked(t *testing.T) {
	needMachines(t)
	tree := t.TempDir()
	name := filepath.Join(tree, "usr", "file")
	if err := os.Mkdir(filepath.Dir(name), 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("here\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 1234, 4321); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(makeDisk(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	glance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/file") {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"id": "it", "name": "it", "disk_format": "raw"}`)
	}))
	defer glance.Close()
	c := &cloud{image: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: glance.URL + "/"}}
	sum := sha512.Sum512(data)
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	base := c.ownImage(content{Image: "it", Bundle: "b", SHA512: hex.EncodeToString(sum[:])})
	if err := base.Unpack(t.Context(), root, silent{}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("stat", "-c", "%u:%g %a %s", filepath.Join(root, "usr"), filepath.Join(root, "usr", "file")).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "1234:4321 640 5\n") || !strings.HasPrefix(string(out), "0:0 751 ") {
		t.Errorf("%v: %s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(root), "disk-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	data[len(data)-1]++
	if err := base.Unpack(t.Context(), root, silent{}); fail.KindOf(err) != fail.Conflict {
		t.Errorf("data with another digest: %v", err)
	}
}

// makeDisk creates a disk with a partition table whose second partition contains a tree.
func makeDisk(t *testing.T, tree string) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.raw")
	for _, c := range []struct{ stdin, line string }{
		{"", "truncate -s 24M " + disk},
		{"label: gpt\n2 : start=8192, size=32768, type=" + linuxRoot + "\n14 : start=2048, size=2048\n", "sfdisk --quiet " + disk},
		{"", fmt.Sprintf("mke2fs -q -F -t ext4 -d %s -E offset=%d,root_owner=0:0 %s 16M", tree, 8192*512, disk)},
	} {
		f := strings.Fields(c.line)
		cmd := exec.Command(f[0], f[1:]...)
		cmd.Stdin = strings.NewReader(c.stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c.line, err, out)
		}
	}
	return disk
}
