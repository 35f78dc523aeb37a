package addons

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/proof"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// ConsentVolumes is the consent to remove an addon that provides volumes while such volumes exist.
const ConsentVolumes = "volumes"

const (
	worksPrefix  = "works/"
	removePrefix = "remove-addon/"
)

// OfSite reports whether a step ID belongs to a step that proves or removes an addon of the document.
func OfSite(id string) bool {
	return strings.HasPrefix(id, worksPrefix) || strings.HasPrefix(id, removePrefix)
}

// WorksStep waits until an addon of the document works.
func (c *Addons) WorksStep(a addon.Addon) *plan.Step {
	return &plan.Step{
		ID: worksPrefix + a.Name, Action: plan.Wait, Subject: "cluster", Title: "wait until " + a.Name + " works", Reason: a.Reason, Timeout: SiteTime(c.Doc), Apart: true,
		Run: func(ctx context.Context, p plan.Progress) error {
			said, err := c.siteWorks(ctx, a, p)
			if err != nil {
				return err
			}
			p.Status("%s", said)
			return c.Facts.SetOf(ctx, memory.AddonWorks, a.Name, "true")
		},
	}
}

// siteWorks waits for the workloads of an addon and uses the addon as its users do. It returns what it observed.
func (c *Addons) siteWorks(ctx context.Context, a addon.Addon, p plan.Progress) (string, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	if err := waitWorkloads(ctx, client, a, p); err != nil {
		return "", err
	}
	switch a.Name {
	case addon.NameMetricsServer:
		p.Status("waiting for the first metrics")
		n, err := kube.WaitMeasuredNodes(ctx, client)
		return "metrics of " + words.Count(n, "node", "nodes"), err
	case addon.NameNodeExporter:
		p.Status("reading the metrics of each machine")
		n, err := proof.WaitPodMetrics(ctx, client, a.Name, strconv.Itoa(c.Doc.Addon(a.Name).NodeExporter.Port), "node_uname_info")
		return "metrics of " + words.Count(n, "machine", "machines"), err
	case addon.NameKubeStateMetrics:
		p.Status("reading the metrics of nodes")
		_, err := proof.WaitPodMetrics(ctx, client, a.Name, "8080", "kube_node_info")
		return "metrics of the API's objects", err
	case addon.NameMetalLB:
		return c.metalLBWorks(ctx, client, p)
	case addon.NameCertManager:
		p.Status("waiting for a self-signed certificate")
		took, err := proof.IssueCertificate(ctx, client, addon.CertManagerNamespace)
		return fmt.Sprintf("a certificate after %s", took.Round(time.Second/10)), err
	case addon.NameExternalDNS:
		p.Status("waiting until the zones were read and changed")
		return "the zones are as the cluster wants them", proof.WaitPodAnswer(ctx, client, addon.ExternalDNSNamespace, a.Name, addon.ExternalDNSPort, "synced", "published")
	case addon.NamePrometheus:
		return prometheusWorks(ctx, client, p)
	case addon.NameDescheduler:
		p.Status("waiting until a round through the nodes has ended")
		r, err := proof.WaitRounds(ctx, client, addon.DeschedulerNamespace, a.Name, addon.DeschedulerPort)
		return fmt.Sprintf("%s, %s evicted, %d evictions refused", words.Count(r.Ended, "round", "rounds"), words.Count(r.Evicted, "pod", "pods"), r.Refused), err
	case addon.NameNodeProblems:
		return c.nodeProblemsWork(ctx, client, p)
	case addon.NameNodeLocalDNS:
		p.Status("waiting until each node's cache resolves names for it")
		n, err := proof.WaitPodMetrics(ctx, client, a.Name, addon.NodeLocalDNSPort, addon.NodeLocalDNSMetric(c.Doc))
		return "a name resolved by the caches of " + words.Count(n, "node", "nodes"), err
	case addon.NameCollector:
		return c.collectorWorks(ctx, client, p)
	case addon.NameTraefik:
		return c.traefikWorks(ctx, client, p)
	case addon.NameSnapshots:
		p.Status("waiting for the kinds of snapshots, and for a controller that serves them")
		if err := proof.WaitKinds(ctx, client, "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"); err != nil {
			return "", err
		}
		pod, err := proof.WaitLeader(ctx, client, addon.SnapshotsNamespace, addon.SnapshotsLease, a.Name)
		return "pod " + pod + " serves VolumeSnapshots", err
	case addon.NameLocalPath:
		img, err := c.Current.Image("echo")
		if err != nil {
			return "", err
		}
		r, err := client.CloudSmoke(ctx, kube.CloudSmokeOptions{
			Image: img.Ref, NoLoadBalancer: true, StorageClass: c.Doc.Addon(a.Name).LocalPath.StorageClass, Timeout: SiteTime(c.Doc), Status: p.Status,
		})
		return fmt.Sprintf("a volume after %s", r.Volume.Round(time.Second/10)), err
	}
	return "", fail.New(fail.Internal, "addon %q has no proof", a.Name)
}

// prometheusWorks waits until Prometheus reads every API server and kubelet, and Alertmanager takes alerts.
func prometheusWorks(ctx context.Context, client *kube.Client, p plan.Progress) (string, error) {
	at := proof.Monitoring{Namespace: addon.PrometheusNamespace, Prometheus: addon.PrometheusApp, PrometheusPort: addon.PrometheusPort, Alertmanager: addon.AlertmanagerApp, AlertmanagerPort: addon.AlertmanagerPort}
	p.Status("waiting until API servers and kubelets are read")
	n, err := at.WaitTargets(ctx, client)
	if err != nil {
		return "", err
	}
	p.Status("giving Alertmanager an alert")
	return "metrics of " + words.Count(n, "API server and kubelet", "API servers and kubelets") + ", and Alertmanager takes alerts", at.WaitAlerts(ctx, client)
}

// poolsApart returns an error if a pool of addresses contains an address of the cluster that is not in the document.
func (c *Addons) poolsApart(ctx context.Context) error {
	machines, err := c.Addresses(ctx)
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for _, m := range machines {
		taken[m.Address] = "machine " + m.Name
	}
	if c.Doc.Spec.Endpoint.Kind == v1alpha1.EndpointGateways {
		vip, err := c.VIP(ctx)
		if err != nil {
			return err
		}
		taken[vip] = "the API's endpoint"
	}
	for _, pool := range c.Doc.Addon(addon.NameMetalLB).MetalLB.Pools {
		for _, r := range pool.Ranges() {
			for _, text := range slices.Sorted(maps.Keys(taken)) {
				if a, err := netip.ParseAddr(text); err == nil && r.Contains(a) {
					return fail.New(fail.Invalid, "pool %q of addon metallb contains %s, the address of %s", pool.Name, text, taken[text]).Do("leave the address out of the pool")
				}
			}
		}
	}
	return nil
}

// metalLBWorks requests an address for a Service and sends it a request, unless no pool has an address to give.
func (c *Addons) metalLBWorks(ctx context.Context, client *kube.Client, p plan.Progress) (string, error) {
	p.Status("waiting for the pools of addresses")
	free, err := proof.WaitAddressPools(ctx, client, len(c.Doc.Addon(addon.NameMetalLB).MetalLB.Pools))
	if err != nil {
		return "", err
	}
	if free == 0 {
		return "the pools that give addresses by themselves have none left to try with", nil
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return "", err
	}
	r, err := client.CloudSmoke(ctx, kube.CloudSmokeOptions{Image: img.Ref, NoVolume: true, Timeout: SiteTime(c.Doc), Status: p.Status, Ask: c.askBalancer,
		Trouble: "look whether the network of this host and of the machines leads to the addresses of metallb's pools, and at the logs in metallb-system"})
	return fmt.Sprintf("address %s after %s, asked from %s", r.Address, r.LoadBalancer.Round(time.Second/10), r.Asked), err
}

// nodeProblemsWork waits until each node has the conditions of the monitors, and removes the conditions of monitors that left the document.
func (c *Addons) nodeProblemsWork(ctx context.Context, client *kube.Client, p plan.Progress) (string, error) {
	wanted := addon.NodeConditions(c.Doc.Addon(addon.NameNodeProblems).NodeProblemDetector.Monitors)
	p.Status("waiting for conditions of each node")
	n, problems, err := proof.WaitConditions(ctx, client, addon.NameNodeProblems, wanted)
	if err != nil {
		return "", err
	}
	former := slices.DeleteFunc(addon.NodeConditions(v1alpha1.NodeMonitors), func(t string) bool { return slices.Contains(wanted, t) })
	if err := kube.DropConditions(ctx, client, former); err != nil {
		return "", err
	}
	return strings.Join(append([]string{"conditions of " + words.Count(n, "node", "nodes")}, problems...), "; "), nil
}

// collectorWorks waits until each collector has sent something to each exporter.
func (c *Addons) collectorWorks(ctx context.Context, client *kube.Client, p plan.Progress) (string, error) {
	var sinks []proof.Sink
	for _, s := range addon.CollectorSinks(c.Doc.Addon(addon.NameCollector).OpenTelemetryCollector) {
		sinks = append(sinks, proof.Sink(s))
	}
	p.Status("waiting until each collector has sent something to each exporter")
	sent, refused, err := proof.WaitSent(ctx, client, addon.CollectorNamespace, addon.CollectorPort, sinks)
	return fmt.Sprintf("%s sent, %d refused", words.Count(sent, "record and measurement", "records and measurements"), refused), err
}

// traefikWorks sends requests through Traefik to a pod, in each of the ways that the document wants.
func (c *Addons) traefikWorks(ctx context.Context, client *kube.Client, p plan.Progress) (string, error) {
	img, err := c.Current.Image("echo")
	if err != nil {
		return "", err
	}
	t := c.Doc.Addon(addon.NameTraefik).Traefik
	proxy := proof.Proxy{Namespace: addon.TraefikNamespace, Service: addon.TraefikService, HTTP: t.HTTPPort, HTTPS: t.HTTPSPort, Ingress: addon.ClassTraefik, Redirects: t.RedirectToHTTPS,
		Image: img.Ref, Status: p.Status, Dial: c.dialInside}
	if t.IngressNGINX {
		proxy.NGINX = addon.ClassNGINX
	}
	if t.GatewayAPI {
		proxy.Gateway = addon.ClassTraefik
	}
	n, at, err := proof.Route(ctx, client, proxy)
	return fmt.Sprintf("%s to a pod, at %s", words.Count(n, "request", "requests"), at), err
}

// dialInside connects from the first control-plane machine that succeeds.
func (c *Addons) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	var last error
	for _, name := range c.NamesOf(provider.ControlPlane) {
		h, err := c.Host(ctx, name)
		if err != nil {
			return nil, err
		}
		conn, err := c.Dialer.DialContext(ctx, h, network, address)
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// RemoveAddonStep removes an addon that the document no longer lists.
func (c *Addons) RemoveAddonStep(s observe.SurplusAddon) *plan.Step {
	step := &plan.Step{
		ID: removePrefix + s.Name, Action: plan.Destroy, Subject: "cluster", Title: "remove addon " + s.Name, Reason: "the document no longer lists it", Removes: true, Apart: true,
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			if s.Name == addon.NameNodeProblems {
				if err := kube.RemoveReporter(ctx, client, addon.Namespace, s.Name, addon.NodeConditions(v1alpha1.NodeMonitors)); err != nil {
					return err
				}
			}
			if err := client.Delete(ctx, nil, kube.ApplyOptions{Addon: s.Name, Shared: true}); err != nil {
				return err
			}
			return c.Facts.SetOf(ctx, memory.AddonWorks, s.Name, "")
		},
	}
	if s.Name == addon.NameBindings {
		step.Title, step.Reason = "remove the role bindings of the document", "spec.identity.bindings is empty"
	}
	for _, n := range s.Stays {
		step.Details = append(step.Details, n+", which is not the addon's: the namespace stays")
	}
	GiveUp(step, s.Lost, s.Defined)
	if len(s.Volumes) > 0 {
		step.Consent = ConsentVolumes
		for _, v := range s.Volumes {
			step.Details = append(step.Details, "volume "+v+" stays on its node, but nothing removes its directory when its claim is deleted")
		}
	}
	return step
}
