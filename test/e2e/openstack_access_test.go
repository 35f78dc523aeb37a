//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/kube"
)

// handOver writes a hand-over of the cluster into a directory of the rig, and returns the directory.
func (r *rig) handOver(to string) string {
	r.t.Helper()
	dir := filepath.Join(r.dir, to)
	r.must(0, "handover", r.name, dir)
	return dir
}

// handedOver uses a hand-over as its recipient would: it asks the cluster, logs in to each machine, and asks the cloud.
func handedOver(t *testing.T, r *rig, _ *load) {
	dir := r.handOver("handover")
	conf, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.NewClient(conf, kube.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.WaitReady(t.Context()); err != nil {
		t.Errorf("the cluster does not answer with the handed-over kubeconfig: %v", err)
	}
	machines := r.status().Machines
	for _, m := range machines {
		cmd := exec.CommandContext(t.Context(), "ssh", "-F", "ssh_config", "-o", "BatchMode=yes", m.Name, "hostname")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != m.Name {
			t.Errorf("log in to %s with the ssh_config: %v: %s", m.Name, err, out)
		}
	}
	cloud, err := loginFrom(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := servers.List(cloud, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen, err := servers.ExtractServers(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		found := false
		for _, s := range seen {
			found = found || s.Name == m.Name
		}
		if !found {
			t.Errorf("the handed-over clouds.yaml does not show server %s", m.Name)
		}
	}
}

// loginFrom logs in to the cloud with a hand-over's clouds.yaml; its paths are relative to its directory.
func loginFrom(ctx context.Context, dir string) (*gophercloud.ServiceClient, error) {
	text, err := os.ReadFile(filepath.Join(dir, "clouds.yaml"))
	if err != nil {
		return nil, err
	}
	here := strings.NewReplacer("cacert: cloud-ca.crt", "cacert: "+filepath.Join(dir, "cloud-ca.crt")).Replace(string(text))
	var file struct{ Clouds map[string]any }
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if len(file.Clouds) != 1 {
		return nil, fmt.Errorf("the hand-over names %d clouds", len(file.Clouds))
	}
	name := slices.Collect(maps.Keys(file.Clouds))[0]
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudsYAML(strings.NewReader(here)), clouds.WithCloudName(name))
	if err != nil {
		return nil, err
	}
	p, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	return openstack.NewComputeV2(p, endpoint)
}

// credentialRotated rotates the credential of the cluster's controllers: they continue with a new one, which the cloud limits to their calls. The
// credential in a hand-over is a different one, and stays valid.
func credentialRotated(t *testing.T, r *rig, _ *load) {
	s := r.site.(*onCloud) //nolint:forcetypeassert // of a cluster in a cloud
	before := s.credentials(r)
	former := r.handOver("former")
	r.must(0, "certs", "rotate", r.name, "--cloud-credential", "--yes")
	after := s.credentials(r)
	if len(before) != 1 || len(after) != 1 || before[0] == after[0] {
		t.Errorf("the cluster had the credentials %v and has %v: want one, and another one", before, after)
	}
	for _, dir := range []string{former, r.handOver("latter")} {
		if _, err := loginFrom(t.Context(), dir); err != nil {
			t.Errorf("the credential handed over in %s: %v", dir, err)
		}
	}
	if out := r.run("doctor", r.name).stdout; !strings.Contains(out, "allows only the calls that the cluster makes") {
		t.Errorf("the cluster's credential has no access rules:\n%s", out)
	}
	client, err := kube.NewClient(r.kubeconfig(), kube.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	echo, err := ensureBundle(t, v1alpha1.LatestKubernetes).Image("echo")
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.CloudSmoke(t.Context(), kube.CloudSmokeOptions{Image: echo.Ref, NoLoadBalancer: true, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatalf("with the new credential: %v", err)
	}
	t.Logf("FIGURE a claim is bound %v after the rotation of the credential", got.Volume.Round(100*time.Millisecond))
	r.unchanged()
}

// credentials lists the IDs of the cluster's application credentials.
func (s *onCloud) credentials(r *rig) []string {
	r.t.Helper()
	all, err := s.api.of(r.t.Context(), r.clusterID())
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []string
	for _, t := range all {
		if t.kind == "application_credentials" && strings.Contains(t.name, ".cloud.") {
			ids = append(ids, t.id)
		}
	}
	return ids
}
