package addon

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// siteDocument returns a document with addons, which are given as a YAML list.
func siteDocument(t *testing.T, addons string) *v1alpha1.Cluster {
	t.Helper()
	return testkit.Value(v1alpha1.Parse("cluster.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: general}]\n  addons: "+addons+"\n")))(t)
}

func siteBundle() bundle.Manifest {
	return bundle.Manifest{Kubernetes: "v1.37.2", Images: []bundle.Image{
		{Name: bundle.ImageMetricsServer, Ref: bundle.Repository + "/metrics-server:v0.9.0"}, {Name: bundle.ImageLocalPath, Ref: bundle.Repository + "/local-path-provisioner:v0.0.30-1"},
		{Name: bundle.ImageNodeExporter, Ref: bundle.Repository + "/node-exporter:v1.12.1"}, {Name: bundle.ImageKubeStateMetrics, Ref: bundle.Repository + "/kube-state-metrics:v2.18.0"},
	}}
}

// TestSite compares the manifests of each addon, with default settings and with each setting changed.
func TestSite(t *testing.T) {
	for name, list := range map[string]string{
		"defaults": "[{name: metrics-server}, {name: local-path}, {name: node-exporter}, {name: kube-state-metrics}]",
		"settings": "[{name: metrics-server, metricsServer: {replicas: 2, resolution: 1m}}, " +
			"{name: local-path, localPath: {path: /data/volumes, storageClass: fast, default: false, reclaimPolicy: Retain}}, {name: node-exporter, nodeExporter: {port: 9110}}]",
	} {
		doc := siteDocument(t, list)
		listed := Site(doc)
		if len(listed) != len(doc.Spec.Addons) {
			t.Fatalf("%s: %d addons of %d", name, len(listed), len(doc.Spec.Addons))
		}
		for i, a := range doc.Spec.Addons {
			got, err := RenderSite(a, siteBundle())
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, a.Name+"-"+name+".golden", got)
			objects, err := manifest.Parse(got)
			if err != nil {
				t.Fatalf("%s: %v", a.Name, err)
			}
			for _, w := range listed[i].Workloads { // apply waits for them
				found := false
				for _, o := range objects {
					found = found || o.GetKind() == w.Kind && o.GetName() == w.Name && o.GetNamespace() == Namespace
				}
				if !found {
					t.Errorf("%s: the manifests lack %s %s", a.Name, w.Kind, w.Name)
				}
			}
		}
	}
}

// TestEveryAddonOfDocuments: every addon that documents may list can be rendered, is listed by Site, and has a set of images.
func TestEveryAddonOfDocuments(t *testing.T) {
	for _, name := range SiteNames() {
		doc := siteDocument(t, "[{name: "+name+"}]")
		if _, err := RenderSite(doc.Spec.Addons[0], siteBundle()); err != nil || len(Site(doc)) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		_, err := RenderSite(doc.Spec.Addons[0], bundle.Manifest{Kubernetes: "v1.37.2", Addons: []string{"openstack"}})
		if fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), "--addons openstack,"+name) {
			t.Errorf("%s without its images: %v", name, err)
		}
	}
}
