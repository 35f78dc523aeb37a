package adopt

import (
	"cmp"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/release"
)

// architecture is the architecture of bundles: that of this host.
const architecture = runtime.GOARCH

// drafting is a draft in progress.
type drafting struct {
	*Draft
	gaps

	o    Options
	f    *Found
	want v1alpha1.Cluster
	conf kubeadmConfig

	unread   bool                // kubeadm's record can't be read: findings that depend on it are left out
	alone    bool                // a finding reports already that the endpoint is the address of a single machine
	noBundle bool                // its release has no bundle
	external bool                // etcd is not kubeadm's own
	told     []string            // settings that another finding covers
	sans     []string            // further names in the API servers' certificates
	held     []setting           // settings of the owner's that the document holds
	moved    map[string][]string // hosts whose certificates are not in kubeadm's directory, by directory
}

// tell names settings that comparisons leave out, because another finding covers them.
func (d *drafting) tell(settings ...string) { d.told = append(d.told, settings...) }

// kubeadmConfig holds the fields of kubeadm's ClusterConfiguration that import reads.
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
				image, _, _ := strings.Cut(s.Image, "@") // the digest adds nothing
				at := strings.LastIndex(image, ":")
				if at <= strings.LastIndex(image, "/") {
					continue // a digest alone
				}
				tag := image[at+1:]
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
	d.noBundle = true
	d.block(whole, do, "it runs Kubernetes %s, for which naupegos makes no bundle", v)
}

// skips reports whether another finding already states that a node can't be a machine.
func (d *drafting) skips(node string) bool {
	return slices.ContainsFunc(d.f.Survey.Nodes, func(n kube.SurveyedNode) bool { return n.Name == node && n.OS != "linux" })
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
			d.block(n.Name, "move the node to containerd (drain it, install containerd, have containerRuntimeEndpoint of the kubelet name its socket), or take it out of the cluster",
				"its container runtime is %s", name)
		case h.Facts["systemd"] != "yes" || h.Facts["dpkg"] != "yes":
			d.block(n.Name, "join a Debian or Ubuntu host in its place", "its operating system (%s) has no systemd or no Debian packages", n.Image)
		}
		if owner, adopted, known := h.owner(); known && (adopted == "" || adopted != d.o.ID) {
			d.block(n.Name, "naupegos release lets go of that cluster", "the host is a machine (%s) of another cluster that naupegos keeps", owner)
		}
		d.manifests(h)
	}
}

// kubeadm reads kubeadm's records.
func (d *drafting) kubeadm() {
	text, ok := d.f.Survey.Records["kubeadm-config"]["ClusterConfiguration"]
	if !ok {
		d.unread = true
		d.block(whole, notKubeadm, "there is no kubeadm-config in kube-system")
		return
	}
	if err := yaml.Unmarshal([]byte(text), &d.conf); err != nil {
		d.unread = true
		d.block(whole, "correct it: kubectl --namespace kube-system edit configmap kubeadm-config (YAML takes no tabs for indentation)", "the ConfigMap kubeadm-config can't be read: %v", err)
		return
	}
	d.conf.ClusterName = cmp.Or(d.conf.ClusterName, "kubernetes") // as kubeadm has it
	d.conf.ImageRepository = cmp.Or(d.conf.ImageRepository, "registry.k8s.io")
	d.networks()
	d.endpoint()
	d.pods()
	if d.conf.ClusterName != d.o.Name {
		d.add(Changes, whole, "kubeadm's name of the cluster, "+d.conf.ClusterName+", becomes "+d.o.Name, "")
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
		d.block(whole, "run kube-proxy (kubeadm init phase addon kube-proxy) and make the pod network leave Services to it (Cilium: kubeProxyReplacement: false), or keep this cluster as it is: "+
			"an apply would add a kube-proxy beside the pod network's own", "it has no kube-proxy")
	}
}

// etcd finds out how etcd's members were started.
func (d *drafting) etcd() {
	cps := d.controlPlane()
	if d.external = d.conf.Etcd.External != nil || d.etcdElsewhere(); d.external {
		d.block(whole, "move etcd to the control-plane machines as static pods of kubeadm (Kubespray: etcd_deployment_type: kubeadm), or keep this cluster as it is",
			"its etcd is not kubeadm's own (external)")
		d.tell("etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile")
		return
	}
	var misnamed, hosts []string
	for _, h := range cps {
		flags := h.flags("etcd")
		switch {
		case flags == nil:
			d.block(h.Name, "join the machine's etcd with kubeadm, or take it out of the control plane", "no etcd lies on it as a static pod")
		case path.Clean(flags["data-dir"]) != "/var/lib/etcd":
			d.block(h.Name, "move etcd's data to /var/lib/etcd (or mount it there), and change etcd's manifest and kubeadm-config accordingly", "etcd's data is in %s", flags["data-dir"])
		case flags["name"] != h.Name:
			misnamed, hosts = append(misnamed, flags["name"]), append(hosts, h.Name)
		default:
			d.members[h.Name] = member{flags["initial-cluster"], flags["initial-cluster-state"]}
		}
	}
	if len(misnamed) > 0 {
		d.block(strings.Join(hosts, ", "), "one machine after another: kubeadm reset it, and join it again, which gives its member the node's name", "its etcd member is called %s", strings.Join(misnamed, ", "))
	}
	d.joined()
	if len(cps) == 0 && !d.unread {
		d.block(whole, "only clusters whose control plane kubeadm has made, as static pods in /etc/kubernetes/manifests, can be taken over", "no API server lies on any host as a static pod")
	}
}

// etcdElsewhere reports whether the API servers use an etcd although no control-plane machine runs one as a static pod.
func (d *drafting) etcdElsewhere() bool {
	elsewhere := false
	for _, h := range d.controlPlane() {
		if h.flags("etcd") != nil {
			return false
		}
		elsewhere = elsewhere || h.flags("kube-apiserver")["etcd-servers"] != ""
	}
	return elsewhere
}

// joined finds the members that joined the first one although their manifests don't state it: kubeadm upgrade writes each manifest as if the
// member were alone. With such a manifest, a member that lost its data would start a cluster of its own.
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

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func join(list []string) string { return strings.Join(list, ",") }
