package v1alpha1_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/testkit"
)

// goodFiles returns the documents that must be accepted.
func goodFiles(t testing.TB) []string {
	return append(files(t, "testdata/good/*.yaml"), files(t, "../../examples/*.yaml")...)
}

func mustParse(t testing.TB, name string, data []byte) *v1alpha1.Cluster {
	t.Helper()
	c, err := validation.Parse(name, data)
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	return c
}

// TestGoodDocuments compares the canonical form of good documents with testdata/good/NAME.golden.
func TestGoodDocuments(t *testing.T) {
	for _, path := range goodFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c := mustParse(t, path, read(t, path))
			checkAccepted(t, c)
			out, err := c.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, "good/"+strings.TrimSuffix(filepath.Base(path), ".yaml")+".golden", out)
		})
	}
}

// checkAccepted checks properties of every document that Parse accepts.
func checkAccepted(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	if errs := validation.Validate(c); len(errs) > 0 {
		t.Errorf("Validate after Parse: %v", errs)
	}
	out, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, "canonical", out)
	again.Spec.Kubernetes.VersionLeftOut = c.Spec.Kubernetes.VersionLeftOut // the canonical form leaves nothing out
	if d := cmp.Diff(c, again); d != "" {
		t.Errorf("canonical form reads differently (-first +again):\n%s", d)
	}
	again.Default()
	if d := cmp.Diff(c, again); d != "" {
		t.Errorf("Default is not idempotent (-first +again):\n%s", d)
	}
	seen := map[string]bool{}
	machines := c.Machines()
	for _, m := range machines {
		if seen[m.Name] || m.Name == "" || len(m.Name) > 63 {
			t.Errorf("machine name %q is taken, empty or too long", m.Name)
		}
		seen[m.Name] = true
	}
	if want := c.GatewayCount() + c.Spec.ControlPlane.Replicas + c.WorkerCount(); len(machines) != want {
		t.Errorf("%d machines, want %d", len(machines), want)
	}
}

func TestMachines(t *testing.T) {
	for path, want := range map[string]string{
		"../../examples/local.yaml":      "demo-gw-1 demo-gw-2 demo-cp-1 demo-cp-2 demo-cp-3 demo-general-1 demo-general-2",
		"testdata/good/hosts-pools.yaml": "alpha rack-big-1 beta rack-big-3 rack-general-1",
	} {
		var names []string
		for _, m := range mustParse(t, path, read(t, path)).Machines() {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: machines %s, want %s", path, got, want)
		}
	}
}

// TestExampleDemo checks the properties on which the demonstration and its tests rely.
func TestExampleDemo(t *testing.T) {
	c := mustParse(t, "local.yaml", read(t, "../../examples/local.yaml"))
	if c.Metadata.Name != "demo" || c.Spec.ControlPlane.Replicas != 3 || c.WorkerCount() != 2 || c.GatewayCount() != 2 ||
		c.Spec.Etcd.Mode != v1alpha1.EtcdStacked || c.Spec.Provider.Name() != v1alpha1.ProviderLocal {
		t.Errorf("examples/local.yaml is not the demo cluster: %+v", c.Spec)
	}
}
