package layout

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kubeletv1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

func render(t *testing.T, p Params, k *pki.PKI, index int) machine.Config {
	t.Helper()
	c, err := p.ControlPlane(t.Context(), k, p.ControlPlanes[index], p.NewEtcd())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func content(t *testing.T, c machine.Config, path string) []byte {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == path {
			return f.Content
		}
	}
	t.Fatalf("there is no %s", path)
	return nil
}

func annotations(t *testing.T, c machine.Config) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(content(t, c, kubernetesDir+"/manifests/"+name+".yaml"), &pod); err != nil {
			t.Fatal(err)
		}
		out[name] = pod.Annotations[filesAnnotation]
	}
	return out
}

func TestRenderingTwiceGivesTheSame(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	for i := range p.ControlPlanes {
		if a, b := render(t, p, k, i), render(t, p, k, i); a.Digest() != b.Digest() {
			t.Errorf("machine %d: %s", i, cmp.Diff(a, b))
		}
	}
}

// TestOnlyPodsThatUseAFileRestart changes the pods' files, one by one.
func TestOnlyPodsThatUseAFileRestart(t *testing.T) {
	api, kcm, sched, etcd := "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"
	for name, c := range map[string]struct {
		drop string // the forgotten secret, which is recreated
		mod  func(*Params)
		want []string
	}{
		"nothing":        {},
		"the API's own":  {drop: "leaf/demo-cp-1/apiserver", want: []string{api}},
		"etcd's own":     {drop: "leaf/demo-cp-1/etcd-peer", want: []string{etcd}},
		"scheduler.conf": {drop: "leaf/demo-cp-1/scheduler", want: []string{sched}},
		"tokens' key":    {drop: "service-account", want: []string{api, kcm}},
		"encryption":     {drop: "encryption-at-rest", want: []string{api}},
		"admin.conf":     {drop: "leaf/demo-cp-1/admin"},
		"a machine more": {mod: func(p *Params) { p.Machines["demo-general-2"] = []string{"10.0.0.22"} }},
		"a control plane": {mod: func(p *Params) {
			p.ControlPlanes = append(p.ControlPlanes, Node{Name: "demo-cp-4", Address: "10.0.0.14"})
		}},
		"audit log off": {mod: func(p *Params) { p.AuditLog = false }, want: []string{api}},
		"audit policy":  {mod: func(p *Params) { p.AuditOptions.Policy = "rules: []\n" }, want: []string{api}},
	} {
		t.Run(name, func(t *testing.T) {
			secrets, p := &pkitest.MemorySecrets{}, testParams()
			open := func() *pki.PKI { return pki.Open(secrets, pki.Options{Now: func() time.Time { return testTime }}) }
			start := p.NewEtcd()
			before, err := p.ControlPlane(t.Context(), open(), p.ControlPlanes[0], start)
			if err != nil {
				t.Fatal(err)
			}
			if c.drop != "" {
				if _, err := secrets.Get(t.Context(), c.drop); err != nil {
					t.Fatal(err)
				}
				secrets.Forget(c.drop)
			}
			if c.mod != nil {
				c.mod(&p)
			}
			after, err := p.ControlPlane(t.Context(), open(), p.ControlPlanes[0], start)
			if err != nil {
				t.Fatal(err)
			}
			var changed []string
			was, is := annotations(t, before), annotations(t, after)
			for pod := range was {
				path := kubernetesDir + "/manifests/" + pod + ".yaml"
				same := bytes.Equal(content(t, before, path), content(t, after, path))
				if same != (was[pod] == is[pod]) {
					t.Errorf("%s: its digest is not why it changes", pod)
				}
				if !same {
					changed = append(changed, pod)
				}
			}
			slices.Sort(changed)
			slices.Sort(c.want)
			if !slices.Equal(changed, c.want) {
				t.Errorf("pods that restart: %v, not %v", changed, c.want)
			}
		})
	}
}

func TestAuditLogIsKeptAsWanted(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	p.AuditOptions = AuditLog{MaxAgeDays: 7, MaxBackups: 2, MaxSizeMiB: 50, Policy: "rules: []\n"}
	c := render(t, p, k, 0)
	if got := string(content(t, c, auditPolicyPath)); got != "rules: []\n" {
		t.Errorf("policy is %q", got)
	}
	for _, path := range []string{kubernetesDir + "/manifests/kube-apiserver.yaml", KubeadmConfigPath} {
		text := string(content(t, c, path))
		for name, value := range map[string]string{"maxage": "7", "maxbackup": "2", "maxsize": "50"} {
			if !regexp.MustCompile(`audit-log-` + name + `(=|\n *value: ")` + value + `\b`).MatchString(text) {
				t.Errorf("%s does not say %s %s", path, name, value)
			}
		}
	}
}

func TestSecretsAreMarkedAndPrivate(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	configs := []machine.Config{render(t, p, k, 0), render(t, p, k, 1)}
	worker, err := p.Worker(t.Context(), k, testWorker(p))
	if err != nil {
		t.Fatal(err)
	}
	private := regexp.MustCompile(`PRIVATE KEY|` + base64.StdEncoding.EncodeToString([]byte("-----BEGIN EC PRIVATE KEY"))[:28] + `|secret: \S{43}=`)
	found := 0
	for _, c := range append(configs, worker) {
		for _, f := range c.Files {
			holds := private.Match(f.Content)
			if holds {
				found++
			}
			if holds && (!f.Secret || f.Mode != 0o600) {
				t.Errorf("%s of %s holds a key, but is not marked as secret with mode 0600", f.Path, c.Machine)
			}
			if f.Path == pkiDir+"/ca.key" && c.Machine == worker.Machine {
				t.Error("a worker gets the authority's key")
			}
		}
	}
	if want := 18 + 17 + 1; found != want { // the first has super-admin.conf as well; see the golden files
		t.Errorf("%d files with keys were found, not %d", found, want)
	}
}

func TestManifestsComeLast(t *testing.T) {
	c := render(t, testParams(), testPKI(t, testTime), 0)
	seen := false
	for _, f := range c.Files {
		manifest := strings.HasPrefix(f.Path, kubernetesDir+"/manifests/")
		if seen && !manifest && (strings.HasPrefix(f.Path, pkiDir+"/") || strings.HasPrefix(f.Path, ourDir+"/")) {
			t.Errorf("%s is written after a pod that reads it", f.Path)
		}
		seen = seen || manifest
	}
}

func TestOnlyTheFirstHasSuperAdmin(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	for i, want := range []bool{true, false, false} {
		c := render(t, p, k, i)
		if has := slices.ContainsFunc(c.Files, func(f machine.File) bool { return f.Path == kubernetesDir+"/super-admin.conf" }); has != want {
			t.Errorf("machine %d has super-admin.conf: %v", i, has)
		}
	}
}

func TestKubeletConfigDecodesStrictly(t *testing.T) {
	for _, p := range []Params{testParams(), localParams()} {
		c := render(t, p, testPKI(t, testTime), 0)
		var k kubeletv1.KubeletConfiguration
		if err := yaml.UnmarshalStrict(content(t, c, kubeletConfigPath), &k); err != nil {
			t.Fatal(err)
		}
		v1 := p.SharedKernel // as in the fixture
		if driver := map[bool]string{true: "cgroupfs", false: "systemd"}[v1]; k.CgroupDriver != driver || (k.FailCgroupV1 != nil) != v1 ||
			k.ProtectKernelDefaults == v1 {
			t.Errorf("%s: driver %s, failCgroupV1 %v, protectKernelDefaults %v", p.ClusterName, k.CgroupDriver, k.FailCgroupV1, k.ProtectKernelDefaults)
		}
	}
}

// TestSchedulableControlPlane: kubelet registers without the taint that keeps ordinary pods away, because no later step removes it.
func TestSchedulableControlPlane(t *testing.T) {
	p := testParams()
	for schedulable, want := range map[bool]int{false: 1, true: 0} {
		n := p.ControlPlanes[0]
		n.Schedulable = schedulable
		if n.Taints = controlPlaneTaints(n); n.Taints == nil || len(n.Taints) != want || strings.Contains(p.kubeletFlags(n), "--register-with-taints") == schedulable {
			t.Errorf("schedulable %v: %v, %s", schedulable, n.Taints, p.kubeletFlags(n))
		}
	}
}

func TestKubeletMayLabel(t *testing.T) {
	for key, want := range map[string]bool{
		"pool": true, "example.org/pool": true, "node.kubernetes.io/x": true, "a.kubelet.kubernetes.io/x": true,
		"node-role.kubernetes.io/worker": false, "kubernetes.io/x": false, "x.k8s.io/y": false, "mykubernetes.io/x": true,
	} {
		if kubeletMayLabel(key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}

func TestKubeadmConfigIsTheClustersOnEveryMachine(t *testing.T) {
	p := testParams()
	p.ControlPlanes[1].Facts = testFacts(1)
	var clusters []string
	for _, n := range p.ControlPlanes {
		data, err := p.KubeadmConfig(n)
		if err != nil {
			t.Fatal(err)
		}
		_, cluster, _ := strings.Cut(string(data), "---\n")
		clusters = append(clusters, cluster)
	}
	if clusters[0] != clusters[1] || clusters[1] != clusters[2] {
		t.Error("the cluster's records depend on the recording machine")
	}
}

func TestOlderReleaseGivesTheAPIServersKubeletClientItsGroup(t *testing.T) {
	p := testParams()
	p.Release = testRelease("v1.35.4")
	crt := describePEM(content(t, render(t, p, testPKI(t, testTime), 0), pkiDir+"/apiserver-kubelet-client.crt"))
	if !bytes.Contains(crt, []byte("O=kubeadm:cluster-admins")) {
		t.Errorf("%s", crt)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	without := func(mod func(*Params)) Params { p := testParams(); mod(&p); return p }
	for name, c := range map[string]struct {
		p    Params
		kind fail.Kind
		says string
	}{
		"version":  {without(func(p *Params) { p.Release.Version = "1.36" }), fail.Internal, `"1.36" is not of a supported minor`},
		"endpoint": {without(func(p *Params) { p.Endpoint = "10.0.0.10" }), fail.Internal, "host:port"},
		"network":  {without(func(p *Params) { p.PodCIDR = "x" }), fail.Internal, "pod network"},
		"etcd":     {without(func(p *Params) { p.EtcdMode = "" }), fail.Internal, "etcd mode"},
		"cni":      {without(func(p *Params) { p.CNI = "" }), fail.Internal, "pod network"},
		"image": {without(func(p *Params) {
			p.Release.Bundle.Images = slices.DeleteFunc(p.Release.Bundle.Images, func(i bundle.Image) bool { return i.Name == "kube-scheduler" })
		}), fail.NotFound, "kube-scheduler"},
		"binary": {without(func(p *Params) {
			p.Release.Bundle.Binaries = slices.DeleteFunc(p.Release.Bundle.Binaries, func(a bundle.Artifact) bool { return a.Name == "kubelet" })
		}), fail.NotFound, "kubelet"},
	} {
		_, err := c.p.ControlPlane(t.Context(), testPKI(t, testTime), testParams().ControlPlanes[0], testParams().NewEtcd())
		if fail.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := testParams()
	for name, start := range map[string]EtcdStart{"no state": {InitialCluster: p.NewEtcd().InitialCluster}, "not in it": {State: "new"}} {
		if _, err := p.ControlPlane(t.Context(), testPKI(t, testTime), p.ControlPlanes[0], start); err == nil {
			t.Errorf("etcd: %s is accepted", name)
		}
	}
}

func TestApproverMayApproveNothingElse(t *testing.T) {
	role, _, _ := bytes.Cut(ApproverManifest(), []byte("---\n"))
	var r rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(role, &r); err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.Rules {
		if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Verbs, "approve") && !slices.Equal(rule.ResourceNames, []string{"kubernetes.io/kubelet-serving"}) {
			t.Errorf("%+v", rule)
		}
	}
}

func TestPhases(t *testing.T) {
	for _, p := range append(Phases(), MarkControlPlane()) {
		if p.Name == "" || p.Argv[0] != "/usr/local/bin/kubeadm" || !slices.Contains(p.Argv, p.NeedsConfigPath) {
			t.Errorf("%+v", p)
		}
	}
	has := slices.ContainsFunc(render(t, testParams(), testPKI(t, testTime), 1).Files, func(f machine.File) bool { return f.Path == KubeadmConfigPath })
	if !has {
		t.Errorf("a control-plane machine lacks %s", KubeadmConfigPath)
	}
}

// TestKubeletsGoByTheirOwnMachine: a container in a cluster does not affect machines with their own kernels.
func TestKubeletsGoByTheirOwnMachine(t *testing.T) {
	p := testParams()
	p.SharedKernel = true // one of them is a container
	for _, container := range []bool{false, true} {
		n := testWorker(p)
		n.Facts.Container = container
		config := string(testkit.Value(p.kubeletConfig(n, ""))(t))
		if strings.Contains(config, "protectKernelDefaults: true") == container {
			t.Errorf("container: %v, and the kubelet's configuration is\n%s", container, config)
		}
		conf := testkit.Value(p.Runtime(n, "worker"))(t)
		if _, set := conf.Sysctls["vm.overcommit_memory"]; set == container {
			t.Errorf("container: %v, and its kernel settings are %v", container, conf.Sysctls)
		}
	}
}
