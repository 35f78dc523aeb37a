//go:build e2e

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/test/openstack/bed"
	"github.com/naupegos/naupegos/test/openstack/runner/runner"
)

// cloud is the OpenStack test bed with a runner that runs the servers on this test's networks as containers. Rigs share it.
type cloud struct {
	bed   *bed.Bed
	api   *cloudAPI
	begin string // prefix of all clusters' names: two runs of a test on one host must not serve each other's
	octet byte   // of the subnets, for the same reason
	log   string // the runner's
	image string // of machines

	mu    sync.Mutex
	hosts map[string]string // this host's ID of a cluster's machines, by the cluster's ID
}

// bedTime limits starting and stopping the bed, including the creation of its databases on a new host.
const bedTime = 12 * time.Minute

// newCloud starts the bed unless it runs already, and stops it after the test in that case; it also starts a runner for the test's clusters. It
// skips the test if the bed can't run.
func newCloud(t *testing.T) *cloud {
	t.Helper()
	return newCloudWith(t, "")
}

// newCloudWith makes the runner keep its unpacked images in its own directory, unless images is empty.
func newCloudWith(t *testing.T, images string) *cloud {
	t.Helper()
	var unique [3]byte
	if _, err := rand.Read(unique[:]); err != nil {
		t.Fatal(err)
	}
	begin := runner.TestPrefix + hex.EncodeToString(unique[:]) + "-"
	c := &cloud{bed: startBed(t), begin: begin, octet: unique[0] &^ 1, image: bed.MachineImage, log: filepath.Join(built.dir, begin+"runner.log"), hosts: map[string]string{}}
	found := ensureBundle(t, v1alpha1.LatestKubernetes)
	if err := c.bed.EnsureMachineImage(t.Context(), found.ID); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.api, err = login(t.Context(), c.bed); err != nil {
		t.Fatal(err)
	}
	c.run(t, images)
	return c
}

// rig prepares the n-th cluster in the cloud, without creating it.
func (c *cloud) rig(t *testing.T, name string, n byte) (*rig, *onCloud) {
	t.Helper()
	s := &onCloud{cloud: c, entry: bed.Cloud, cidr: fmt.Sprintf("10.94.%d.0/24", c.octet+n)}
	r := newRigOn(t, s, c.begin+name)
	r.inv.timeout = 10 * time.Minute // all services of the cloud share this host with the cluster
	return r, s
}

func startBed(t *testing.T) *bed.Bed {
	t.Helper()
	var log strings.Builder
	began := time.Now()
	b, giveBack, err := bed.Borrow(t.Context(), bed.Options{Timeout: bedTime, Log: &log})
	if fail.KindOf(err) == fail.Refused {
		t.Skipf("no OpenStack here: %v", err)
	}
	if err != nil {
		t.Fatalf("start the OpenStack test bed: %v\n%s", err, log.String())
	}
	t.Logf("FIGURE the OpenStack test bed runs after %v", time.Since(began).Round(time.Second))
	t.Cleanup(func() {
		began := time.Now()
		if err := giveBack(); err != nil {
			t.Errorf("stop the OpenStack test bed: %v", err)
		}
		t.Logf("FIGURE stop of the OpenStack test bed, where this test started it: %v", time.Since(began).Round(time.Second))
	})
	return b
}

// ensureBundle returns a release's bundle with the addons for OpenStack, and builds it if this host lacks it.
func ensureBundle(t *testing.T, kubernetes string) *bundle.Bundle {
	t.Helper()
	b, err := bundletest.Library(t).Ensure(t.Context(), kubernetes, bundle.EnsureOptions{Addons: []string{bundle.AddonOpenStack}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run starts the runner, which ends with the test.
func (c *cloud) run(t *testing.T, images string) {
	t.Helper()
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(c.bed.MetadataSecretFile())
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(built.dir, c.begin+"runner")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := runner.Start(t.Context(), runner.Options{
		State: state, CloudsYAML: c.bed.CloudsYAML(), Cloud: bed.AdminCloud, Consoles: c.bed.ConsoleDir(),
		MetadataURL: c.bed.MetadataURL(), MetadataSecret: strings.TrimSpace(string(secret)), Networks: []string{c.begin + "*"},
		Machines: local.Options{
			ImageRoot: images, AgentBinary: filepath.Join(filepath.Dir(built.bin), "naupegos-agent"), Supervisor: []string{built.bin, local.SupervisorCommand},
		},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := errors.Join(r.Stop(ctx), log.Close()); err != nil {
			t.Error(err)
		}
	})
}

// onCloud is the site of one cluster in the cloud.
type onCloud struct {
	*cloud
	entry string // entry of clouds.yaml for the cloud
	cidr  string
	alike *lookAlikes // foreign resources; nil before plant
}

func (s *onCloud) provider() string {
	return fmt.Sprintf("    openstack:\n      cloud: %s\n      externalNetwork: public\n      network:\n        cidr: %s\n      machine:\n        flavor: m1.medium\n        image: %s\n",
		s.entry, s.cidr, s.image)
}

func (s *onCloud) endpoint() (string, string) {
	return "    kind: octavia\n", "    machine:\n      floatingIP: true\n"
}

func (s *onCloud) env() []string { return []string{"OS_CLIENT_CONFIG_FILE=" + s.bed.CloudsYAML()} }

// quick is long here: all services of the cloud share this host with the cluster.
func (s *onCloud) quick() time.Duration { return 30 * time.Second }

// failover is long for the same reason, and because another cluster grows meanwhile; on an idle host it takes 1.6 s.
func (s *onCloud) failover() time.Duration { return 15 * time.Second }

// host identifies a cluster's machines by their network, as the runner does.
func (s *onCloud) host(r *rig) string {
	r.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.id == "" {
		r.record()
	}
	id := r.id
	if h := s.hosts[id]; h != "" {
		return h
	}
	net, err := s.api.network(context.Background(), id)
	if err != nil {
		r.t.Errorf("find the network of cluster %s: %v", r.name, err)
		return "os-unknown"
	}
	s.hosts[id] = "os-" + net[:8]
	return s.hosts[id]
}

func (s *onCloud) off(r *rig, machine string) {
	r.t.Helper()
	r.must(0, "machine", "kill", r.name, machine, "--yes")
}

// gone checks the cloud's lists, and this host, where machines and the bridge go a little later than their servers.
func (s *onCloud) gone(r *rig) {
	r.t.Helper()
	left, err := s.api.of(r.t.Context(), r.id)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, thing := range left {
		if !s.alike.owns(thing) {
			r.t.Errorf("the cloud still has %s", thing)
		}
	}
	if s.alike != nil {
		s.alike.survive(r.t)
	}
	until(r.t, time.Minute, time.Second, func() error {
		if d := r.was.diff(takeSnapshot(r.t), s.host(r)); len(d) > 0 {
			return fmt.Errorf("%s (%s) left its mark: %s", r.name, s.host(r), strings.Join(d, "; "))
		}
		return nil
	})
}

// search passes the cloud's data about the cluster to clean: its items in all lists, and the user data, metadata and consoles of servers, from
// Nova's database and this host.
func (s *onCloud) search(r *rig, clean func(where string, text []byte)) {
	r.t.Helper()
	things, err := s.api.of(r.t.Context(), r.clusterID())
	if err != nil {
		r.t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, t := range things {
		kinds[t.kind]++
		clean("the cloud's list of "+t.kind, t.text)
		switch t.kind {
		case "servers":
			s.searchServer(r, t, clean)
		case "pools":
			members, err := s.api.list(r.t.Context(), list{"balance", "lbaas/pools/" + t.id + "/members", "members", ""})
			if err != nil || len(members) == 0 {
				r.t.Errorf("the members of %s: %d, %v", t, len(members), err)
			}
			for _, m := range members {
				clean("the cloud's list of members", m.text)
			}
		}
	}
	if kinds["servers"] != len(r.status().Machines) || kinds["loadbalancers"] == 0 && r.size.gateways == 0 || kinds["networks"] == 0 {
		r.t.Errorf("the cloud's lists were not read as a whole: %v", kinds)
	}
	for _, table := range []string{"instance_metadata", "instance_system_metadata"} {
		rows, err := s.bed.DB(r.t.Context(), "nova", "SELECT * FROM "+table)
		if err != nil || len(rows) == 0 {
			r.t.Errorf("read %s: %v", table, err)
		}
		for _, row := range rows {
			clean("Nova's "+table, []byte(strings.Join(row, "\n")))
		}
	}
}

func (s *onCloud) searchServer(r *rig, t thing, clean func(where string, text []byte)) {
	r.t.Helper()
	rows, err := s.bed.DB(r.t.Context(), "nova", "SELECT user_data FROM instances WHERE uuid = '"+t.id+"'")
	if err != nil || len(rows) != 1 {
		r.t.Fatalf("read the user-data of %s: %d rows, %v", t, len(rows), err)
	}
	data, err := unpackUserData(rows[0][0])
	if err != nil || !strings.Contains(string(data), t.name) {
		r.t.Errorf("the user-data of %s was not understood (%v): %q", t, err, data)
	}
	clean("Nova's user-data of "+t.name, data)
	console, err := os.ReadFile(filepath.Join(s.bed.ConsoleDir(), t.id+".log"))
	if err != nil {
		r.t.Error(err)
	}
	clean("Nova's console of "+t.name, console)
}

// unpackUserData reverts the encoding of user data for Nova.
func unpackUserData(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// evidence saves the logs of the services and the runner, and the cluster's resources in the cloud.
func (s *onCloud) evidence(r *rig, save func(name, text string)) {
	for name, text := range s.bed.LastLogs() {
		save("openstack."+name, text)
	}
	if text, err := os.ReadFile(s.log); err == nil {
		save("openstack."+filepath.Base(s.log), string(text))
	}
	things, err := s.api.of(context.Background(), r.id)
	var b strings.Builder
	for _, t := range things {
		fmt.Fprintf(&b, "%s\n%s\n", t, t.text)
	}
	save("openstack.things.txt", fmt.Sprintf("%serrors: %v\n", b.String(), err))
}
