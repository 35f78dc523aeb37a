//go:build e2e && image

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// sentMiB is the limit of the data sent to a machine of the image until it is a node; without the bundle in the image it would be hundreds more.
const sentMiB = 48

// TestOwnImage makes an image, uploads it to the real Glance, and applies a cluster whose machines have that image's root file system: nothing of
// the bundle is sent to them.
func TestOwnImage(t *testing.T) {
	c := newCloudWith(t, filepath.Join(built.dir, "own-images"))
	r, s := c.rig(t, "own", 0)
	s.image = s.upload(t, r)
	z := size{controlPlanes: 1, workers: 1}
	r.document(z)
	began := time.Now()
	res := r.apply()
	r.healthy()
	t.Logf("FIGURE apply with an image of one's own, unpacked by the runner meanwhile: %v", time.Since(began).Round(time.Second))
	if strings.Contains(res.stdout+res.stderr, "uploading blob") {
		t.Errorf("blobs were sent: %v", res)
	}
	for _, m := range r.status().Machines {
		s.hasAll(t, r, m.Name)
	}
	r.unchanged()
	r.destroy()
}

// upload makes an image and uploads it twice; the second upload must do nothing. It returns the image's name.
func (s *onCloud) upload(t *testing.T, r *rig) string {
	t.Helper()
	file := filepath.Join(r.dir, s.begin+"own.qcow2")
	res := r.must(0, "image", "build", "--kubernetes", v1alpha1.LatestKubernetes, "--file", file)
	t.Logf("FIGURE image build: %v: %s", res.took.Round(time.Second), strings.TrimSpace(res.stdout))
	var made struct{ ID, Name, Done string }
	for _, want := range []string{"uploaded", "unchanged"} {
		res := r.must(0, "image", "upload", file, "--cloud", bed.Cloud, "-o", "json")
		if err := json.Unmarshal([]byte(res.stdout), &made); err != nil || made.Done != want {
			t.Fatalf("want an image that is %s: %v: %v", want, err, res)
		}
		t.Logf("FIGURE image upload: %s in %v", made.Done, res.took.Round(time.Second))
		if want == "uploaded" {
			t.Cleanup(func() { s.deleteImage(t, made.ID) })
		}
	}
	if err := os.Remove(file); err != nil { // Glance has a copy
		t.Error(err)
	}
	return made.Name
}

func (s *onCloud) deleteImage(t *testing.T, id string) {
	c := s.api.by["image"]
	if _, err := c.Delete(context.Background(), c.ServiceURL("images", id), &gophercloud.RequestOpts{OkCodes: []int{204}}); err != nil {
		t.Errorf("remove the image: %v", err)
	}
}

// hasAll asserts that a machine has the image's root file system, and received none of the image's files.
func (s *onCloud) hasAll(t *testing.T, r *rig, name string) {
	t.Helper()
	if inside := r.ssh(name, "cat /usr/local/lib/naupegos/image"); !strings.Contains(inside, v1alpha1.LatestKubernetes) {
		t.Errorf("%s is not a machine of the image: %q", name, inside)
	}
	// The machine ID was written when the disk was made.
	if sent := r.ssh(name, fmt.Sprintf("find %s %s -type f -newer /etc/machine-id", machine.BlobDir, machine.AgentDir)); sent != "" {
		t.Errorf("%s was sent %s", name, sent)
	}
	text := r.ssh(name, "cat /sys/class/net/host0/statistics/rx_bytes")
	received, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || received>>20 > sentMiB {
		t.Errorf("%s received %d MiB, want at most %d (%v)", name, received>>20, sentMiB, err)
	}
	t.Logf("FIGURE %s has received %.1f MiB", name, float64(received)/(1<<20))
}
