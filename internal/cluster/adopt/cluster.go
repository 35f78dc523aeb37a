package adopt

import (
	"maps"
	"net"
	"net/netip"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/release"
)

// architecture is what bundles are made for: that of this host.
const architecture = runtime.GOARCH

// drafting is a draft under way.
type drafting struct {
	*Draft
	gaps

	o    Options
	f    *Found
	want v1alpha1.Cluster
	conf kubeadmConfig

	unread bool // kubeadm's record can't be read, so that nothing can be said of what follows from it
}

// kubeadmConfig is what of kubeadm's ClusterConfiguration counts here.
type kubeadmConfig struct {
	ClusterName          string `json:"clusterName"`
	KubernetesVersion    string `json:"kubernetesVersion"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	ImageRepository      string `json:"imageRepository"`
	CertificatesDir      string `json:"certificatesDir"`
	Networking           struct {
		PodSubnet     string `json:"podSubnet"`
		ServiceSubnet string `json:"serviceSubnet"`
		DNSDomain     string `json:"dnsDomain"`
	} `json:"networking"`
	Etcd struct {
		External *struct {
			Endpoints []string `json:"endpoints"`
		} `json:"external"`
	} `json:"etcd"`
	APIServer struct {
		CertSANs []string `json:"certSANs"`
	} `json:"apiServer"`
}

func (d *drafting) controlPlane() (hosts []Host) {
	for _, h := range d.f.Hosts {
		if h.isControlPlane() {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// release finds the release that everything runs.
func (d *drafting) release() {
	versions := map[string][]string{} // who runs it
	for _, n := range d.f.Survey.Nodes {
		versions[n.Version] = append(versions[n.Version], "kubelet on "+n.Name)
	}
	for _, h := range d.f.Hosts {
		for _, c := range components()[1:] {
			if s, ok := h.server(c); ok {
				image, _, _ := strings.Cut(s.Image, "@") // the digest after it says no more
				tag := image[strings.LastIndex(image, ":")+1:]
				versions[tag] = append(versions[tag], c+" on "+h.Name)
			}
		}
	}
	var all []string
	for v := range versions {
		all = append(all, v)
	}
	slices.Sort(all)
	if len(all) != 1 {
		var words []string
		for _, v := range all {
			words = append(words, v+" ("+versions[v][0]+")")
		}
		d.block(whole, "bring everything to one release with kubeadm upgrade", "it runs several releases: %s", strings.Join(words, ", "))
		return
	}
	v := all[0]
	d.want.Spec.Kubernetes.Version = v
	if _, ok := release.Find(v); ok {
		return
	}
	var known []string
	for _, r := range release.Versions() {
		if release.MinorOf(r) == release.MinorOf(v) {
			known = append(known, r)
		}
	}
	do := "bring it to " + strings.Join(known, " or ") + " with kubeadm upgrade"
	if len(known) == 0 {
		do = "bring it to one of " + strings.Join(release.Versions(), ", ") + " with kubeadm upgrade, a minor at a time"
	}
	d.block(whole, do, "it runs Kubernetes %s, of which naupegos makes no bundle", v)
}

// hosts refuses hosts that can't be machines of a cluster of ours.
func (d *drafting) hosts() {
	for i, n := range d.f.Survey.Nodes {
		h := d.f.Hosts[i]
		switch {
		case n.OS != "linux":
			d.block(n.Name, "take the node out of the cluster", "its operating system is %s", n.OS)
			continue
		case n.Architecture != architecture:
			d.block(n.Name, "take the node out of the cluster", "its processor is %s; bundles are made for %s", n.Architecture, architecture)
		case !strings.HasPrefix(n.Runtime, "containerd://"):
			name, _, _ := strings.Cut(n.Runtime, "://")
			d.block(n.Name, "move the node to containerd, or take it out of the cluster", "its container runtime is %s", name)
		case h.Facts["systemd"] != "yes" || h.Facts["dpkg"] != "yes":
			d.block(n.Name, "use a Debian or Ubuntu host", "its operating system (%s) has no systemd or no Debian packages", n.Image)
		}
		if owner, adopted, known := h.owner(); known && (adopted == "" || adopted != d.o.ID) {
			d.block(n.Name, "naupegos release lets go of that cluster", "the host is a machine (%s) of another cluster that naupegos keeps", owner)
		}
		d.manifests(h)
	}
}

// kubeadm reads what kubeadm has recorded.
func (d *drafting) kubeadm() {
	text, ok := d.f.Survey.Records["kubeadm-config"]["ClusterConfiguration"]
	if !ok {
		d.unread = true
		d.block(whole, "only clusters that kubeadm has made can be taken over", "there is no kubeadm-config in kube-system")
		return
	}
	if err := yaml.Unmarshal([]byte(text), &d.conf); err != nil {
		d.unread = true
		d.block(whole, "mend it: kubectl --namespace kube-system edit configmap kubeadm-config (tabs are no indentation)", "the ConfigMap kubeadm-config can't be read: %v", err)
		return
	}
	d.networks()
	if d.want.Spec.Kubernetes.PodCIDR == "" {
		d.block(whole, "record the pods' network as networking.podSubnet in the ConfigMap kubeadm-config", "kubeadm has recorded no pod network")
	}
	d.endpoint()
	d.pods()
	if d.conf.ClusterName != d.o.Name {
		d.add(Changes, whole, "kubeadm's name of the cluster, "+d.conf.ClusterName+", becomes "+d.o.Name, "")
	}
}

// endpoint finds by what the API is reached.
func (d *drafting) endpoint() {
	e, cps := &d.want.Spec.Endpoint, d.controlPlane()
	d.conf.ControlPlaneEndpoint = strings.ToLower(d.conf.ControlPlaneEndpoint) // names of hosts have no case
	host, port, err := net.SplitHostPort(d.conf.ControlPlaneEndpoint)
	if err != nil {
		host, port = d.conf.ControlPlaneEndpoint, strconv.Itoa(layout.APIServerPort)
	}
	if len(cps) == 1 && (host == "" || host == cps[0].Address) && port == strconv.Itoa(layout.APIServerPort) {
		e.Kind = v1alpha1.EndpointDirect
	} else {
		e.Kind, e.Address = v1alpha1.EndpointAddress, net.JoinHostPort(host, port)
	}
	var further []string
	for _, san := range d.conf.APIServer.CertSANs {
		if san != host && !slices.ContainsFunc(cps, func(h Host) bool { return h.Address == san || h.Name == san }) && san != "127.0.0.1" && san != "localhost" {
			further = append(further, san)
		}
	}
	if _, err := netip.ParseAddr(first(further)); err != nil && len(further) == 1 && e.Kind == v1alpha1.EndpointDirect {
		e.DNSName, further = further[0], nil
	}
	if len(further) > 0 {
		d.gaps = append(d.gaps, Gap{Kind: Lost, Where: whole, What: "names in the API servers' certificates that no document can hold: " + strings.Join(further, ", "),
			Restarts: "API servers, one after another", Do: "have clients use the endpoint, " + d.conf.ControlPlaneEndpoint})
	}
}

// networks are pod networks by the names of their DaemonSets.
var networks = map[string]string{
	"kube-flannel-ds": "flannel", "calico-node": "Calico", "cilium": "Cilium", "canal": "Canal", "weave-net": "Weave Net", "kube-router": "kube-router",
	"antrea-agent": "Antrea", "kube-ovn-cni": "Kube-OVN", "kube-multus-ds": "Multus",
}

// pods finds the pod network and kube-proxy.
func (d *drafting) pods() {
	var found []string
	proxy := false
	for _, set := range d.f.Survey.DaemonSets {
		if name := networks[path.Base(set)]; name != "" {
			found = append(found, name+" (DaemonSet "+set+")")
		}
		proxy = proxy || set == "kube-system/kube-proxy"
	}
	if len(found) == 0 {
		found = []string{"one that is not known by its name"}
	}
	d.add(Stays, whole, "the pod network: "+strings.Join(found, ", "), "it is yours to upgrade: the document says cni: none")
	if !proxy {
		d.block(whole, "a cluster whose pod network takes kube-proxy's place would get one by the first apply", "it has no kube-proxy")
	}
}

// etcd finds out how etcd's members were started.
func (d *drafting) etcd() {
	if d.conf.Etcd.External != nil {
		d.block(whole, "move etcd to the control-plane machines as kubeadm has it (stacked), or keep this cluster as it is", "its etcd is not kubeadm's own (external)")
		return
	}
	for _, h := range d.controlPlane() {
		flags := h.flags("etcd")
		switch {
		case flags == nil:
			d.block(h.Name, "join the machine's etcd with kubeadm, or take it out of the control plane", "no etcd lies on it as a static pod")
		case flags["data-dir"] != "/var/lib/etcd":
			d.block(h.Name, "move etcd's data to /var/lib/etcd", "etcd's data lies in %s", flags["data-dir"])
		case flags["name"] != h.Name:
			d.block(h.Name, "replace the member by one that is called as its node", "its etcd member is called %s", flags["name"])
		default:
			d.members[h.Name] = member{flags["initial-cluster"], flags["initial-cluster-state"]}
		}
	}
	d.joined()
	if len(d.controlPlane()) == 0 {
		d.block(whole, "only clusters whose control plane kubeadm has made can be taken over", "no API server lies on any host as a static pod")
	}
}

// joined finds the members that have joined the first one without saying so: kubeadm upgrade writes each one's manifest as if it were alone.
// One that lost its data would begin a cluster of its own by that.
func (d *drafting) joined() {
	initial := ""
	for _, name := range slices.Sorted(maps.Keys(d.members)) {
		m := d.members[name]
		switch {
		case m.state == existing:
		case initial == "":
			initial = m.cluster
		case !slices.ContainsFunc(strings.Split(initial, ","), func(one string) bool { return strings.HasPrefix(one, name+"=") }):
			d.members[name] = member{m.cluster, existing}
		}
	}
}

// authorities gathers the authorities and keys, which must be the same everywhere.
func (d *drafting) authorities() {
	d.taken = pki.Taken{Authorities: map[string]pki.Pair{}}
	files := map[string]string{pki.KubernetesCA: "ca", pki.FrontProxyCA: "front-proxy-ca", pki.EtcdCA: "etcd/ca"}
	for _, h := range d.f.Hosts {
		if d.unread || h.Files[pkiDir+"ca.crt"] == nil && h.isControlPlane() {
			continue // told of elsewhere
		}
		if first := d.withAuthority(); digest(h.Files[pkiDir+"ca.crt"]) != digest(first.Files[pkiDir+"ca.crt"]) {
			d.block(h.Name, "mend the host's /etc/kubernetes/pki", "its authority is another one than that of %s", first.Name)
		}
	}
	cps := d.controlPlane()
	if len(cps) == 0 || d.unread {
		return
	}
	first := cps[0]
	if dir := d.certificates(first); dir+"/" != pkiDir && first.Files[pkiDir+"ca.crt"] == nil {
		d.block(first.Name, "move them to /etc/kubernetes/pki on all control-plane machines, and change the paths in the manifests and certificatesDir of kubeadm-config",
			"its certificates lie in %s", dir)
		return
	}
	for name, base := range files {
		key := first.Files[pkiDir+base+".key"]
		d.taken.Authorities[name] = pki.Pair{CertPEM: keyFirst(first.Files[pkiDir+base+".crt"], key), KeyPEM: key}
	}
	d.taken.ServiceAccount = first.Files[pkiDir+"sa.key"]
	for _, base := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key", "sa.key"} {
		if d.conf.Etcd.External != nil && strings.HasPrefix(base, "etcd/") {
			continue
		}
		if first.Files[pkiDir+base] == nil {
			d.block(first.Name, "without it nothing can be issued or renewed: put it back", "%s%s is not there", pkiDir, base)
			continue
		}
		for _, h := range cps[1:] {
			if digest(h.Files[pkiDir+base]) != digest(first.Files[pkiDir+base]) {
				d.block(h.Name, "bring the same file to all control-plane machines", "%s%s is another one than that of %s", pkiDir, base, first.Name)
			}
		}
	}
	if slices.ContainsFunc(d.gaps, func(g Gap) bool { return g.Kind == Blocks }) {
		return // that one is missing is told of already
	}
	if _, err := d.taken.Secrets(); err != nil {
		d.block(first.Name, "mend the host's /etc/kubernetes/pki", "%v", err)
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func join(list []string) string { return strings.Join(list, ",") }
