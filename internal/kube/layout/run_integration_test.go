//go:build integration

package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestControlPlaneRuns starts the programs of a rendered control-plane machine from its manifests, and records the cluster.
func TestControlPlaneRuns(t *testing.T) {
	p := testParams()
	b := bundletest.Of(t, p.Release.Version)
	p.Release.Bundle, p.ControlPlanes = b.Manifest, p.ControlPlanes[:1]
	k, n := testPKI(t, time.Now()), p.ControlPlanes[0]
	c, err := p.ControlPlane(t.Context(), k, n, p.NewEtcd())
	testkit.Must(t, err)
	h := newHost(t, c, n.Address, p.endpointHost())
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		var pod corev1.Pod
		testkit.Must(t, yaml.UnmarshalStrict(content(t, c, kubernetesDir+"/manifests/"+name+".yaml"), &pod))
		h.start(t, append([]string{bundletest.FromImage(t, b, name)}, pod.Spec.Containers[0].Command[1:]...)...)
	}
	for _, name := range []string{"kubeadm", "kubectl", "etcdctl"} {
		h.exec(t, nil, "ln", "-sf", bundletest.Program(t, b, name), binDir+"/"+name)
	}
	r := &running{h: h, p: p, k: k}
	begin := time.Now()
	r.eventually(t, "the API is ready", func() bool { _, err := r.kubectl(t, "super-admin", "get", "--raw", "/readyz"); return err == nil })
	t.Logf("the API is ready after %v", time.Since(begin).Round(time.Millisecond))

	t.Run("phases", func(t *testing.T) { r.phases(t, n) })
	t.Run("anonymous", func(t *testing.T) { r.anonymous(t) })
	t.Run("no token lets anybody join", func(t *testing.T) { r.tokens(t) })
	t.Run("secrets are encrypted and not logged", func(t *testing.T) { r.secrets(t) })
	t.Run("users", func(t *testing.T) { r.users(t) })
	t.Run("approver", func(t *testing.T) { r.approver(t) })
	t.Run("flannel", func(t *testing.T) { r.flannel(t) })
	t.Run("leaders", func(t *testing.T) {
		for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
			r.eventually(t, name+" leads", func() bool {
				out, err := r.kubectl(t, "admin", "-n", "kube-system", "get", "lease", name, "-o", "jsonpath={.spec.holderIdentity}")
				return err == nil && out != ""
			})
		}
	})
}

// running is a running control plane.
type running struct {
	h host
	p Params
	k *pki.PKI
}

func (r *running) kubectl(t *testing.T, conf string, args ...string) (string, error) {
	t.Helper()
	return r.h.try(t.Context(), nil, append([]string{binDir + "/kubectl", "--kubeconfig", kubernetesDir + "/" + conf + ".conf"}, args...)...)
}

func (r *running) must(t *testing.T, conf string, args ...string) string {
	t.Helper()
	out, err := r.kubectl(t, conf, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (r *running) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Until(t, 90*time.Second, 100*time.Millisecond, testkit.That(what, ok))
}

func (r *running) phases(t *testing.T, n Node) {
	for range 2 { // they may be repeated
		for _, p := range Phases() {
			begin := time.Now()
			out := r.h.exec(t, nil, p.Argv...)
			if p.Manifests != nil {
				manifests, err := p.Manifests([]byte(out))
				if err != nil {
					t.Fatal(err)
				}
				r.h.exec(t, manifests, binDir+"/kubectl", "--kubeconfig", kubernetesDir+"/super-admin.conf", "apply", "--server-side", "-f", "-")
			}
			t.Logf("%s: %v", p.Name, time.Since(begin).Round(time.Millisecond))
		}
	}
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: " + n.Name + ", labels: {kubernetes.io/hostname: " + n.Name + "}}\n"
	r.h.exec(t, []byte(node), binDir+"/kubectl", "--kubeconfig", kubernetesDir+"/admin.conf", "create", "-f", "-")
	r.h.exec(t, nil, MarkControlPlane().Argv...)
	if out := r.must(t, "admin", "get", "nodes", "--show-labels"); !strings.Contains(out, "node-role.kubernetes.io/control-plane=") {
		t.Errorf("the node is not marked:\n%s", out)
	}
	for _, object := range []string{
		"clusterrolebinding/kubeadm:cluster-admins", "clusterrolebinding/kubeadm:node-autoapprove-certificate-rotation",
		"-n kube-system configmap/kubeadm-config", "-n kube-system configmap/kubelet-config", "-n kube-public configmap/cluster-info",
		"-n kube-system daemonset/kube-proxy", "-n kube-system deployment/coredns",
	} {
		r.must(t, "admin", append([]string{"get"}, strings.Fields(object)...)...)
	}
	if out := r.must(t, "admin", "-n", "kube-system", "get", "deploy", "coredns", "-o", "jsonpath={..readinessProbe.periodSeconds}"); out != "1" {
		t.Errorf("CoreDNS is asked every %s s whether it is ready", out)
	}
	for _, workload := range []string{"deploy/coredns", "ds/kube-proxy"} {
		out := r.must(t, "admin", "-n", "kube-system", "get", workload, "-o", "jsonpath={..containers[0].env[*].name}")
		if !strings.Contains(out, "HTTP2_READ_IDLE_TIMEOUT_SECONDS HTTP2_PING_TIMEOUT_SECONDS") {
			t.Errorf("%s would keep connections to dead API servers; its environment: %s", workload, out)
		}
	}
	if out := r.must(t, "admin", "-n", "kube-system", "get", "deploy,ds", "-o", "jsonpath={.items[*].spec.template.spec.containers[*].image}"); !allIn(r.p, out) {
		t.Errorf("images that the bundle doesn't have: %s", out)
	}
}

// allIn reports whether the bundle has every image.
func allIn(p Params, refs string) bool {
	for _, ref := range strings.Fields(refs) {
		found := false
		for _, i := range p.Release.Bundle.Images {
			found = found || i.Ref == ref
		}
		if !found {
			return false
		}
	}
	return refs != ""
}

func (r *running) anonymous(t *testing.T) {
	for path, want := range map[string]string{
		"/readyz": "200", "/livez": "200", "/healthz": "200", "/api/v1/namespaces/kube-public/configmaps/cluster-info": "200",
		"/version": "401", "/api/v1/nodes": "401", "/api/v1/namespaces/kube-public/configmaps": "401", "/readyz/etcd": "401",
	} {
		got := r.h.exec(t, nil, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", pkiDir+"/ca.crt", "https://"+r.p.Endpoint+path)
		if got != want {
			t.Errorf("%s answers %s, not %s", path, got, want)
		}
	}
}

func (r *running) tokens(t *testing.T) {
	r.eventually(t, "the phase's token is gone", func() bool {
		out, err := r.h.try(t.Context(), nil, binDir+"/kubeadm", "token", "list", "--kubeconfig", kubernetesDir+"/admin.conf")
		return err == nil && !strings.Contains(out, "naupeg")
	})
	out := r.h.exec(t, nil, binDir+"/kubeadm", "token", "create", "--print-join-command", "--kubeconfig", kubernetesDir+"/admin.conf")
	if !strings.Contains(out, "kubeadm join "+r.p.Endpoint) {
		t.Errorf("kubeadm token create: %s", out)
	}
}

func (r *running) secrets(t *testing.T) {
	const secret = "hunter2-do-not-log"
	r.must(t, "admin", "create", "secret", "generic", "planted", "--from-literal=key="+secret)
	out := r.h.exec(t, nil, binDir+"/etcdctl", "--endpoints", "https://127.0.0.1:2379", "--cacert", pkiDir+"/etcd/ca.crt",
		"--cert", pkiDir+"/etcd/healthcheck-client.crt", "--key", pkiDir+"/etcd/healthcheck-client.key", "get", "/registry/secrets/default/planted")
	if !strings.Contains(out, "k8s:enc:secretbox:v1:key1:") || strings.Contains(out, secret) {
		t.Errorf("etcd holds it as it is: %q", out[:min(len(out), 200)])
	}
	var log string
	r.eventually(t, "the audit log tells of it", func() bool {
		log, _ = r.h.try(t.Context(), nil, "cat", auditLogDir+"/audit.log")
		return strings.Contains(log, "/secrets")
	})
	if strings.Contains(log, secret) {
		t.Error("the audit log holds a secret")
	}
	// Using a stolen token of one of the cluster's components leaves a trace, even if it is denied.
	token := r.must(t, "admin", "-n", "kube-system", "create", "token", "default")
	if out, err := r.h.try(t.Context(), nil, binDir+"/kubectl", "--kubeconfig", "/dev/null", "--server", "https://"+r.p.Endpoint,
		"--certificate-authority", pkiDir+"/ca.crt", "--token", strings.TrimSpace(token), "get", "secrets"); err == nil {
		t.Errorf("an account without rights reads Secrets: %s", out)
	}
	r.eventually(t, "the audit log tells who of kube-system asked for Secrets", func() bool {
		log, _ := r.h.try(t.Context(), nil, "cat", auditLogDir+"/audit.log")
		for line := range strings.Lines(log) {
			if strings.Contains(line, "/namespaces/default/secrets") && strings.Contains(line, "system:serviceaccount:kube-system:default") {
				return true
			}
		}
		return false
	})
}

// users: a user's kubeconfig authenticates as the user with its groups, and has their permissions.
func (r *running) users(t *testing.T) {
	conf := testkit.Value(r.p.UserKubeconfig(t.Context(), r.k, r.p.Endpoint, "ann", []string{"developers", "readers"}, time.Hour))(t)
	as := func(args ...string) (string, error) {
		return r.h.try(t.Context(), conf, append([]string{binDir + "/kubectl", "--kubeconfig", "/dev/stdin"}, args...)...)
	}
	out, err := as("auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups[*]}")
	words := strings.Fields(out)
	slices.Sort(words) // a certificate has groups in its own order
	if err != nil || !slices.Equal(words, []string{"ann", "developers", "readers", "system:authenticated"}) {
		t.Errorf("signed in as %s (%v)", out, err)
	}
	if out, err := as("get", "pods"); err == nil || !strings.Contains(out, "forbidden") {
		t.Errorf("nothing is granted, but: %s (%v)", out, err)
	}
	r.must(t, "admin", "create", "rolebinding", "readers", "--clusterrole=view", "--group=readers")
	r.eventually(t, "the group's rights count", func() bool { _, err := as("get", "pods"); return err == nil })
}

func (r *running) approver(t *testing.T) {
	r.h.exec(t, ApproverManifest(), binDir+"/kubectl", "--kubeconfig", kubernetesDir+"/admin.conf", "apply", "-f", "-")
	const group = "certificates.k8s.io"
	for _, c := range []struct {
		verb, group, resource, subresource, name, want string
	}{
		{"list", group, "certificatesigningrequests", "", "", "true"},
		{"update", group, "certificatesigningrequests", "approval", "", "true"},
		{"approve", group, "signers", "", "kubernetes.io/kubelet-serving", "true"},
		{"approve", group, "signers", "", "kubernetes.io/kube-apiserver-client", "false"},
		{"sign", group, "signers", "", "kubernetes.io/kubelet-serving", "false"},
		{"create", group, "certificatesigningrequests", "", "", "false"},
		{"get", "", "secrets", "", "", "false"},
	} {
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":`+
			`{"verb":%q,"group":%q,"resource":%q,"subresource":%q,"name":%q}}}`, c.verb, c.group, c.resource, c.subresource, c.name)
		question := fmt.Sprintf("may the approver %s %s/%s %s? %s", c.verb, c.resource, c.subresource, c.name, c.want)
		r.eventually(t, question, func() bool { // the API server learns of new roles a moment after their creation
			return c.want == r.h.exec(t, []byte(review), binDir+"/kubectl", "--kubeconfig", approverConf, "create", "--validate=false", "-f", "-", "-o", "jsonpath={.status.allowed}")
		})
	}
}

func (r *running) flannel(t *testing.T) {
	manifest, err := r.p.Flannel()
	testkit.Must(t, err)
	r.h.exec(t, manifest, binDir+"/kubectl", "--kubeconfig", kubernetesDir+"/admin.conf", "apply", "--server-side", "--validate=strict", "-f", "-")
	out := r.must(t, "admin", "-n", "kube-flannel", "get", "ds", "kube-flannel-ds", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
	if !allIn(r.p, out) {
		t.Errorf("images that the bundle doesn't have: %s", out)
	}
}
