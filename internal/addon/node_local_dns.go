package addon

import (
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/nodedns"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// NodeLocalDNSPort is the port of each machine at which its cache serves metrics.
var NodeLocalDNSPort = strconv.Itoa(nodedns.MetricsPort)

// clusterDNS is the number of cluster DNS' address in the network of Services, as kubeadm has it.
const clusterDNS = 10

func nodeLocalDNS(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.NodeLocalDNS, a.Name)
	if err != nil {
		return nil, err
	}
	n := a.NodeLocalDNS
	values := map[string]any{
		"Image": ref, "Domain": in.Doc.Spec.Kubernetes.DNSDomain, "Cluster": clusterDNSAddress(in.Doc), "Local": n.Address, "Node": n.Outside == nodedns.OutsideNode,
		"TTL": int(n.MaxTTL.Seconds()), "Entries": n.Entries, "Denials": n.Entries / 2, "Stale": n.ServeStale.Duration.String(), "Log": n.LogQueries, "MetricsPort": nodedns.MetricsPort,
	}
	if n.Outside == nodedns.OutsideNode {
		values["Resolvers"] = resolvers(in.Doc) // a pod has the name servers of its start
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the manifest of %s", a.Name)
	}
	values["Checksum"] = checksum(text)
	return render(a.Name, nodeLocalDNSManifest, values)
}

// NodeLocalDNSMetric returns the metric that a node's cache serves while it resolves the names for which the node's programs ask cluster DNS.
func NodeLocalDNSMetric(doc *v1alpha1.Cluster) string {
	return `naupegos_node_local_dns_serves{address="` + clusterDNSAddress(doc) + `"} 1`
}

// clusterDNSAddress returns the address of cluster DNS.
func clusterDNSAddress(doc *v1alpha1.Cluster) string {
	services, err := netip.ParsePrefix(doc.Spec.Kubernetes.ServiceCIDR)
	if err != nil {
		return "" // impossible in a document that was checked
	}
	a := services.Masked().Addr()
	for range clusterDNS {
		a = a.Next()
	}
	return a.String()
}

// resolvers lists the name servers that the document gives to the nodes.
func resolvers(doc *v1alpha1.Cluster) (out []v1alpha1.DNS) {
	out = append(out, doc.SettingsOf("control-plane", "").DNS)
	for _, p := range doc.Spec.Workers {
		out = append(out, doc.SettingsOf("worker", p.Name).DNS)
	}
	return out
}
