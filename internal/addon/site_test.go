package addon

import (
	"cmp"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
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
	m := bundle.Manifest{Kubernetes: "v1.37.2", Images: []bundle.Image{{Name: bundle.ImageLocalPath, Ref: bundle.Repository + "/local-path-provisioner:v0.0.30-1"}}}
	for _, s := range catalogue.Sets() {
		for _, p := range s.Programs {
			m.Images = append(m.Images, bundle.Image{Name: p.Image, Ref: bundle.Repository + "/" + p.Image + ":" + s.Tag()})
		}
	}
	return m
}

// input returns the input for rendering a document's addons. One definition stands for the bundle's definitions.
func input(doc *v1alpha1.Cluster, m bundle.Manifest) Input {
	return Input{Doc: doc, Bundle: m, Definitions: func(set string) ([]byte, error) {
		return []byte("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: of." + set + "\n"), nil
	}, UpdateKey: func(v1alpha1.RFC2136) (string, string, error) {
		return "naupegos.", "c2VjcmV0IG9mIDMyIGJ5dGVzIGF0IGxlYXN0ISEh", nil
	}}
}

// TestSite compares the manifests of each addon, with default settings and with each setting changed.
func TestSite(t *testing.T) {
	for name, list := range map[string]string{
		"defaults": "[{name: metrics-server}, {name: local-path}, {name: node-exporter}, {name: kube-state-metrics}, " +
			"{name: metallb, metallb: {pools: [{name: services, addresses: [192.168.7.200-192.168.7.220]}]}}, {name: snapshot-controller}, {name: cert-manager}, " +
			"{name: external-dns, externalDNS: {rfc2136: {server: 10.0.0.53, zones: [example.org], auth: {credentialsFile: /etc/naupegos/tsig}}}}, {name: traefik}]",
		"settings": "[{name: metrics-server, metricsServer: {replicas: 2, resolution: 1m}}, " +
			"{name: snapshot-controller, snapshotController: {replicas: 2}}, {name: cert-manager, certManager: {replicas: 3, clusterResourceNamespace: authorities, gatewayAPI: true, " +
			"dns01: {recursiveNameservers: ['10.0.0.53:53', '[fd00::53]:5353'], only: true}, featureGates: {ValidateCAA: true, NameConstraints: false}}}, " +
			"{name: external-dns, externalDNS: {rfc2136: {server: ns1.example.org, port: 5353, zones: [example.org, 7.168.192.in-addr.arpa], auth: {credential: tsig}, algorithm: hmac-sha512}, " +
			"domains: [apps.example.org], policy: sync, ownerID: site-a, sources: [service, gateway-httproute], interval: 5m}}, " +
			"{name: local-path, localPath: {path: /data/volumes, storageClass: fast, default: false, reclaimPolicy: Retain}}, {name: node-exporter, nodeExporter: {port: 9110}}, " +
			"{name: metallb, metallb: {pools: [{name: lan, addresses: [192.168.7.0/28, 192.168.8.1-192.168.8.9], autoAssign: false}, {name: routed, addresses: [198.51.100.0/24], advertise: bgp}], " +
			"peers: [{address: 192.168.7.254, asn: 64500, myASN: 64501}, {address: 192.168.7.253, port: 1179, asn: 4200000000, myASN: 64501}]}}, " +
			"{name: traefik, traefik: {expose: HostPort, httpPort: 8000, httpsPort: 8443, defaultClass: false, gatewayAPI: true, ingressNGINX: true, customResources: true, redirectToHTTPS: true, " +
			"minTLS: TLS1.3, defaultCertificate: wildcard, trustedProxies: [10.0.0.5, 10.1.0.0/24], proxyProtocol: true, accessLog: true, readTimeout: 10m, " +
			"entryPoints: [{name: postgres, port: 5432}, {name: dns, port: 53, protocol: udp}]}}]",
		"balanced": "[{name: metallb, metallb: {pools: [{name: lan, addresses: [192.168.7.0/28]}]}}, {name: traefik, traefik: {replicas: 1, keepClientAddress: true, redirectToHTTPS: true, " +
			"annotations: {metallb.io/address-pool: lan, example.org/note: \"it's: \\\"quoted\\\"\"}, customResources: true, entryPoints: [{name: postgres, port: 5432}]}}]",
	} {
		doc := siteDocument(t, list)
		listed := Site(doc)
		if len(listed) != len(doc.Spec.Addons) {
			t.Fatalf("%s: %d addons of %d", name, len(listed), len(doc.Spec.Addons))
		}
		for i, a := range doc.Spec.Addons {
			got, err := RenderSite(input(doc, siteBundle()), a)
			if err != nil {
				t.Fatal(err)
			}
			if name != "balanced" || a.Name == NameTraefik {
				testkit.Golden(t, a.Name+"-"+name+".golden", got)
			}
			objects, err := manifest.Parse(got)
			if err != nil {
				t.Fatalf("%s: %v", a.Name, err)
			}
			for _, w := range listed[i].Workloads { // apply waits for them
				found := false
				for _, o := range objects {
					found = found || o.GetKind() == w.Kind && o.GetName() == w.Name && o.GetNamespace() == cmp.Or(w.In, Namespace)
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
		settings := ""
		switch name {
		case NameMetalLB:
			settings = ", metallb: {pools: [{name: a, addresses: [192.168.7.0/28]}]}"
		case NameExternalDNS:
			settings = ", externalDNS: {rfc2136: {server: 10.0.0.53, zones: [example.org], auth: {credentialsFile: /etc/naupegos/tsig}}}"
		}
		doc := siteDocument(t, "[{name: "+name+settings+"}]")
		a, err := RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0])
		if err != nil || len(Site(doc)) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if text := string(a); strings.Count(text, " image: ") != strings.Count(text, " terminationMessagePolicy: FallbackToLogsOnError\n") {
			t.Errorf("%s: when a container fails, its log is not reported", name)
		}
		_, err = RenderSite(input(doc, bundle.Manifest{Kubernetes: "v1.37.2", Addons: []string{"openstack"}}), doc.Spec.Addons[0])
		if fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), "--addons openstack,"+name) {
			t.Errorf("%s without its images: %v", name, err)
		}
	}
}

// TestTraefikDefinitions: the definitions of the Gateway API, and of Traefik's own kinds, are installed only if they are wanted.
func TestTraefikDefinitions(t *testing.T) {
	const gateways, middlewares = "---\nkind: CustomResourceDefinition\nmetadata:\n  name: gateways\nspec:\n  group: gateway.networking.k8s.io\n  scope: Namespaced\n",
		"---\nkind: CustomResourceDefinition\nmetadata:\n  name: middlewares\nspec:\n  group: traefik.io\n  scope: Namespaced\n"
	for _, c := range []struct{ settings, want string }{
		{"", "\n"}, {"gatewayAPI: true", gateways}, {"customResources: true", middlewares}, {"gatewayAPI: true, customResources: true", gateways + middlewares},
	} {
		doc := siteDocument(t, "[{name: traefik, traefik: {"+c.settings+"}}]")
		in := input(doc, siteBundle())
		in.Definitions = func(string) ([]byte, error) { return []byte(gateways + middlewares), nil }
		got := string(testkit.Value(RenderSite(in, doc.Spec.Addons[0]))(t))
		if before, _, _ := strings.Cut(got, "---\napiVersion: v1\nkind: Namespace"); before != c.want {
			t.Errorf("%q: the definitions are %q, want %q", c.settings, before, c.want)
		}
		for kind, want := range map[string]bool{"kind: GatewayClass\n": strings.Contains(c.settings, "gatewayAPI"), "[traefik.io]": strings.Contains(c.settings, "customResources")} {
			if strings.Contains(got, kind) != want {
				t.Errorf("%q: %q is there: %v", c.settings, kind, !want)
			}
		}
	}
}

// TestRedirectToHTTPS: the redirection names the port that clients see.
func TestRedirectToHTTPS(t *testing.T) {
	for settings, want := range map[string]string{"": ":30443", "httpsPort: 30444": ":30444", "expose: HostPort": ":443", "expose: HostPort, httpsPort: 8443": ":8443"} {
		doc := siteDocument(t, "[{name: traefik, traefik: {redirectToHTTPS: true, "+settings+"}}]")
		got := string(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t))
		if line := "'--entrypoints.web.http.redirections.entrypoint.to=" + want + "'\n"; !strings.Contains(got, line) {
			t.Errorf("%q: no %s", settings, line)
		}
	}
	doc := siteDocument(t, "[{name: traefik, traefik: {redirectToHTTPS: true}}]\n  endpoint: {gateways: {ingress: {httpsNodePort: 31443}}}")
	got := string(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t))
	if !strings.Contains(got, "redirections.entrypoint.to=websecure'\n") || !strings.Contains(got, "nodePort: 31443}") {
		t.Error("behind the gateways, clients see port 443 of them, which pass it on to the NodePort of the ingress")
	}
}

// TestKeyOfUpdates: a new key restarts external-dns, a key that is no base64 is refused without being shown, and the key is in the Secret alone.
func TestKeyOfUpdates(t *testing.T) {
	doc := siteDocument(t, "[{name: external-dns, externalDNS: {rfc2136: {server: 10.0.0.53, zones: [example.org], auth: {credentialsFile: /etc/naupegos/tsig}}}}]")
	in := input(doc, siteBundle())
	before := string(testkit.Value(RenderSite(in, doc.Spec.Addons[0]))(t))
	_, secret, _ := in.UpdateKey(v1alpha1.RFC2136{})
	if strings.Contains(before, secret) || strings.Count(before, base64.StdEncoding.EncodeToString([]byte(secret))) != 1 {
		t.Error("the key is not in the Secret alone")
	}
	in.UpdateKey = func(v1alpha1.RFC2136) (string, string, error) { return "naupegos.", "YW5vdGhlcg==", nil }
	if after := string(testkit.Value(RenderSite(in, doc.Spec.Addons[0]))(t)); checksumOf(t, after) == checksumOf(t, before) {
		t.Error("another key restarts no pod")
	}
	in.UpdateKey = func(v1alpha1.RFC2136) (string, string, error) { return "naupegos.", "not base64!", nil }
	if _, err := RenderSite(in, doc.Spec.Addons[0]); fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "not base64!") || !strings.Contains(err.Error(), "NAME:SECRET") {
		t.Errorf("got %v", err)
	}
}

func checksumOf(t *testing.T, text string) string {
	t.Helper()
	_, sum, ok := strings.Cut(text, "naupegos.dev/checksum: ")
	if !ok {
		t.Fatal("no checksum")
	}
	return sum[:32]
}
