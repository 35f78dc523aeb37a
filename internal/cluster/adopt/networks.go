package adopt

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// networks finds the cluster's networks and its domain: from the servers' flags, else from kubeadm's records, else from kubeadm's defaults.
func (d *drafting) networks() {
	k, n := &d.want.Spec.Kubernetes, &d.conf.Networking
	var services, pods, domain string
	if cps := d.controlPlane(); len(cps) > 0 {
		services = cps[0].flags("kube-apiserver")["service-cluster-ip-range"]
		pods = cps[0].flags("kube-controller-manager")["cluster-cidr"]
		domain = cps[0].clusterDomain()
		d.nodeMask(cps[0].flags("kube-controller-manager"))
	}
	if pods == "" && n.PodSubnet == "" {
		pods = d.proxyCIDR()
	}
	k.ServiceCIDR = masked(d.running("serviceSubnet", services, n.ServiceSubnet, "10.96.0.0/12"))
	k.PodCIDR = masked(d.running("podSubnet", pods, n.PodSubnet, ""))
	k.DNSDomain = d.running("dnsDomain", domain, n.DNSDomain, "cluster.local")
	k.CNI = v1alpha1.CNINone
	d.families()
	if k.PodCIDR == "" {
		d.block(whole, "record the pods' network as networking.podSubnet in the ConfigMap kubeadm-config", "it has no pod network that a server or a record names")
		k.PodCIDR = "10.244.0.0/16" // so that the rest of the document can be checked
	}
}

// nodeMask takes over how much of the pods' network each node takes, if a document can hold it and it is not the default.
func (d *drafting) nodeMask(flags map[string]string) {
	const single, four = "node-cidr-mask-size", "node-cidr-mask-size-ipv4"
	mask, err := strconv.Atoi(cmp.Or(flags[four], flags[single]))
	if err == nil && mask >= 20 && mask <= 28 {
		if mask != 24 {
			d.want.Spec.Kubernetes.NodeCIDRMaskSize = mask
		}
		d.tell(single, four)
	}
}

// families blocks networks that are not IPv4 alone. The document is checked with their IPv4 parts.
func (d *drafting) families() {
	k := &d.want.Spec.Kubernetes
	six := func(network string) bool { return strings.ContainsAny(network, ":,") }
	if !six(k.PodCIDR) && !six(k.ServiceCIDR) {
		return
	}
	d.block(whole, "a document holds one IPv4 network for pods and one for Services: make a cluster with naupegos apply, and move workloads and volumes there",
		"its networks are IPv6 or have two families (podCIDR %s, serviceCIDR %s)", k.PodCIDR, k.ServiceCIDR)
	for network, otherwise := range map[*string]string{&k.PodCIDR: "10.244.0.0/16", &k.ServiceCIDR: "10.96.0.0/12"} {
		four := ""
		for _, one := range strings.Split(*network, ",") {
			if !strings.Contains(one, ":") && four == "" {
				four = one
			}
		}
		if *network = masked(four); four == "" {
			*network = otherwise
		}
	}
	d.tell("cluster-cidr", "service-cluster-ip-range", "node-cidr-mask-size-ipv4", "node-cidr-mask-size-ipv6", "clusterCIDR", "clusterDNS", "feature-gates", "node-ip")
}

// running returns the value on a server's command line, else the recorded value, else the default. A difference is a finding.
func (d *drafting) running(name, runs, recorded, otherwise string) string {
	switch {
	case runs == "" && recorded == "":
		return otherwise
	case runs == "":
		return recorded
	}
	if recorded != "" && masked(recorded) != masked(runs) {
		d.add(Changes, whole, "kubeadm-config says "+name+" "+recorded+", but servers run with "+runs+", which the document has and the first apply records", "")
	}
	return runs
}

// masked returns networks without host bits, because servers treat 10.244.0.1/16 as 10.244.0.0/16. It does not change anything else.
func masked(networks string) string {
	list := strings.Split(networks, ",")
	for i, network := range list {
		if p, err := netip.ParsePrefix(strings.TrimSpace(network)); err == nil {
			list[i] = p.Masked().String()
		}
	}
	return strings.Join(list, ",")
}

// clusterDomain is the domain of Services by the kubelet's configuration.
func (h Host) clusterDomain() string {
	settings, err := h.kubeletSettings()
	if err != nil {
		return "" // the comparison of kubelets names it
	}
	return settings["clusterDomain"]
}

// proxyCIDR is the pods' network by kube-proxy's configuration.
func (d *drafting) proxyCIDR() string {
	var c struct {
		ClusterCIDR string `json:"clusterCIDR"`
	}
	if yaml.Unmarshal([]byte(d.f.Survey.Records["kube-proxy"]["config.conf"]), &c) != nil {
		return "" // the comparison of kube-proxy names it
	}
	return c.ClusterCIDR
}

// dnsAddress is the address of the cluster's DNS in a network of Services: the tenth.
func dnsAddress(network string) string {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return ""
	}
	a := p.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a.String()
}

// dns blocks a cluster if another Service has the address of the cluster's DNS: the first apply could not create it.
func (d *drafting) dns() {
	at := dnsAddress(d.want.Spec.Kubernetes.ServiceCIDR)
	if by := d.f.Survey.Services[at]; by != "" && by != "kube-system/kube-dns" {
		d.block(whole, "delete that Service, and make it again with another address", "the Service %s has the address %s, which is that of the cluster's DNS", by, at)
	}
}
