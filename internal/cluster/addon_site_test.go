package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

// siteLab returns a running cluster whose document lists addons, given as a YAML list.
func siteLab(t *testing.T, list string) *lab {
	t.Helper()
	doc := testkit.Value(validation.Parse("cluster.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: a, replicas: 1}]\n  controlPlane: {replicas: 1}\n  addons: "+list+"\n")))(t)
	return newLab(t, doc).Running(doc)
}

// TestSiteAddons follows an addon of the document from its installation to its removal.
func TestSiteAddons(t *testing.T) {
	l := siteLab(t, "[{name: metrics-server}, {name: local-path}]")
	first := l.mustPlan(l.observed(nil, "demo-cp-1"))
	for _, want := range []string{"create  addon/metrics-server", "create  addon/local-path", "works/metrics-server  <- addon/local-path addon/metrics-server", "works/local-path  <- addon/local-path"} {
		if !strings.Contains(first, want) {
			t.Errorf("the plan lacks %q:\n%s", want, first)
		}
	}
	installed := func() *observe.Observed {
		o := l.observed(nil, "demo-cp-1")
		o.Addons[v1alpha1.AddonMetricsServer], o.Addons[v1alpha1.AddonLocalPath] = true, true
		return o
	}
	// A run that was killed between the installation and the proof leaves the proof to the next one.
	killed := l.mustPlan(installed())
	if strings.Contains(killed, "addon/") || !strings.Contains(killed, "works/metrics-server") || !strings.Contains(killed, "works/local-path") {
		t.Errorf("after a killed run:\n%s", killed)
	}
	for _, name := range []string{v1alpha1.AddonMetricsServer, v1alpha1.AddonLocalPath} {
		if err := l.Facts.SetOf(t.Context(), memory.AddonWorks, name, "true"); err != nil {
			t.Fatal(err)
		}
	}
	if again := l.mustPlan(installed()); again != "" {
		t.Errorf("a second apply would do:\n%s", again)
	}
	edited := installed()
	edited.Addons[v1alpha1.AddonMetricsServer] = false
	edited.AddonFindings = map[string]objects.Finding{v1alpha1.AddonMetricsServer: {Known: true}}
	if change := l.mustPlan(edited); !strings.Contains(change, "change  addon/metrics-server") || strings.Contains(change, "create ") {
		t.Errorf("an addon that was edited by hand is planned as:\n%s", change)
	}
	o := installed()
	o.Surplus = []observe.SurplusAddon{{Name: v1alpha1.AddonMetricsServer}, {Name: v1alpha1.AddonLocalPath, Volumes: []string{"shop/data (pvc-1)"}}}
	removal := l.mustPlan(o)
	for _, want := range []string{"destroy remove-addon/metrics-server", "destroy remove-addon/local-path", "consent " + addons.ConsentVolumes + " volume shop/data (pvc-1)"} {
		if !strings.Contains(removal, want) {
			t.Errorf("the plan lacks %q:\n%s", want, removal)
		}
	}
	if n := strings.Count(removal, "consent "); n != 1 {
		t.Errorf("%d consents, want one:\n%s", n, removal)
	}
	for name, listed := range map[string]bool{v1alpha1.AddonMetricsServer: true, observe.AddonFlannel: false} {
		if got := l.AddonOptions(name); got.Shared != listed || got.Force != listed || !got.Prune { // a listed addon takes no object of another owner
			t.Errorf("%s is applied with %+v", name, got)
		}
	}
	for _, s := range l.stepsOf(o) {
		if strings.HasPrefix(s.ID, "remove-addon/") && !s.Apart {
			t.Errorf("the failure of %s stops other steps", s.ID)
		}
	}
	a := l.applying(o, nil)
	for _, s := range l.stepsOf(o) {
		if p := a.partOf(s); p != parts.Addons {
			t.Errorf("step %s is of part %s", s.ID, p)
		}
	}
}

// TestAddonLosesVolumes: a change of an addon that deletes volumes asks for consent, and one that deletes none does not.
func TestAddonLosesVolumes(t *testing.T) {
	l := siteLab(t, "[{name: prometheus}]")
	for want, lost := range map[int][]string{0: nil, 1: {"PersistentVolumeClaim prometheus/prometheus-b"}} {
		o := l.observed(nil, "demo-cp-1")
		o.Addons[v1alpha1.AddonPrometheus] = false
		o.AddonFindings = map[string]objects.Finding{v1alpha1.AddonPrometheus: {Known: true}}
		o.AddonLoses = map[string][]string{v1alpha1.AddonPrometheus: lost}
		p := l.mustPlan(o)
		if n := strings.Count(p, "consent "+addons.ConsentVolumes+" PersistentVolumeClaim prometheus/prometheus-b is deleted with its data"); n != want || !strings.Contains(p, "change  addon/prometheus") {
			t.Errorf("%d consents, want %d:\n%s", n, want, p)
		}
	}
}

// TestDefinitionsFirst: addons that use kinds of the Gateway API from their start are installed after the addon that brings the definitions.
func TestDefinitionsFirst(t *testing.T) {
	const dns = "{name: external-dns, externalDNS: {rfc2136: {server: ns1.example.org, zones: [example.org], auth: {credential: tsig}}, sources: [gateway-httproute]}}"
	for list, want := range map[string][2]bool{ // whether cert-manager and external-dns wait
		"{name: cert-manager, certManager: {gatewayAPI: true}}, " + dns + ", {name: traefik, traefik: {gatewayAPI: true}}": {true, true},
		"{name: cert-manager}, " + dns + ", {name: traefik, traefik: {gatewayAPI: true}}":                                  {false, true},
		"{name: cert-manager, certManager: {gatewayAPI: true}}, " + dns + ", {name: traefik}":                              {false, false},
		"{name: cert-manager, certManager: {gatewayAPI: true}}, " + dns:                                                    {false, false},
	} {
		l := siteLab(t, "["+list+"]")
		a := l.applying(l.observed(nil, "demo-cp-1"), nil)
		for i, name := range []string{v1alpha1.AddonCertManager, v1alpha1.AddonExternalDNS} {
			if got := len(a.definers(name)) > 0; got != want[i] {
				t.Errorf("%s: %s waits for the definitions: %v", list, name, got)
			}
		}
		if len(a.definers(v1alpha1.AddonTraefik)) > 0 {
			t.Errorf("%s: traefik waits for itself", list)
		}
	}
}

// TestDefinitionsThatGo: a setting that takes definitions away needs consent while objects of others use them.
func TestDefinitionsThatGo(t *testing.T) {
	l := siteLab(t, "[{name: traefik}]")
	o := l.observed(nil, "demo-cp-1")
	o.AddonFindings = map[string]objects.Finding{v1alpha1.AddonTraefik: {Known: true}}
	if change := l.mustPlan(o); !strings.Contains(change, "change  addon/traefik") || strings.Contains(change, "consent ") {
		t.Errorf("without such objects:\n%s", change)
	}
	o.AddonDefined = map[string][]string{v1alpha1.AddonTraefik: {"CustomResourceDefinition gateways with 1 objects of other owners"}}
	if change := l.mustPlan(o); !strings.Contains(change, "consent "+addons.ConsentDefinitions+" CustomResourceDefinition gateways with 1 objects") {
		t.Errorf("with such objects:\n%s", change)
	}
}

// TestUpdateKey: the key of external-dns comes from its file, and a plan without it is refused before anything begins. The last known key serves while the file is away.
func TestUpdateKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tsig")
	l := siteLab(t, "[{name: external-dns, externalDNS: {rfc2136: {server: ns1.example.org, zones: [example.org], auth: {credentialsFile: "+file+"}}}}]")
	of := l.Doc.Addon(v1alpha1.AddonExternalDNS).ExternalDNS.RFC2136
	testkit.Fails(t, l.CheckUpdateKey(t.Context()), fail.NotFound, "https://ns1.example.org:53", "mode 0600")
	testkit.Must(t, os.WriteFile(file, []byte("naupegos:c2VjcmV0\n"), 0o644))
	testkit.Fails(t, l.CheckUpdateKey(t.Context()), fail.Refused, "chmod 600")
	testkit.Must(t, os.Chmod(file, 0o600))
	for range 2 {
		testkit.Must(t, l.CheckUpdateKey(t.Context()))
		if name, secret, err := l.UpdateKey(t.Context(), *of); name != "naupegos" || secret != "c2VjcmV0" || err != nil {
			t.Errorf("%q, %q, %v", name, secret, err)
		}
		testkit.Must(t, os.RemoveAll(file))
	}
	l.Credentials.Closed = true // a server
	testkit.Fails(t, l.CheckUpdateKey(t.Context()), fail.Refused, "may not name files of a server")
}
