package wanted

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

const commented = `# The harbour's cluster; ask Ada before you change it. ⚓
apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata:
    name: demo   # four spaces, on purpose

spec:
    provider: {local: {}}


    controlPlane:
        # three, so that one may fail
        replicas: 3 # odd!
    workers:
    - name: a
      labels: {tier: "9"} # replicas: 9
      # as many as there are ships
      replicas: 2

    -   name: b   # no number here
        labels:
            x: y
    - {name: c, replicas: 4}
    - {name: d}
`

func TestSetReplicas(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		role      provider.Role
		pool      string
		n         int
		old, new  string // the replacement in doc; everything else stays
	}{
		{"control plane", commented, provider.ControlPlane, "", 5, "replicas: 3 # odd!", "replicas: 5 # odd!"},
		{"pool", commented, provider.Worker, "a", 12, "      replicas: 2", "      replicas: 12"},
		{"pool without a number", commented, provider.Worker, "b", 3, "    -   name: b ", "    -   replicas: 3\n        name: b "},
		{"pool in flow style", commented, provider.Worker, "c", 10, "replicas: 4", "replicas: 10"},
		{"pool in flow style without a number", commented, provider.Worker, "d", 2, "{name: d}", "{replicas: 2, name: d}"},
		{"control plane not mentioned", "kind: Cluster\nspec:\n  # all local\n  provider: {local: {}}\n", provider.ControlPlane, "", 5,
			"  provider", "  controlPlane: {replicas: 5}\n  provider"},
		{"control plane empty", "spec:\n  controlPlane: {}\n", provider.ControlPlane, "", 1, "{}", "{replicas: 1}"},
		{"JSON", `{"spec": {"workers": [{"name": "a"}], "controlPlane": {"replicas": 1}}}`, provider.Worker, "a", 2, `{"name"`, `{"replicas": 2, "name"`},
		{"JSON, control plane not mentioned", `{"spec": {"workers": []}}`, provider.ControlPlane, "", 3, `{"workers"`, `{"controlPlane": {"replicas": 3}, "workers"`},
		{"characters of several bytes before it", "spec: {controlPlane: {labels: {ä: ⚓}, replicas: 1}}", provider.ControlPlane, "", 3, "replicas: 1", "replicas: 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(c.doc, c.old) != 1 {
				t.Fatalf("%q is not there exactly once", c.old)
			}
			got, err := SetReplicas([]byte(c.doc), c.role, c.pool, c.n)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Replace(c.doc, c.old, c.new, 1), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSetVersion(t *testing.T) {
	for _, c := range []struct{ name, doc, old, new string }{
		{"not mentioned", commented, "    provider", "    kubernetes: {version: v1.37.2}\n    provider"},
		{"in flow style", "spec: {kubernetes: {version: v1.36.4, cni: none}} # ⚓", "v1.36.4", "v1.37.2"},
		{"others mentioned", "spec:\n  kubernetes:\n    cni: none # ours\n", "    cni", "    version: v1.37.2\n    cni"},
		{"in quotes", "spec:\n  kubernetes:\n    version: 'v1.36.4' # once 1.35\n", "'v1.36.4'", `"v1.37.2"`},
		{"JSON", `{"spec": {"kubernetes": {"version": "v1.36.4"}}}`, "v1.36.4", "v1.37.2"},
		{"JSON, not mentioned", `{"spec": {"workers": []}}`, `{"workers"`, `{"kubernetes": {"version": "v1.37.2"}, "workers"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := SetVersion([]byte(c.doc), "v1.37.2")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Replace(c.doc, c.old, c.new, 1), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := SetVersion([]byte("spec: {kubernetes: {version: &v v1.36.4}}"), "v1.37.2"); fail.KindOf(err) != fail.Refused {
		t.Error(err)
	}
}

// TestSetName names another cluster, and leaves everything else as it was written.
func TestSetName(t *testing.T) {
	for document, want := range map[string]string{
		commented:                        strings.Replace(commented, "name: demo ", "name: copy ", 1),
		"metadata: {name: 'demo'}\n":     "metadata: {name: \"copy\"}\n",
		`{"metadata": {"name": "demo"}}`: `{"metadata": {"name": "copy"}}`,
	} {
		if got, err := SetName([]byte(document), "copy"); err != nil || string(got) != want {
			t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
		}
	}
	if _, err := SetName([]byte("metadata: {name: &a demo}\n"), "copy"); fail.KindOf(err) != fail.Refused {
		t.Error(err)
	}
}

func TestSetPoolVersion(t *testing.T) {
	for pool, want := range map[string][2]string{
		"b": {"    -   name: b ", "    -   version: v1.37.2\n        name: b "},
		"d": {"{name: d}", "{version: v1.37.2, name: d}"},
	} {
		got, err := SetPoolVersion([]byte(commented), pool, "v1.37.2")
		if d := cmp.Diff(strings.Replace(commented, want[0], want[1], 1), string(got)); d != "" || err != nil {
			t.Errorf("%s: %v %s", pool, err, d)
		}
	}
	if _, err := SetPoolVersion([]byte(commented), "nobody", "v1.37.2"); fail.KindOf(err) != fail.Refused {
		t.Error(err)
	}
}

func TestSetReplicasMeansIt(t *testing.T) {
	got, err := SetReplicas([]byte(commented), provider.Worker, "b", 7)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validation.Parse("edited", got)
	if err != nil {
		t.Fatal(err)
	}
	if n := doc.Spec.Workers[1].Count(); n != 7 || doc.Spec.Workers[1].Labels["x"] != "y" {
		t.Errorf("pool b has %d, labels %v", n, doc.Spec.Workers[1].Labels)
	}
}

func TestSetReplicasRefused(t *testing.T) {
	for name, doc := range map[string]string{
		"anchor":    "spec:\n  controlPlane: {replicas: &n 3}\n",
		"alias":     "x: &cp {replicas: 3}\nspec:\n  controlPlane: *cp\n",
		"not there": "spec:\n  controlPlane:\n",
		"no spec":   "kind: Cluster\n",
		"empty":     "",
	} {
		if got, err := SetReplicas([]byte(doc), provider.ControlPlane, "", 5); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
	if _, err := SetReplicas([]byte(commented), provider.Worker, "nope", 5); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "pool nope") {
		t.Errorf("unknown pool: %v", err)
	}
	if _, err := SetReplicas([]byte("a: [b"), provider.Worker, "a", 5); fail.KindOf(err) != fail.Invalid {
		t.Errorf("not YAML: %v", err)
	}
}

func TestGroupOf(t *testing.T) {
	doc, err := validation.Parse("test", []byte(commented))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"demo-cp-1": "control plane", "demo-gw-2": "gateways", "demo-a-12": "pool a", "demo-d-1": "pool d",
		"demo-a-0": "", "demo-a-": "", "demo-a-x": "", "demo-a-1-1": "", "other-a-1": "", "demo-a--1": "", "": "",
	} {
		g, err := GroupOf(doc, name)
		if want == "" {
			if fail.KindOf(err) != fail.NotFound {
				t.Errorf("%s: %v, %v", name, g, err)
			}
			continue
		}
		if err != nil || g.String() != want {
			t.Errorf("%s: %v, %v, want %s", name, g, err, want)
		}
	}
}
