package v1alpha1_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// living holds a document of a running cluster for each provider.
var living = map[string]string{
	"local": `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  kubernetes: {version: ` + v1alpha1.LatestKubernetes + `, podCIDR: 10.244.0.0/16}
  provider: {local: {}}
  endpoint: {kind: gateways, gateways: {replicas: 2}}
  controlPlane: {replicas: 3}
  etcd: {mode: stacked}
  workers:
    - {name: general, replicas: 2}
    - {name: batch, replicas: 1, labels: {disk: fast}}
  security: {encryptionAtRest: true}
  access:
    wireguard: {cidr: 172.30.153.0/24, peers: [{name: ann}, {name: bob}]}
`,
	"hosts": `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider:
    hosts:
      sshKeyFile: key
      trustOnFirstUse: true
      machines:
        - {name: one, address: 192.0.2.1, role: control-plane}
        - {name: two, address: 192.0.2.2, role: worker}
        - {name: three, address: 192.0.2.3, role: worker}
  endpoint: {kind: address, address: lb.example.org}
`,
	"openstack": `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider:
    openstack: {cloud: mine, externalNetwork: public, machine: {flavor: m1, image: debian}}
  endpoint: {kind: octavia}
  controlPlane: {replicas: 1}
  workers: [{name: general, replicas: 1}]
`,
	"metal": `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {metal: {pools: [{name: general, disk: {serial: ZA1B, data: [S1]}}]}}
  endpoint: {kind: address, address: lb.example.org}
  workers: [{name: general, replicas: 1}]
`,
}

// TestChanges edits the documents of running clusters, one change at a time.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		of, from, to string
		want         string // field: class, of each change
	}{
		{"local", "version: " + v1alpha1.LatestKubernetes, "version: v1.35.4", "spec.kubernetes.version: rolling"},
		{"local", "version: " + v1alpha1.LatestKubernetes + ", ", "", ""}, // equal to the default
		{"local", "podCIDR: 10.244.0.0/16", "podCIDR: 10.250.0.0/16", "spec.kubernetes.podCIDR: refused"},
		{"local", "podCIDR: 10.244.0.0/16", "serviceCIDR: 10.97.0.0/16", "spec.kubernetes.serviceCIDR: refused"},
		{"local", "podCIDR: 10.244.0.0/16", "dnsDomain: k8s.local", "spec.kubernetes.dnsDomain: refused"},
		{"local", "podCIDR: 10.244.0.0/16}", "cni: none}\n  smokeTest: false", "spec.kubernetes.cni: refused spec.smokeTest: free"},
		{"local", "mode: stacked", "mode: service", "spec.etcd.mode: refused"},
		{"local", "encryptionAtRest: true", "encryptionAtRest: false", "spec.security.encryptionAtRest: rolling"},
		{"local", "encryptionAtRest: true", "cisDefaults: false", "spec.security.cisDefaults: rolling"},
		{"local", "encryptionAtRest: true", "auditLog: {enabled: false}", "spec.security.auditLog.enabled: rolling"},
		{"local", "encryptionAtRest: true", "auditLog: {maxBackups: 3}", "spec.security.auditLog.maxBackups: rolling"},
		{"local", "kind: gateways, gateways: {replicas: 2}", "kind: address, address: lb.example.org",
			"spec.endpoint.kind: refused spec.endpoint.gateways: free spec.endpoint.address: refused spec.access.wireguard: free"},
		{"local", "gateways: {replicas: 2}", "gateways: {replicas: 3}", "spec.endpoint.gateways.replicas: free"},
		{"local", "gateways: {replicas: 2}", "gateways: {replicas: 2, ingress: {}}", "spec.endpoint.gateways.ingress: rolling"},
		{"local", "gateways: {replicas: 2}", "dnsName: k8s.example.org", "spec.endpoint.dnsName: rolling"},
		{"local", "gateways: {replicas: 2}", "port: 7443", "spec.endpoint.port: refused"},
		{"local", "controlPlane: {replicas: 3}", "controlPlane: {replicas: 5}", "spec.controlPlane.replicas: free"},
		{"local", "controlPlane: {replicas: 3}", "controlPlane: {replicas: 3, schedulable: true}", "spec.controlPlane.schedulable: free"},
		{"local", "{name: general, replicas: 2}", "{name: general, replicas: 4}", "spec.workers[0].replicas: free"},
		{"local", "    - {name: general, replicas: 2}\n", "", "spec.workers[0]: free"}, // pool batch is now the first, and unchanged
		{"local", "labels: {disk: fast}", "labels: {disk: slow}", "spec.workers[1].labels: free"},
		{"local", "labels: {disk: fast}", "labels: {disk: fast}, taints: [{key: a, effect: NoSchedule}]", "spec.workers[1].taints: free"},
		{"local", "name: general", "name: ordinary", "spec.workers[0]: free spec.workers[0]: free"},
		{"local", "cidr: 172.30.153.0/24", "cidr: 172.30.154.0/24", "spec.access.wireguard.cidr: refused"},
		{"local", "{name: ann}, ", "", "spec.access.wireguard.peers[0]: free"},
		{"local", "provider: {local: {}}", "provider: {local: {}}\n  smokeTest: false", "spec.smokeTest: free"},
		{"local", "provider: {local: {}}", "provider: {local: {}}\n  protect: true", "spec.protect: free"},
		{"local", "provider: {local: {}}", "provider: {local: {}}\n  timeouts: {drain: 7m}", "spec.timeouts.drain: free"},
		{"hosts", "address: 192.0.2.2", "address: 192.0.2.9", "spec.provider.hosts.machines[1].address: refused"},
		{"hosts", "        - {name: two, address: 192.0.2.2, role: worker}\n", "", "spec.provider.hosts.machines[1]: free spec.workers[0].replicas: free"},
		{"hosts", "192.0.2.3, role: worker}\n", "192.0.2.3, role: control-plane}\n        - {name: four, address: 192.0.2.4, role: control-plane}\n",
			"spec.provider.hosts.machines[2].role: refused spec.provider.hosts.machines[2].pool: refused spec.provider.hosts.machines[3]: free " +
				"spec.controlPlane.replicas: free spec.workers[0].replicas: free"},
		{"hosts", "  endpoint:", "  security: {packetFilter: {enabled: false}}\n  endpoint:", "spec.security.packetFilter.enabled: free"},
		{"hosts", "  endpoint:", "  security: {packetFilter: {admit: [192.0.2.0/24]}}\n  endpoint:", "spec.security.packetFilter.admit: free"},
		{"hosts", "sshKeyFile: key", "sshKeyFile: other", "spec.provider.hosts.sshKeyFile: free"},
		{"metal", "serial: ZA1B", "serial: ZA2C", "spec.provider.metal.pools[0].disk.serial: free"},
		{"metal", "serial: ZA1B, data: [S1]", "minGiB: 100, data: [S1, S2]",
			"spec.provider.metal.pools[0].disk.serial: free spec.provider.metal.pools[0].disk.minGiB: free spec.provider.metal.pools[0].disk.data: free"},
		{"openstack", "flavor: m1", "flavor: m2", "spec.provider.openstack.machine.flavor: consent"},
		{"openstack", "externalNetwork: public", "externalNetwork: other", "spec.provider.openstack.externalNetwork: refused"}, // live
		{"openstack", "kind: octavia", "kind: octavia, octavia: {internal: true}", "spec.endpoint.octavia.internal: consent"},
	} {
		t.Run(c.of+" "+c.to, func(t *testing.T) {
			before := living[c.of]
			after := strings.Replace(before, strings.ReplaceAll(c.from, `\n`, "\n"), strings.ReplaceAll(c.to, `\n`, "\n"), 1)
			if after == before {
				t.Fatalf("the document has no %q", c.from)
			}
			if strings.Contains(c.to, "kind: address") {
				after, _, _ = strings.Cut(after, "  access:")
			}
			was := testkit.Value(validation.Parse("before", []byte(before)))(t)
			now := testkit.Value(validation.Parse("after", []byte(after)))(t)
			var got []string
			for _, ch := range v1alpha1.Changes(was, now) {
				got = append(got, fmt.Sprintf("%s: %s", ch.Field, ch.Rule.Class))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("changes: %q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

// TestRefusal: all changes that a running cluster can't follow are reported at once, each with its line and a hint.
func TestRefusal(t *testing.T) {
	text := strings.NewReplacer(v1alpha1.LatestKubernetes, "v1.35.4", "10.244.0.0/16", "10.250.0.0/16", "mode: stacked", "mode: service",
		"encryptionAtRest: true", "encryptionAtRest: false", "replicas: 3", "replicas: 5").Replace(living["local"])
	was := testkit.Value(validation.Parse("before", []byte(living["local"])))(t)
	now := testkit.Value(validation.Parse("after", []byte(text)))(t)
	refused := v1alpha1.Refused(v1alpha1.Changes(was, now)).Locate("cluster.yaml", []byte(text))
	if len(refused) != 2 || fail.KindOf(refused) != fail.Refused {
		t.Fatalf("%d changes are refused, as %s", len(refused), fail.KindOf(refused))
	}
	var is v1alpha1.Refusal
	if err := fmt.Errorf("apply: %w", refused); !errors.As(err, &is) {
		t.Error("a wrapped refusal is none")
	}
	testkit.Golden(t, "refusal.txt", refused.Error()+"\n")
	if same := v1alpha1.Refused(v1alpha1.Changes(was, was)); same != nil {
		t.Errorf("nothing changed, and is refused: %v", same)
	}
}

// TestFilledInDocumentsCompare: a document with all defaults written out can be parsed again and has no changes.
func TestFilledInDocumentsCompare(t *testing.T) {
	for of, text := range living {
		was := testkit.Value(validation.Parse(of, []byte(text)))(t)
		now := testkit.Value(validation.Parse(of, testkit.Value(was.Marshal())(t)))(t)
		if changes := v1alpha1.Changes(was, now); len(changes) > 0 {
			t.Errorf("%s: %+v", of, changes)
		}
	}
}
