//go:build openstack

package openstack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestPreflightTellsAll wants all at once that a real cloud does not have.
func TestPreflightTellsAll(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-wrong", `  provider:
    openstack:
      externalNetwork: outback
      network: {existing: nowhere}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 1}
  endpoint: {kind: octavia, floatingIP: 198.51.100.254, octavia: {flavor: triple, provider: f5}}
  controlPlane: {replicas: 1, machine: {flavor: huge, zones: [atlantis]}}
  workers:
    - {name: a, replicas: 1, machine: {image: beos, rootVolumeType: stone}}
    - {name: b, replicas: 1}
`)
	doc.Spec.Workers[1].Machine.RootVolumeGiB = new(0)
	p, _ := testProvider(t, doc, "t4-wrong-0badcafe")
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	err := p.Preflight(ctx, wanted(doc))
	if fail.KindOf(err) != fail.Refused {
		t.Fatalf("%v", err)
	}
	t.Logf("%v", err)
	for _, want := range []string{
		`flavor "huge", wanted for control-plane, does not exist; there are: m1.large`,
		`flavor v1.small of pool b has no disk: set rootVolumeGiB`,
		`image "beos", wanted for pool a,`,
		`availability zone atlantis, wanted for control-plane, does not exist`,
		`volume type stone, wanted for pool a, does not exist`,
		`called outback`,
		`no load-balancer flavor called triple`,
		`no provider f5; there are: amphora`,
		`the project has no floating IP 198.51.100.254`,
		`called nowhere`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// TestCredentialsAreTold: errors about unusable credentials name their source and the problem, without the secret.
func TestCredentialsAreTold(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	n := newTenant(ctx, t, "reader")
	for _, x := range []struct {
		cloud string
		kind  fail.Kind
		want  []string
	}{
		{n.wrong, fail.Unauthorized, []string{`cloud "` + n.wrong + `" of /`, "clouds.yaml"}},
		{n.cloud, fail.Refused, []string{"lack the role load-balancer_member", "they have reader", `cloud "` + n.cloud + `" of /`}},
	} {
		doc := testDocument(t, "t4-cred", strings.Replace(n.spec, n.cloud, x.cloud, 1))
		p, _ := testProvider(t, doc, "t4-cred-0badcafe")
		_, err := p.Observe(ctx)
		if fail.KindOf(err) != x.kind {
			t.Errorf("%s: kind %s of %v", x.cloud, fail.KindOf(err), err)
			continue
		}
		t.Logf("%v", err)
		for _, w := range x.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in: %v", x.cloud, w, err)
			}
		}
		if strings.Contains(err.Error(), "not-secret") {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}
