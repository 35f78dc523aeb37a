//go:build openstack

package bed_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestBedsLife checks what clusters need from the bed: machines, volumes, load balancers, a stopped worker, and a restart of all services. It
// restarts the bed, so no other test may use the bed at the same time.
func TestBedsLife(t *testing.T) {
	b := up(t)
	began := time.Now()
	if up(t); time.Since(began) > 20*time.Second {
		t.Errorf("a second start took %s although all services run", time.Since(began))
	}
	c := connect(t, b.CloudsYAML())
	r := c.makeAll(t)
	t.Run("serves", func(t *testing.T) { serves(t, b, c, r) })
	t.Run("worker", func(t *testing.T) { workerAway(t, b, c) })
	t.Run("rest", func(t *testing.T) { startsTheRest(t, b) })
	t.Run("restart", func(t *testing.T) { restart(t, b, c, r) })
	c.deleteAll(t, r)
}

// up starts the bed, and stops it after the test if it did not run before.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	b, giveBack, err := bed.Borrow(t.Context(), bed.Options{Log: testLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := giveBack(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// serves checks what the runner and the tests rely on: user-data in the database and from the metadata service, and the console.
func serves(t *testing.T, b *bed.Bed, c *client, r *resources) {
	rows, err := b.DB(t.Context(), "nova", "SELECT user_data FROM instances WHERE uuid='"+r.server+"'")
	if err != nil || len(rows) != 1 || rows[0][0] != base64.StdEncoding.EncodeToString([]byte(userData)) {
		t.Errorf("user-data in the database: %v %v", rows, err)
	}
	servesZone(t, b)
	if got := metadata(t, b, c, r, "/openstack/latest/user_data"); got != userData {
		t.Errorf("the metadata service gives user-data %q", got)
	}
	const said = "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 AAAA test\n-----END SSH HOST KEY KEYS-----\n"
	file := filepath.Join(b.ConsoleDir(), r.server+".log")
	if err := os.WriteFile(file, []byte(said), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	console, err := servers.ShowConsoleOutput(t.Context(), c.compute, r.server, servers.ShowConsoleOutputOpts{}).Extract()
	if err != nil || console != said {
		t.Errorf("console output is %q, %v", console, err)
	}
}

// servesZone checks that BIND has the zone from Designate.
func servesZone(t *testing.T, b *bed.Bed) {
	t.Helper()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(b.Address(), "53"))
	}}
	servers, err := r.LookupNS(t.Context(), bed.Zone)
	if err != nil || len(servers) != 1 || servers[0].Host != "ns1."+bed.Zone {
		t.Errorf("BIND's name servers of %s: %v, %v", bed.Zone, servers, err)
	}
}

// metadata queries Nova's metadata service as a metadata proxy does.
func metadata(t *testing.T, b *bed.Bed, c *client, r *resources, path string) string {
	t.Helper()
	secret, err := os.ReadFile(b.MetadataSecretFile())
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(strings.TrimSpace(string(secret))))
	mac.Write([]byte(r.server))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.MetadataURL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Instance-ID", r.server)
	req.Header.Set("X-Tenant-ID", c.project)
	req.Header.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v: %s", resp.Status, err, body)
	}
	return string(body)
}

// workerAway stops Cinder's worker and checks that a volume is accepted and is created once the worker is back.
func workerAway(t *testing.T, b *bed.Bed, c *client) {
	s := b.Service("cinder-volume")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Running() {
		t.Fatal("cinder-volume still runs after it was stopped")
	}
	v, err := volumes.Create(t.Context(), c.volume, volumes.CreateOpts{Name: "bed-test-worker", Size: 1}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.waitVolume(t, v.ID, "available")
	if err := volumes.Delete(t.Context(), c.volume, v.ID, nil).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	c.waitVolume(t, v.ID, "")
}

// startsTheRest checks that Up starts stopped services and leaves running ones alone.
func startsTheRest(t *testing.T, b *bed.Bed) {
	before, err := os.ReadFile(filepath.Join(b.Root(), "run", "nova-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Service("octavia-worker").Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := bed.Open(bed.Options{}); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "octavia-worker") {
		t.Errorf("Open without octavia-worker: %v", err)
	}
	if up(t); !b.Service("octavia-worker").Running() {
		t.Error("octavia-worker does not run after Up")
	}
	if after, err := os.ReadFile(filepath.Join(b.Root(), "run", "nova-api.json")); err != nil || string(after) != string(before) {
		t.Errorf("nova-api was started again: %s, %s; %v", before, after, err)
	}
}

// restart stops all services, checks that nothing is left, starts them again and checks that everything is unchanged.
func restart(t *testing.T, b *bed.Bed, c *client, r *resources) {
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range b.Services() {
		if s.Running() {
			t.Errorf("%s still runs after Stop", s.Name)
		}
	}
	if left := processesWith(b.Root()); len(left) > 0 {
		t.Errorf("processes left after Stop: %v", left)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if strings.HasPrefix(a.String(), b.Address()+"/32") {
			t.Errorf("address %s is left after Stop", a)
		}
	}
	if _, err := bed.Open(bed.Options{}); fail.KindOf(err) != fail.NotFound {
		t.Errorf("Open of a stopped bed: %v", err)
	}
	if _, err := bed.Up(t.Context(), bed.Options{Log: testLog{t}}); err != nil {
		t.Fatal(err)
	}
	*c = *connect(t, b.CloudsYAML())
	c.waitServer(t, r.server, "ACTIVE")
	lb, err := loadbalancers.Get(t.Context(), c.balancer, r.balancer).Extract()
	if err != nil || lb.ProvisioningStatus != "ACTIVE" {
		t.Errorf("load balancer after the restart: %+v %v", lb, err)
	}
	servesZone(t, b)
	if err := servers.Stop(t.Context(), c.compute, r.server).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	c.waitServer(t, r.server, "SHUTOFF")
}

// processesWith lists processes whose command line names dir.
func processesWith(dir string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), dir+"/") {
			found = append(found, f+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
