//go:build integration

package chart_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/images"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/testkit"
)

// foreignCharts are charts of others that lie in Go modules, with images that must be found and texts that must be reported.
var foreignCharts = []struct {
	module, dir string
	values      []string
	images      []string
	unclear     []string
}{
	{"github.com/cert-manager/cert-manager@v1.18.2", "deploy/charts/cert-manager", nil,
		[]string{"quay.io/jetstack/cert-manager-controller", "quay.io/jetstack/cert-manager-webhook", "quay.io/jetstack/cert-manager-cainjector", "quay.io/jetstack/cert-manager-startupapicheck"},
		[]string{"quay.io/jetstack/cert-manager-acmesolver"}},
	{"go.universe.tf/metallb@v0.15.2", "charts/metallb", nil, []string{"quay.io/metallb/controller", "quay.io/metallb/speaker", "quay.io/frrouting/frr"}, nil},
	{"sigs.k8s.io/external-dns@v0.19.0", "charts/external-dns", nil, []string{"registry.k8s.io/external-dns/external-dns"}, nil},
	{"github.com/cilium/cilium@v1.18.3", "install/kubernetes/cilium", []string{"hubble.relay.enabled=true", "hubble.ui.enabled=true"},
		[]string{"quay.io/cilium/cilium", "quay.io/cilium/operator-generic", "quay.io/cilium/cilium-envoy", "quay.io/cilium/hubble-relay", "quay.io/cilium/hubble-ui"}, nil},
}

// TestForeignCharts finds the images of charts that others wrote.
func TestForeignCharts(t *testing.T) {
	for _, c := range foreignCharts {
		t.Run(filepath.Base(c.dir), func(t *testing.T) {
			cmd := exec.Command("go", "mod", "download", "-json", c.module)
			cmd.Dir = t.TempDir()
			cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod")
			var module struct{ Dir string }
			testkit.Must(t, json.Unmarshal(testkit.Value(cmd.Output())(t), &module))
			files, err := siteset.ReadChart(filepath.Join(module.Dir, c.dir))
			testkit.Must(t, err)
			if files["Chart.yaml"] == nil { // its release makes it from a template
				files["Chart.yaml"] = []byte("apiVersion: v2\nname: " + filepath.Base(c.dir) + "\nversion: 1.0.0\nappVersion: v1.0.0\n")
			}
			r := chart.Release{Namespace: "default", Kubernetes: release.Default, Values: map[string]any{}}
			for _, v := range c.values {
				testkit.Must(t, chart.SetValue(r.Values, v))
			}
			look, err := chart.LookInto(files, r)
			testkit.Must(t, err)
			var s images.Scanned
			for _, d := range look.Documents {
				testkit.Must(t, s.ScanMade(d.Where, d.JSON))
			}
			has := func(list []images.Mention, want string) bool {
				for _, m := range list {
					if m.Name == want || strings.HasPrefix(m.Text, want+":") {
						return true
					}
				}
				return false
			}
			for _, want := range c.images {
				if !has(s.Images, want) {
					t.Errorf("%s is not found in %v", want, s.Images)
				}
			}
			for _, want := range c.unclear {
				if !has(s.Unclear, want) {
					t.Errorf("%s is not reported in %v", want, s.Unclear)
				}
			}
			t.Logf("%s: %d images, %d unclear", look.Chart, len(images.Distinct(s.Images)), len(s.Unclear))
			for _, m := range s.Unclear {
				t.Logf("unclear: %s: %s", m.Where(), m.Text)
			}
		})
	}
}
