package addon

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// siteDocument returns a document with addons, which are given as a YAML list.
func siteDocument(t *testing.T, addons string) *v1alpha1.Cluster {
	t.Helper()
	return testkit.Value(validation.Parse("cluster.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: general}]\n  addons: "+addons+"\n")))(t)
}

func siteBundle() bundle.Manifest {
	m := bundle.Manifest{Kubernetes: "v1.37.2", Images: []bundle.Image{{Name: bundle.ImageLocalPath, Ref: bundle.Repository + "/local-path-provisioner:v0.0.30-1"}}}
	for _, set := range catalogue.Sets() {
		for _, s := range set.All() {
			for _, p := range s.Programs {
				m.Images = append(m.Images, bundle.Image{Name: p.Image, Ref: bundle.Repository + "/" + p.Image + ":" + s.Tag()})
			}
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
	}, CloudLogin: func() (*CloudLogin, error) {
		return &CloudLogin{AuthURL: "https://keystone.example.org:5000/v3", CredentialID: "id-1", Secret: "s3cret of a cloud", Region: "RegionOne", Authorities: []byte("-----BEGIN CERTIFICATE-----\n")}, nil
	}}
}

// prometheusSettings has each setting of the addon prometheus but alertmanagerSecret, and each kind of receiver.
const prometheusSettings = "{name: prometheus, prometheus: {replicas: 2, retentionDays: 90, storage: {size: 50Gi, storageClass: fast}, memory: 4Gi, scrapeInterval: 1m, externalLabels: {site: 'north $1', team: a}, " +
	"remoteWrite: [{url: 'https://mimir.example.org/api/v1/push', secret: mimir, auth: basic}, {url: 'https://other.example.org/write', secret: other}, {url: 'http://10.0.0.9:8428/api/v1/write'}], " +
	"receivers: [{name: hook, kind: webhook, url: 'https://hook.example.org/alerts'}, {name: secret-hook, kind: webhook, secret: hook}, {name: chat, kind: slack, secret: chat, channel: '#alerts', match: {severity: critical, namespace: shop}}, " +
	"{name: teams, kind: teams, secret: teams}, {name: duty, kind: pagerduty, secret: duty, match: {severity: critical}}, " +
	"{name: mail, kind: email, secret: mail, email: {to: [ops@example.org, boss@example.org], from: k8s@example.org, server: 'mail.example.org:587', user: k8s}}, " +
	"{name: plain-mail, kind: email, email: {to: [ops@example.org], from: k8s@example.org, server: 'mail.example.org:25'}}]}}"

// collectorSettings has each kind of exporter, and each setting of one.
const collectorSettings = "{name: opentelemetry-collector, opentelemetryCollector: {collect: [pod-logs, machine-logs, events, metrics], excludedNamespaces: [noisy], journalPriority: warning, interval: 1m, exporters: [" +
	"{name: central, kind: otlp, address: 'otel.example.org:4317', secret: central}, {name: plain, kind: otlp, address: '10.0.0.9:4317', transport: tcp, signals: [metrics]}, " +
	"{name: web, kind: otlphttp, address: 'https://otel.example.org/v1', secret: central, signals: [logs]}, {name: siem, kind: syslog, address: 'siem.example.org:6514'}, " +
	"{name: old, kind: syslog, address: '10.0.0.9:514', transport: udp, signals: [events]}, {name: here, kind: file, path: /var/log/telemetry}, " +
	"{name: archive, kind: s3, address: 'https://s3.example.org', bucket: logs, prefix: demo, region: eu-1, secret: archive}]}}"

// TestSite compares the manifests of each addon, with default settings and with each setting changed.
func TestSite(t *testing.T) {
	for name, list := range map[string]string{
		"defaults": "[{name: metrics-server}, {name: local-path}, {name: node-exporter}, {name: kube-state-metrics}, " +
			"{name: metallb, metallb: {pools: [{name: services, addresses: [192.168.7.200-192.168.7.220]}]}}, {name: snapshot-controller}, {name: cert-manager}, " +
			"{name: external-dns, externalDNS: {rfc2136: {server: 10.0.0.53, zones: [example.org], auth: {credentialsFile: /etc/naupegos/tsig}}}}, " +
			"{name: prometheus}, {name: descheduler}, {name: node-problem-detector}, {name: traefik}, {name: node-local-dns}, " +
			"{name: opentelemetry-collector, opentelemetryCollector: {exporters: [{name: central, kind: otlp, address: 'otel.example.org:4317'}]}}]",
		"settings": "[{name: metrics-server, metricsServer: {replicas: 2, resolution: 1m}}, " +
			"{name: snapshot-controller, snapshotController: {replicas: 2}}, {name: cert-manager, certManager: {replicas: 3, clusterResourceNamespace: authorities, gatewayAPI: true, " +
			"dns01: {recursiveNameservers: ['10.0.0.53:53', '[fd00::53]:5353'], only: true}, featureGates: {ValidateCAA: true, NameConstraints: false}}}, " +
			"{name: external-dns, externalDNS: {rfc2136: {server: ns1.example.org, port: 5353, zones: [example.org, 7.168.192.in-addr.arpa], auth: {credential: tsig}, algorithm: hmac-sha512}, " +
			"domains: [apps.example.org], policy: sync, ownerID: site-a, sources: [service, gateway-httproute], interval: 5m}}, " +
			"{name: local-path, localPath: {path: /data/volumes, storageClass: fast, default: false, reclaimPolicy: Retain}}, {name: node-exporter, nodeExporter: {port: 9110}}, " +
			"{name: metallb, metallb: {pools: [{name: lan, addresses: [192.168.7.0/28, 192.168.8.1-192.168.8.9], autoAssign: false}, {name: routed, addresses: [198.51.100.0/24], advertise: bgp}], " +
			"peers: [{address: 192.168.7.254, asn: 64500, myASN: 64501}, {address: 192.168.7.253, port: 1179, asn: 4200000000, myASN: 64501}]}}, " + prometheusSettings + ", " +
			"{name: descheduler, descheduler: {interval: 10m, dryRun: true, policies: [low-node-utilization, topology-spread, pod-life-time], podLifeTime: 168h, softTopologySpread: true, " +
			"lowNodeUtilization: {cpu: {threshold: 30, target: 70}, pods: {target: 100}}, excludedNamespaces: [databases, batch], minReplicas: 1, evictLocalStorage: true, evictVolumes: true, maxEvictions: 5}}, " +
			"{name: node-problem-detector, nodeProblemDetector: {monitors: [hardware, filesystem]}}, " +
			"{name: traefik, traefik: {expose: HostPort, httpPort: 8000, httpsPort: 8443, defaultClass: false, gatewayAPI: true, ingressNGINX: true, customResources: true, redirectToHTTPS: true, " +
			"minTLS: TLS1.3, defaultCertificate: wildcard, trustedProxies: [10.0.0.5, 10.1.0.0/24], proxyProtocol: true, accessLog: true, readTimeout: 10m, " +
			"entryPoints: [{name: postgres, port: 5432}, {name: dns, port: 5353, protocol: udp}]}}, " +
			"{name: node-local-dns, nodeLocalDNS: {address: 169.254.25.10, outside: Node, maxTTL: 5m, serveStale: 1h, entries: 50000, logQueries: true}}, " + collectorSettings + "]",
		"balanced": "[{name: metallb, metallb: {pools: [{name: lan, addresses: [192.168.7.0/28]}]}}, {name: traefik, traefik: {replicas: 1, keepClientAddress: true, redirectToHTTPS: true, " +
			"annotations: {metallb.io/address-pool: lan, example.org/note: \"it's: \\\"quoted\\\"\"}, customResources: true, entryPoints: [{name: postgres, port: 5432}]}}]",
		"few": "[{name: opentelemetry-collector, opentelemetryCollector: {collect: [events], exporters: [{name: local, kind: file, signals: [events]}]}}]",
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
			for _, o := range objects {
				parseFiles(t, o)
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

// parseFiles parses the YAML files in a ConfigMap with yaml.v2, as Prometheus and other programs do: it takes less than yaml.v3, such as no ? in a flow.
func parseFiles(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	files, _, err := unstructured.NestedStringMap(o.Object, "data")
	if o.GetKind() != "ConfigMap" || err != nil {
		return
	}
	for name, text := range files {
		var v any
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			continue
		}
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s of ConfigMap %s: %v", name, o.GetName(), err)
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
		case NameCollector:
			settings = ", opentelemetryCollector: {exporters: [{name: here, kind: file}]}"
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

// TestDesignate: the manifests for Designate hold the credential in the Secret alone, another one restarts the pod, and nothing is rendered before there is one.
func TestDesignate(t *testing.T) {
	doc := siteDocument(t, "[{name: external-dns, externalDNS: {rfc2136: {server: 10.0.0.53, zones: [example.org], auth: {credentialsFile: /etc/naupegos/tsig}}, domains: [apps.example.org], policy: sync}}]")
	e := doc.Spec.Addons[0].ExternalDNS
	e.RFC2136, e.Designate = nil, &v1alpha1.Designate{Zones: []string{"example.org", "example.net"}}
	in := input(doc, siteBundle())
	before := string(testkit.Value(RenderSite(in, doc.Spec.Addons[0]))(t))
	testkit.Golden(t, "external-dns-designate.golden", before)
	if strings.Contains(before, "s3cret") || strings.Count(before, base64.StdEncoding.EncodeToString([]byte("s3cret of a cloud"))) != 1 {
		t.Error("the credential is not in the Secret alone")
	}
	plain := &CloudLogin{AuthURL: "https://keystone.example.org:5000/v3", CredentialID: "id-2", Secret: "another", Insecure: true, Interface: "internal"}
	in.CloudLogin = func() (*CloudLogin, error) { return plain, nil }
	after := string(testkit.Value(RenderSite(in, doc.Spec.Addons[0]))(t))
	if checksumOf(t, after) == checksumOf(t, before) {
		t.Error("another credential restarts no pod")
	}
	if strings.Contains(after, "volumes:") || !strings.Contains(after, "{name: OS_INSECURE, value: 'true'}") || !strings.Contains(after, "{name: OS_INTERFACE, value: 'internal'}") {
		t.Errorf("without authorities:\n%s", after)
	}
	plain = nil
	if text, err := RenderSite(in, doc.Spec.Addons[0]); text != nil || err != nil {
		t.Errorf("without a credential: %s, %v", text, err)
	}
}

// TestPrometheusSecrets: no value of a Secret is in the manifests, each Secret is mounted once and may be missing, and the configuration of one's own is neither rendered nor optional.
func TestPrometheusSecrets(t *testing.T) {
	doc := siteDocument(t, "["+prometheusSettings+"]")
	text := string(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t))
	for name, n := range map[string]int{"prometheus-extra": 2, "mimir": 2, "other": 2, "hook": 2, "chat": 2, "mail": 2} { // two pods each
		if got := strings.Count(text, "secret: {secretName: '"+name+"', optional: true}"); got != n {
			t.Errorf("%d pods mount Secret %s, want %d", got, name, n)
		}
	}
	if strings.Contains(text, "secretName: ''") || strings.Contains(text, "kind: Secret") {
		t.Error("the manifests have a Secret, or mount one without a name")
	}
	doc = siteDocument(t, "[{name: prometheus, prometheus: {alertmanagerSecret: mine}}]")
	text = string(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t))
	if strings.Contains(text, "alertmanager.yml: |") || strings.Count(text, "secret: {secretName: 'mine'}") != 1 || strings.Contains(text, "configMap: {name: alertmanager}") {
		t.Error("Alertmanager does not read the Secret")
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

// TestDeschedulerIsHarmless: with whichever settings, the descheduler may not delete pods, lets pods be that fit on no other node, and never touches kube-system; control-plane
// machines take part only if they run ordinary pods.
func TestDeschedulerIsHarmless(t *testing.T) {
	render := func(settings string, change func(*v1alpha1.Cluster)) string {
		t.Helper()
		doc := siteDocument(t, "[{name: descheduler, descheduler: {"+settings+"}}]")
		change(doc)
		return string(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t))
	}
	same := func(*v1alpha1.Cluster) {}
	const outside = `nodeSelector: "!node-role.kubernetes.io/control-plane"`
	for _, settings := range []string{"", "dryRun: true", "evictLocalStorage: true, evictVolumes: true, minReplicas: 1", "policies: [pod-life-time], podLifeTime: 1h, excludedNamespaces: [kube-system]"} {
		text := render(settings, same)
		if !strings.Contains(text, "nodeFit: true") || strings.Count(text, `- "kube-system"`) != 1 || !strings.Contains(text, outside) {
			t.Errorf("{%s} lacks a protection:\n%s", settings, text)
		}
		for _, never := range []string{"delete]", "delete,", "SystemCriticalPods", "DaemonSetPods", "FailedBarePods"} {
			if strings.Contains(text, never) {
				t.Errorf("{%s} has %s", settings, never)
			}
		}
		if evicts := strings.Contains(text, "pods/eviction"); evicts == strings.Contains(settings, "dryRun") {
			t.Errorf("{%s}: the right to evict is %v", settings, evicts)
		}
	}
	for name, change := range map[string]func(*v1alpha1.Cluster){
		"no workers":  func(c *v1alpha1.Cluster) { c.Spec.Workers = nil },
		"schedulable": func(c *v1alpha1.Cluster) { c.Spec.ControlPlane.Schedulable = true },
	} {
		if strings.Contains(render("", change), outside) {
			t.Errorf("%s: the control-plane machines are left out", name)
		}
	}
	if checksumOf(t, render("", same))[:16] == checksumOf(t, render("maxEvictions: 21", same))[:16] {
		t.Error("another policy restarts no pod")
	}
}

// TestNodeConditions: the rules of each monitor are JSON with patterns that Go can read, keep the conditions that the proof waits for, and match what Linux logs.
func TestNodeConditions(t *testing.T) {
	said := map[string]string{ // from the sources of Linux 6.12
		"INFO: task kworker/u8:1:42 blocked for more than 120 seconds.":                                                                                              "TaskHung",
		"INFO: task containerd-shim:4242 blocked for more than 120 seconds.":                                                                                         "RuntimeHung",
		"Memory cgroup out of memory: Killed process 71 (stress ng) total-vm:1024kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:40kB oom_score_adj:0": "OOMKilling",
		"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [stress:71]":                                                                                              "SoftLockup",
		"BUG: kernel NULL pointer dereference, address: 0000000000000010":                                                                                            "KernelOops",
		"Oops: 0000 [#1] PREEMPT SMP NOPTI":                                                                                                                          "KernelOops",
		"Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP NOPTI":                                                     "KernelOops",
		"unregister_netdevice: waiting for eth0 to become free. Usage count = 2":                                                                                     "UnregisterNetDevice",
		"EXT4-fs (sda1): Remounting filesystem read-only":                                                                                                            "FilesystemIsReadOnly",
		"XFS (sdb1): Corruption of in-memory data (0x8) detected at xfs_trans_cancel+0x1 (fs/xfs/xfs_trans.c:1097).  Shutting down filesystem.":                      "XfsHasShutdown",
		"EXT4-fs error (device sda1): ext4_lookup:1785: inode #2: comm ls: deleted inode referenced":                                                                 "Ext4Error",
		"I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0":                                                                            "IOError",
		"{1}[Hardware Error]: event severity: fatal":                                                                                                                 "CperHardwareErrorFatal",
		"{1}[Hardware Error]: event severity: corrected":                                                                                                             "CperHardwareErrorCorrected",
		"mce: [Hardware Error]: Machine check events logged":                                                                                                         "MachineCheck",
		"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0":                                                                                         "MemoryReadError",
		"audit: type=1400 apparmor=\"DENIED\"":                                                                                                                       "",
		"traps: app[71] general protection fault ip:401000 sp:7ffd error:0 in app[401000+1000]":                                                                      "",
	}
	doc := siteDocument(t, "[{name: node-problem-detector}]")
	objects := testkit.Value(manifest.Parse(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t)))(t)
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	files, _, err := unstructured.NestedStringMap(objects[i].Object, "data")
	testkit.Must(t, err)
	var kept []string
	matched := map[string][]string{}
	for _, m := range v1alpha1.NodeMonitors {
		var conf struct {
			Conditions []struct{ Type string }
			Rules      []struct{ Type, Condition, Reason, Pattern string }
		}
		testkit.Must(t, json.Unmarshal([]byte(files[m+".json"]), &conf))
		var own []string
		for _, c := range conf.Conditions {
			own = append(own, c.Type)
		}
		kept = append(kept, own...)
		for _, r := range conf.Rules {
			if permanent := r.Type == "permanent"; permanent != slices.Contains(own, r.Condition) || !permanent && r.Type != "temporary" {
				t.Errorf("%s: rule %s is %s, of condition %q", m, r.Reason, r.Type, r.Condition)
			}
			pattern := regexp.MustCompile(r.Pattern + `\z`) // as node-problem-detector does
			for line := range said {
				if pattern.MatchString(line) {
					matched[line] = append(matched[line], r.Reason)
				}
			}
		}
	}
	if want := NodeConditions(v1alpha1.NodeMonitors); !slices.Equal(kept, want) {
		t.Errorf("the rules keep %v, the proof waits for %v", kept, want)
	}
	for line, want := range said {
		if got := matched[line]; want == "" && got != nil || want != "" && !slices.Contains(got, want) {
			t.Errorf("%q gives %v, want %q", line, got, want)
		}
	}
}
