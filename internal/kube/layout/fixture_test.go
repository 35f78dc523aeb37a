package layout

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/release"
)

// testTime is the clock of rendered certificates that no real program verifies.
var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPKI(t *testing.T, now time.Time) *pki.PKI {
	t.Helper()
	k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{Now: func() time.Time { return now }})
	if err := k.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func testFacts(cgroup int) machine.Facts {
	return machine.Facts{CgroupVersion: cgroup, SysResource: cgroup == 2, AppArmor: cgroup == 2}
}

func testRelease(version string) Release {
	return Release{Version: version, Bundle: bundletest.Manifest(version)}
}

// testParams is a hardened cluster of three members in a cloud.
func testParams() Params {
	p := Params{
		ClusterName: "demo", Endpoint: "10.0.0.10:6443", Release: testRelease(release.Default),
		PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/16", DNSDomain: "cluster.local",
		EtcdMode: EtcdStacked, CNI: CNIFlannel,
		APIServerSANs: []string{"demo.example.org", "192.0.2.7"},
		AuditLog:      true, Encryption: []string{pki.FirstEncryptionKey, Plaintext}, Harden: true,
		AgentPath: machine.AgentDir + "/0123abcd/naupegos-agent",
		Machines:  map[string][]string{"demo-general-1": {"10.0.0.21"}},
	}
	for i, name := range []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"} {
		address := "10.0.0.1" + string(rune('1'+i))
		p.ControlPlanes = append(p.ControlPlanes, Node{Name: name, Address: address, Facts: testFacts(2)})
		p.Machines[name] = []string{address}
	}
	return p
}

// localParams is a cluster of local containers on a cgroup v1 host.
func localParams() Params {
	p := testParams()
	p.SharedKernel = true
	p.APIServerSANs = nil
	for i := range p.ControlPlanes {
		p.ControlPlanes[i].Facts = testFacts(1)
		p.ControlPlanes[i].Facts.Container = true
	}
	return p
}

func testWorker(p Params) Node {
	return Node{
		Name: "demo-general-1", Address: "10.0.0.21", Facts: p.ControlPlanes[0].Facts,
		Labels:     map[string]string{"pool": "general", "node-role.kubernetes.io/worker": "", "node.kubernetes.io/zone": "a"},
		Taints:     []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}},
		ResolvConf: "/run/systemd/resolve/resolv.conf",
	}
}

func testInstance() CloudInstance {
	return CloudInstance{ProviderID: "openstack:///6b4ac2ae-4bbd-4d38-9b1e-2a7d1f4ba3c5", Zone: "nova"}
}
