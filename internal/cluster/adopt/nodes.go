package adopt

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
)

// apiServers adopts the API servers' settings that a document can express.
func (d *drafting) apiServers() {
	off, sec := false, &d.want.Spec.Security
	sec.CISDefaults, sec.EncryptionAtRest, sec.AuditLog.Enabled = &off, &off, &off
	sec.PacketFilter = &v1alpha1.PacketFilter{Enabled: &off}
	d.want.Spec.SmokeTest = &off // the smoke test needs our own pod network
	cps := d.controlPlane()
	hard := len(cps) > 0
	for _, h := range cps {
		flags := h.flags("kube-apiserver")
		hard = hard && flags["profiling"] == "false" && flags["service-account-extend-token-expiration"] == "false" && flags["tls-min-version"] == "VersionTLS12"
		if port := cmp.Or(flags["secure-port"], "6443"); port != strconv.Itoa(layout.APIServerPort) {
			d.block(h.Name, fmt.Sprintf("move it to port %d", layout.APIServerPort), "its API server listens on port %s", port)
		}
		d.issuer(h)
		if h.encryption() != cps[0].encryption() {
			d.block(h.Name, "bring the same file to all control-plane machines", "its API server encrypts Secrets otherwise than that of %s", cps[0].Name)
		}
	}
	if len(cps) == 0 {
		return
	}
	sec.CISDefaults = &hard
	d.encrypted(cps[0])
	d.audited(cps[0])
}

// issuer blocks an API server whose tokens would be invalid after an apply: the first issuer issues new tokens, the others are for older ones.
func (d *drafting) issuer(h Host) {
	domain := d.want.Spec.Kubernetes.DNSDomain
	want, is := "https://kubernetes.default.svc."+domain, h.flags("kube-apiserver")["service-account-issuer"]
	if now, _, _ := strings.Cut(is, ","); domain != "" && now != want {
		d.tell("service-account-issuer")
		d.block(h.Name, "give every API server --service-account-issuer="+want+" and behind it the former one, remove that once all tokens have been renewed (a day), and import again",
			"service accounts' tokens are issued by %s: API servers would refuse all of them after an apply", is)
	}
}

// encryption is a host's EncryptionConfiguration; empty where its API server has none.
func (h Host) encryption() string {
	return string(h.Files[h.flags("kube-apiserver")[encryptionFlag]])
}

// ourKeys are encryption keys that rotation can follow on.
var ourKeys = regexp.MustCompile(`^key[1-9][0-9]*$`)

// encrypted adopts the keys with which API servers encrypt Secrets.
func (d *drafting) encrypted(h Host) {
	const ours = "providers secretbox, with keys called key1, key2 and so on, and identity, for secrets alone"
	if h.flags("kube-apiserver")[encryptionFlag] != "" && h.encryption() == "" {
		d.block(h.Name, "put it back, or take the flag out", "the file of the API server's --%s can't be read", encryptionFlag)
		return
	}
	list, keys, err := layout.ReadEncryption([]byte(h.encryption()))
	if err != nil {
		d.block(h.Name, "rewrite Secrets by "+ours+", or without encryption", "API servers encrypt otherwise than naupegos can")
		return
	}
	for name := range keys {
		if !ourKeys.MatchString(name) {
			d.block(h.Name, "rewrite Secrets by "+ours, "an encryption key is called %q", name)
		}
	}
	d.Draft.encryption, d.taken.Encryption = list, keys
	on := list[0] != layout.Plaintext
	d.want.Spec.Security.EncryptionAtRest = &on
}

// audited describes the audit log.
func (d *drafting) audited(h Host) {
	flags := h.flags("kube-apiserver")
	at := flags["audit-log-path"]
	if at == "" {
		return
	}
	number := func(name string) int { n, _ := strconv.Atoi(flags[name]); return n } // the API server has read it
	on := true
	d.want.Spec.Security.AuditLog = v1alpha1.AuditLog{Enabled: &on, Policy: string(h.Files[flags[auditPolicyFlag]]),
		MaxAgeDays: number("audit-log-maxage"), MaxBackups: number("audit-log-maxbackup"), MaxSizeMiB: number("audit-log-maxsize")}
	if dir := filepath.Dir(at); dir != "/var/log/kubernetes/audit" {
		d.add(Changes, whole, "the audit log moves from "+dir+" to /var/log/kubernetes/audit", "")
	}
}

const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// nodes describes machines and pools.
func (d *drafting) nodes() {
	d.want.APIVersion, d.want.Kind, d.want.Metadata.Name = "naupegos.dev/v1alpha1", "Cluster", d.o.Name
	hosts := &v1alpha1.Hosts{SSHKeyFile: d.o.KeyFile, Credential: d.o.Credential, User: d.o.User, Port: d.o.Port}
	d.want.Spec.Provider.Hosts = hosts
	pools := map[string]int{} // by the taints of their nodes
	var labels [][]map[string]string
	schedulable, tainted := 0, 0
	for i, n := range d.f.Survey.Nodes {
		h := d.f.Hosts[i]
		d.leftOut(n)
		address := h.Address
		if len(n.Addresses) > 0 && isIPv6(address) {
			address = ipv4First(n.Addresses)
		}
		m := v1alpha1.HostMachine{Name: n.Name, Address: address, Role: v1alpha1.RoleControlPlane, HostKey: first(h.Keys)}
		if !n.Ready {
			d.add(Stays, n.Name, "its node is not ready: "+n.Reason, "mend it before the first apply")
		}
		if h.isControlPlane() {
			d.planeTaints(n)
			if hasTaint(n, controlPlaneRole) {
				tainted++
			} else {
				schedulable++
			}
		} else {
			m.Role = v1alpha1.RoleWorker
			taints := taintsOf(n)
			group := fmt.Sprint(taints)
			at, known := pools[group]
			if !known {
				at = len(d.want.Spec.Workers)
				pools[group] = at
				name := "general"
				if at > 0 {
					name += "-" + strconv.Itoa(at+1)
				}
				d.want.Spec.Workers = append(d.want.Spec.Workers, v1alpha1.Pool{Name: name, Taints: taints})
				labels = append(labels, nil)
			}
			m.Pool = d.want.Spec.Workers[at].Name
			labels[at] = append(labels[at], given(n))
		}
		hosts.Machines = append(hosts.Machines, m)
	}
	for i := range d.want.Spec.Workers {
		d.want.Spec.Workers[i].Labels = common(labels[i])
	}
	d.want.Spec.ControlPlane.Schedulable = schedulable > 0
	if schedulable > 0 && tainted > 0 {
		d.block(whole, "give all of them the taint "+controlPlaneRole+":NoSchedule, or none", "ordinary pods are let onto some control-plane machines and not onto others")
	}
	d.ownLabels()
}

// ownLabels reports labels of single nodes, which a document has only if all nodes of a pool have them.
func (d *drafting) ownLabels() {
	var nodes, own []string
	for i, n := range d.f.Survey.Nodes {
		at := slices.IndexFunc(d.want.Spec.Workers, func(p v1alpha1.Pool) bool { return p.Name == d.want.Spec.Provider.Hosts.Machines[i].Pool })
		labels := given(n)
		maps.DeleteFunc(labels, func(name, value string) bool { return at >= 0 && d.want.Spec.Workers[at].Labels[name] == value })
		if len(labels) > 0 {
			nodes = append(nodes, n.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			own = append(own, n.Name+": "+name+"="+labels[name])
		}
	}
	if len(own) > 0 {
		d.add(Stays, strings.Join(nodes, ", "), "labels of single nodes", "", own...)
	}
}

// planeTaints reports further taints of a control-plane node, which no document has.
func (d *drafting) planeTaints(n kube.SurveyedNode) {
	var own []string
	for _, t := range taintsOf(n) {
		if !slices.Contains(kubernetesRoles, t.Key) {
			own = append(own, t.Key+"="+t.Value+":"+t.Effect)
		}
	}
	if len(own) > 0 {
		d.add(Stays, n.Name, "taints of control-plane nodes: "+strings.Join(own, ", "), "machines that join the control plane later do not get them: put them there")
	}
}

func hasTaint(n kube.SurveyedNode, key string) bool {
	return slices.ContainsFunc(n.Taints, func(t kube.Taint) bool { return t.Key == key })
}

// taintsOf returns the taints that the cluster's owner set on a node. Programs manage all others.
func taintsOf(n kube.SurveyedNode) (out []v1alpha1.Taint) {
	for _, t := range n.Taints {
		if ownerOf(t.Key, "taints") == "" {
			out = append(out, v1alpha1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.Taint) int { return strings.Compare(a.Key+a.Effect, b.Key+b.Effect) })
	return out
}

// kubernetesRoles are labels that kubeadm puts on control-plane nodes.
var kubernetesRoles = []string{controlPlaneRole, "node-role.kubernetes.io/master"}

// setLabels are labels that kubelets, kubeadm and clouds set by themselves.
var setLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
	"node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
}

// given returns the labels that the node's owner set. A cloud sets the zones of its nodes itself, and kubeadm keeps load balancers off control-plane
// nodes.
func given(n kube.SurveyedNode) map[string]string {
	out := custom(n.Labels)
	_, plane := n.Labels[controlPlaneRole]
	maps.DeleteFunc(out, func(key, _ string) bool {
		return n.ProviderID != "" && (strings.HasPrefix(key, "topology.kubernetes.io/") || strings.HasPrefix(key, "failure-domain.beta.kubernetes.io/")) ||
			plane && key == "node.kubernetes.io/exclude-from-external-load-balancers"
	})
	return out
}

// custom returns the labels that neither Kubernetes nor a known program sets.
func custom(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		owner := ownerOf(key, "labels")
		return slices.Contains(setLabels, key) || slices.Contains(kubernetesRoles, key) || domain == "naupegos.dev" || owner != "" && owner != kubernetes ||
			domain == "node.cloudprovider.kubernetes.io" || domain == "feature.node.kubernetes.io" || domain == "nfd.node.kubernetes.io"
	})
	return out
}

// common returns the labels that all have.
func common(all []map[string]string) map[string]string {
	out := maps.Clone(all[0])
	for _, labels := range all[1:] {
		maps.DeleteFunc(out, func(key, value string) bool { have, ok := labels[key]; return !ok || have != value })
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// finish writes the document and reads it again, with its defaults. Each remedy for the document's errors becomes one obstacle.
func (d *drafting) finish() (err error) {
	if d.Document, err = d.want.Marshal(); err != nil {
		return err
	}
	if d.want.Spec.Kubernetes.Version == "" || d.unread || len(d.controlPlane()) == 0 {
		return nil // covered by another finding
	}
	doc, err := validation.Parse("the document", d.Document)
	if err == nil {
		d.doc = doc
		return nil
	}
	complaints := map[string][]string{}
	for _, line := range strings.Split(err.Error(), "\n") {
		if strings.Contains(line, "spec.kubernetes.version") && d.noBundle {
			continue
		}
		do := remedy(line)
		complaints[do] = append(complaints[do], line)
	}
	for _, do := range slices.Sorted(maps.Keys(complaints)) {
		d.add(Blocks, whole, "no document can describe it: "+complaints[do][0], do, complaints[do][1:]...)
	}
	return nil
}

// remedies lists remedies for errors of a document, by a part of the error.
var remedies = [][2]string{
	{"spec.kubernetes.podCIDR", "the pods' network must be one IPv4 network of /8 to /24: make a cluster with naupegos apply, and move workloads there"},
	{"spec.kubernetes.serviceCIDR", "the Services' network must be one IPv4 network: make a cluster with naupegos apply, and move workloads there"},
	{"spec.endpoint", ownAddress},
	{"IPv6", "machines need IPv4 addresses: give the kubelet one with --node-ip, or take the node out of the cluster"},
	{".name", "join the machine again under a name of lower-case letters, digits, dashes and dots, 63 characters at most"},
	{"are even", "add a control-plane machine with kubeadm join, or take one out with kubeadm reset: etcd needs an odd number"},
	{"replicas", "add a control-plane machine with kubeadm join, or take one out with kubeadm reset"},
}

func remedy(complaint string) string {
	for _, r := range remedies {
		if strings.Contains(complaint, r[0]) {
			return r[1]
		}
	}
	return "change the named setting, or keep this cluster as it is"
}
