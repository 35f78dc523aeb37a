//go:build integration

package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// built is a Kubernetes release whose executables are available.
type built struct {
	manifest bundle.Manifest
	path     func(name string) string // of an executable
}

// releases are the releases in the bundle library. If NAUPEGOS_KUBEADM names a kubeadm of the newest known release, they include the executables
// beside it.
func releases(t *testing.T) []built {
	t.Helper()
	var out []built
	if kubeadm := os.Getenv("NAUPEGOS_KUBEADM"); kubeadm != "" {
		out = append(out, built{bundletest.Manifest(testParams().Release.Version), func(name string) string {
			if path := os.Getenv("NAUPEGOS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); path != "" {
				return path
			}
			return filepath.Join(filepath.Dir(kubeadm), name)
		}})
	}
	for _, b := range bundletest.All(t) {
		out = append(out, built{b.Manifest, func(name string) string { return bundletest.Program(t, b, name) }})
	}
	if len(out) == 0 {
		t.Fatal("there is no bundle in the library: make one (naupegos bundle build), or name a kubeadm in NAUPEGOS_KUBEADM")
	}
	return out
}

// rootFS is the part of a machine's file system that kubeadm reads.
type rootFS struct {
	dir     string
	kubeadm string
}

func newRootFS(t *testing.T, kubeadm string, c machine.Config) rootFS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("kubeadm --rootfs changes its root: run this test as root")
	}
	r := rootFS{t.TempDir(), kubeadm}
	// kubeadm mounts those that exist.
	for _, dir := range []string{"tmp", "etc/ssl/certs", "etc/ca-certificates", "usr/share/ca-certificates", "usr/local/share/ca-certificates"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(r.dir, dir), 0o755))
	}
	for _, f := range c.Files {
		path := filepath.Join(r.dir, f.Path)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, f.Content, f.Mode))
	}
	return r
}

func (r rootFS) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.kubeadm, append([]string{"--rootfs", r.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubeadm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (r rootFS) read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, path))
	testkit.Must(t, err)
	return data
}

// variants are the clusters whose files the tests compare with kubeadm's.
func variants(m bundle.Manifest) map[string]Params {
	soft, service, openstack := testParams(), testParams(), testParams()
	soft.Harden, soft.AuditLog, soft.Encryption, soft.APIServerSANs = false, false, nil, nil
	soft.Endpoint = "api.example.org:443"
	service.EtcdMode = EtcdService
	openstack.ExternalCloud = true
	openstack.ControlPlanes[0].Cloud = testInstance()
	out := map[string]Params{"cloud": testParams(), "local": localParams(), "soft": soft, "service": service, "openstack": openstack}
	for name, p := range out {
		p.Release = Release{Version: m.Kubernetes, Bundle: m}
		out[name] = p
	}
	return out
}

// TestKubeadmAgrees: the real kubeadm makes a control-plane machine's files from our configuration, and they equal ours.
func TestKubeadmAgrees(t *testing.T) {
	for _, r := range releases(t) {
		for name, p := range variants(r.manifest) {
			t.Run(r.manifest.Kubernetes+"/"+name, func(t *testing.T) { kubeadmAgrees(t, p, r.path("kubeadm")) })
		}
	}
}

func kubeadmAgrees(t *testing.T, p Params, kubeadm string) {
	k := testPKI(t, time.Now())
	n := p.ControlPlanes[0]
	host, err := os.Hostname()
	testkit.Must(t, err)
	n.Facts.Hostname = host // kubeadm checks this machine's
	// One member: kubeadm writes no other.
	start := EtcdStart{State: "new", InitialCluster: map[string]string{n.Name: PeerURL(n)}}
	c, err := p.ControlPlane(t.Context(), k, n, start)
	testkit.Must(t, err)
	r := newRootFS(t, kubeadm, c)
	const config = "--config=" + KubeadmConfigPath

	if out := r.run(t, "config", "validate", config); strings.Contains(out, "WARNING") {
		t.Errorf("kubeadm config validate warns:\n%s", out)
	}
	// kubeadm compares existing files with those that it would create, and keeps them.
	r.run(t, "init", "phase", "certs", "all", config)
	r.run(t, "init", "phase", "kubeconfig", "all", config)
	r.run(t, "init", "phase", "control-plane", "all", config)
	if p.EtcdMode == EtcdStacked {
		r.run(t, "init", "phase", "etcd", "local", config)
	}
	r.run(t, "init", "phase", "kubelet-start", config)

	for _, f := range c.Files {
		switch {
		case strings.HasPrefix(f.Path, kubernetesDir+"/manifests/"), f.Path == kubeletConfigPath:
			if diff := cmp.Diff(parsed(t, r.read(t, f.Path)), parsed(t, f.Content)); diff != "" {
				t.Errorf("%s (-kubeadm +ours):\n%s", f.Path, diff)
			}
		case f.Path == kubeletFlagsPath: // ours includes the taint, so that no pod is scheduled before kubeadm adds it
			want := strings.Replace(string(f.Content), " --register-with-taints=node-role.kubernetes.io/control-plane:NoSchedule", "", 1)
			if diff := cmp.Diff(string(r.read(t, f.Path)), want); diff != "" {
				t.Errorf("%s (-kubeadm +ours):\n%s", f.Path, diff)
			}
		default:
			if diff := cmp.Diff(string(r.read(t, f.Path)), string(f.Content)); diff != "" {
				t.Errorf("kubeadm has changed %s:\n%s", f.Path, diff)
			}
		}
	}
	for _, path := range filesUnder(t, r.dir, "etc/kubernetes") {
		if !has(c, path) {
			t.Errorf("kubeadm makes %s, which we don't", path)
		}
	}
	out := r.run(t, "certs", "check-expiration", config)
	for _, name := range []string{"admin.conf", "apiserver-kubelet-client", "front-proxy-client", "super-admin.conf"} {
		if !strings.Contains(out, name) || strings.Contains(out, "!MISSING!") {
			t.Errorf("kubeadm certs check-expiration:\n%s", out)
		}
	}
	r.run(t, "certs", "renew", "all", config)
}

// parsed parses YAML without our annotation.
func parsed(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var m map[string]any
	testkit.Must(t, yaml.Unmarshal(data, &m))
	if meta, ok := m["metadata"].(map[string]any); ok {
		if notes, ok := meta["annotations"].(map[string]any); ok {
			delete(notes, filesAnnotation)
			if len(notes) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	if status, ok := m["status"].(map[string]any); ok && len(status) == 0 {
		delete(m, "status")
	}
	return m
}

func has(c machine.Config, path string) bool {
	for _, f := range c.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}

func filesUnder(t *testing.T, root, dir string) []string {
	t.Helper()
	var out []string
	testkit.Must(t, filepath.Walk(filepath.Join(root, dir), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			out = append(out, strings.TrimPrefix(path, root))
		}
		return err
	}))
	return out
}
