//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/testkit"
)

// inNetwork is the site of local machines in a network that the test chooses. The document's address pools are parts of that network.
type inNetwork struct{ onHost }

func (inNetwork) provider() string { return "    local:\n      network: {cidr: 10.76.5.0/24}\n" }

type addonSetting struct{ name, settings string }

// addonSettings returns the addons of the test with their settings, in the document's order.
func addonSettings(dns nameserver) []addonSetting {
	return []addonSetting{
		{catalogue.MetricsServer, ""}, {bundle.AddonLocalPath, ""}, {catalogue.NodeExporter, ", nodeExporter: {port: 9101}"}, {catalogue.KubeState, ""},
		{catalogue.Traefik, ", traefik: {gatewayAPI: true, ingressNGINX: true, customResources: true}"}, // removed while metallb still gives its address
		{catalogue.MetalLB, ", metallb: {pools: [{name: services, addresses: [10.76.5.200-10.76.5.209]}]}"},
		{catalogue.Snapshots, ", snapshotController: {replicas: 2}"}, {catalogue.CertManager, ", certManager: {featureGates: {NameConstraints: false}}"},
		{catalogue.ExternalDNS, fmt.Sprintf(", externalDNS: {rfc2136: {server: 10.76.5.1, port: %d, zones: [%s], auth: {credentialsFile: %s}}, policy: sync, sources: [service]}", dns.port, tsigZone, dns.keyFile)},
		{catalogue.Prometheus, ", prometheus: {scrapeInterval: 10s}"},
		{catalogue.Descheduler, ", descheduler: {interval: 10s, policies: [duplicates, low-node-utilization], excludedNamespaces: [shop]}"},
		{catalogue.NodeProblems, ""}, {catalogue.NodeLocalDNS, ", nodeLocalDNS: {serveStale: 1h}"},
	}
}

// addonList renders spec.addons without the named ones.
func addonList(all []addonSetting, without ...string) string {
	out := "  addons:\n"
	for _, a := range all {
		if !slices.Contains(without, a.name) {
			out += "    - {name: " + a.name + a.settings + "}\n"
		}
	}
	if len(without) == len(all) {
		return ""
	}
	return out
}

// TestAddons: a cluster has the catalogue's addons from the start. Each works, as a user sees it, and is removed alone
// and leaves nothing.
func TestAddons(t *testing.T) {
	testkit.OnlyFull(t, "the manifests' golden files, and TestSiteAddons has the plan")
	dns := startNameserver(t)
	all := addonSettings(dns)
	r := newRigOn(t, inNetwork{}, "addons")
	cluster := size{controlPlanes: 1, workers: 1, extra: addonList(all)}
	r.document(cluster)
	r.apply()
	again := r.must(0, "apply", "-f", r.file, "--yes")
	t.Logf("FIGURE the second apply took %v", again.took.Round(100*time.Millisecond))
	if !strings.Contains(again.stdout+again.stderr, "No changes") {
		t.Errorf("the second apply is %v", again)
	}
	for name := range r.passesItsTest(t) {
		t.Logf("proven: %s", name)
	}
	r.servesMetrics(t)
	r.mendsAddon(t)
	r.balances(t, dns)
	r.routes(t)

	var without []string
	for _, a := range all {
		without = append(without, a.name)
		cluster.extra = addonList(all, without...)
		r.document(cluster)
		r.apply()
		r.leavesNothing(t, a.name)
		r.forgetsProblems(t, a.name)
	}
	r.destroy()
}

// mendsAddon asserts that an edit by hand of an addon is shown and taken back.
func (r *rig) mendsAddon(t *testing.T) {
	t.Helper()
	deployments := r.clientset(time.Minute).AppsV1().Deployments("kube-system")
	_, err := deployments.Patch(t.Context(), catalogue.MetricsServer, types.StrategicMergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"app.kubernetes.io/name":"metrics-server"}},"spec":{"priorityClassName":""}}}}`),
		metav1.PatchOptions{FieldManager: "kubectl-edit"})
	testkit.Must(t, err)
	if diff := r.must(2, "diff", "-f", r.file); !strings.Contains(diff.stdout, "spec.template.spec.priorityClassName") {
		t.Errorf("the edit is not shown: %v", diff)
	}
	r.apply()
	if d := testkit.Value(deployments.Get(t.Context(), catalogue.MetricsServer, metav1.GetOptions{}))(t); d.Spec.Template.Spec.PriorityClassName == "" {
		t.Error("the edit is still there")
	}
}

// servesMetrics reads the metrics of the machines, and of the API's objects, through the API.
func (r *rig) servesMetrics(t *testing.T) {
	t.Helper()
	get := r.clientset(time.Minute).CoreV1().RESTClient()
	for _, c := range []struct{ app, port, metric string }{{"node-exporter", "9101", "node_memory_MemTotal_bytes"}, {"kube-state-metrics", "8080", "kube_pod_status_ready"}} {
		pods := testkit.Value(r.clientset(time.Minute).CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + c.app}))(t)
		for _, p := range pods.Items {
			body, err := get.Get().Namespace("kube-system").Resource("pods").SubResource("proxy").Name(p.Name + ":" + c.port).Suffix("metrics").DoRaw(t.Context())
			if err != nil || !strings.Contains(string(body), c.metric) {
				t.Errorf("%s does not serve %s: %v", p.Name, c.metric, err)
			}
		}
	}
}

// balances asks a Service of type LoadBalancer from this host, by its address and, at the name server, by its name.
func (r *rig) balances(t *testing.T, dns nameserver) {
	t.Helper()
	set := r.clientset(time.Minute)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "kube-system",
		Annotations: map[string]string{"external-dns.alpha.kubernetes.io/hostname": "web." + tsigZone}}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app.kubernetes.io/name": "kube-state-metrics"},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	svc = testkit.Value(set.CoreV1().Services("kube-system").Create(t.Context(), svc, metav1.CreateOptions{}))(t)
	began := time.Now()
	until(t, time.Minute*slower, time.Second, func() error {
		got, err := set.CoreV1().Services("kube-system").Get(t.Context(), svc.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("no address")
		}
		return servesMetrics(t, got.Status.LoadBalancer.Ingress[0].IP, "")
	})
	t.Logf("FIGURE the Service answered this host after %v", time.Since(began).Round(100*time.Millisecond))
	svc = testkit.Value(set.CoreV1().Services("kube-system").Get(t.Context(), svc.Name, metav1.GetOptions{}))(t)
	address := svc.Status.LoadBalancer.Ingress[0].IP
	until(t, time.Minute*slower, time.Second, func() error { return dns.has(t, "web."+tsigZone, address) })
	t.Logf("FIGURE its name had the address after %v", time.Since(began).Round(100*time.Millisecond))
	testkit.Must(t, set.CoreV1().Services("kube-system").Delete(t.Context(), svc.Name, metav1.DeleteOptions{}))
	until(t, 2*time.Minute*slower, time.Second, func() error { return dns.has(t, "web."+tsigZone, "") })
}

// servesMetrics returns an error unless kube-state-metrics answers this host at port 80 of an address, under a host name ("": the address).
func servesMetrics(t *testing.T, address, host string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, "80")+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(body), "kube_node_info") {
		err = fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return err
}

// routes asks an Ingress of the default class from this host, at the address of Traefik's load balancer.
func (r *rig) routes(t *testing.T) {
	t.Helper()
	set := r.clientset(time.Minute)
	kind := networkingv1.PathTypePrefix
	web := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "kube-system"}, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
		Host: "web.example.org", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/metrics", PathType: &kind,
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: catalogue.KubeState, Port: networkingv1.ServiceBackendPort{Number: 8080}}}}}}},
	}}}}
	testkit.Value(set.NetworkingV1().Ingresses("kube-system").Create(t.Context(), web, metav1.CreateOptions{}))(t)
	began := time.Now()
	until(t, time.Minute*slower, time.Second, func() error {
		got, err := set.NetworkingV1().Ingresses("kube-system").Get(t.Context(), web.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the Ingress has no address")
		}
		return servesMetrics(t, got.Status.LoadBalancer.Ingress[0].IP, "web.example.org")
	})
	t.Logf("FIGURE the Ingress answered this host after %v", time.Since(began).Round(100*time.Millisecond))
	testkit.Must(t, set.NetworkingV1().Ingresses("kube-system").Delete(t.Context(), web.Name, metav1.DeleteOptions{}))
}

// leavesNothing asserts that no object of an addon is left, of all kinds that the API lists, and none in its namespace.
func (r *rig) leavesNothing(t *testing.T, addon string) {
	t.Helper()
	set := r.clientset(time.Minute)
	until(t, 2*time.Minute*slower, time.Second, func() error {
		lists, err := set.Discovery().ServerPreferredResources()
		if err != nil {
			return err
		}
		for _, l := range lists {
			for _, kind := range l.APIResources {
				if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") { // such as metrics of pods
					continue
				}
				path := "/apis/" + l.GroupVersion + "/" + kind.Name
				if !strings.Contains(l.GroupVersion, "/") {
					path = "/api/" + l.GroupVersion + "/" + kind.Name
				}
				raw, err := set.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
				if err != nil {
					return err
				}
				var list struct {
					Items []struct{ Metadata metav1.ObjectMeta }
				}
				if err := json.Unmarshal(raw, &list); err != nil {
					return err
				}
				for _, o := range list.Items {
					if m := o.Metadata; m.Labels["naupegos.dev/addon"] == addon || kind.Name != "events" && leftOver(m, addon) {
						return fmt.Errorf("%s of %s is left among %s", strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"), addon, path)
					}
				}
			}
		}
		return nil
	})
}

// forgetsProblems asserts that nodes have the conditions of node-problem-detector until it is removed, and not afterwards.
func (r *rig) forgetsProblems(t *testing.T, removed string) {
	t.Helper()
	for _, n := range testkit.Value(r.clientset(time.Minute).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items {
		has := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "KernelDeadlock" })
		if has == (removed == catalogue.NodeProblems) {
			t.Errorf("after the removal of %s, node %s has the condition KernelDeadlock: %v", removed, n.Name, has)
		}
	}
}

// leftOver reports whether an object is in a namespace that is an addon's alone.
func leftOver(m metav1.ObjectMeta, addon string) bool {
	return m.Namespace == map[string]string{catalogue.MetalLB: "metallb-system", catalogue.CertManager: "cert-manager", catalogue.ExternalDNS: "external-dns", catalogue.Prometheus: "prometheus",
		catalogue.Descheduler: "descheduler", catalogue.Traefik: "traefik"}[addon] && m.Namespace != ""
}
