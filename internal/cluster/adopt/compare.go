package adopt

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/programs"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// comparison is what runs of one program on one host, beside what an apply would configure there.
type comparison struct {
	where, of, restarts string // as findings have them
	program, pool       string // pool: of a kubelet's machine; empty for control-plane machines
	theirs              map[string]string
	fields              map[string]any    // what theirs has of a configuration file; nil for flags
	files               map[string][]byte // of the host
	neutral             []string
	ours                func(layout.Params) (map[string]string, error)
}

// comparisons collects everything that runs and that an apply would configure.
func (d *drafting) comparisons() (all []comparison, err error) {
	for _, h := range d.controlPlane() {
		m := d.members[h.Name]
		start := layout.EtcdStart{InitialCluster: map[string]string{}, State: "new"}
		for _, one := range strings.Split(m.cluster, ",") {
			name, url, _ := strings.Cut(one, "=")
			start.InitialCluster[name] = url
		}
		if m.state == existing {
			start.State = m.state
		}
		p, err := d.params()
		if err != nil {
			return nil, err
		}
		ours := p.Flags(h.node(), start)
		for _, c := range components() {
			theirs := h.flags(c)
			if theirs == nil || c == "etcd" && m.cluster == "" {
				continue // covered by another finding
			}
			d.moveToPKI(theirs, h)
			withoutUsual(c, theirs, ours[c])
			if theirs["initial-cluster-state"] == "new" { // etcd's own default
				delete(theirs, "initial-cluster-state")
			}
			for _, name := range []string{"cluster-cidr", "service-cluster-ip-range"} { // host bits make no difference
				if theirs[name] != "" {
					theirs[name] = masked(theirs[name])
				}
			}
			all = append(all, comparison{where: h.Name, of: c, restarts: c + " on " + h.Name, program: c, theirs: theirs, files: h.Files, neutral: slices.Concat(neutral(c), d.told),
				ours: func(p layout.Params) (map[string]string, error) { return p.Flags(h.node(), start)[c], nil }})
		}
	}
	for _, h := range d.f.Hosts {
		some, err := d.kubelet(h)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	proxy, err := d.proxy()
	return append(all, proxy...), err
}

// compare reports the differences between what runs and what the first apply would configure.
func (d *drafting) compare(all []comparison) error {
	p, err := d.params()
	if err != nil {
		return err
	}
	for _, c := range all {
		ours, err := c.ours(p)
		if err != nil {
			return err
		}
		d.withoutHeld(c, ours)
		d.settings(c.where, c.of, c.theirs, ours, c.neutral, c.restarts)
		if last := len(d.gaps) - 1; c.program == flags.Kubelet && last >= 0 && d.gaps[last].Where == c.where &&
			slices.ContainsFunc(d.gaps[last].Details, func(s string) bool { return strings.HasPrefix(s, "clusterDNS=") }) {
			d.gaps[last].Do = "pods that start after the first apply ask the cluster's DNS itself, also where a node-local one runs; where something needs the other settings, do not apply"
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(d.moved)) {
		d.add(Changes, strings.Join(d.moved[dir], ", "), "certificates and keys are read from "+dir+": the first apply writes new ones of the same authorities to /etc/kubernetes/pki, and makes all servers read those", "")
	}
	return nil
}

// params returns the parameters for rendering without a bundle.
func (d *drafting) params() (layout.Params, error) {
	k, s := d.doc.Spec.Kubernetes, d.doc.Spec.Security
	p := layout.Params{
		ClusterName: d.o.Name, Endpoint: d.conf.ControlPlaneEndpoint, PodCIDR: k.PodCIDR, ServiceCIDR: k.ServiceCIDR, DNSDomain: k.DNSDomain,
		Release: layout.Release{Version: k.Version}, EtcdMode: layout.EtcdStacked, CNI: k.CNI, AuditLog: *s.AuditLog.Enabled, Encryption: d.encryption, Harden: *s.CISDefaults,
		AuditOptions: layout.AuditLog{MaxAgeDays: s.AuditLog.MaxAgeDays, MaxBackups: s.AuditLog.MaxBackups, MaxSizeMiB: s.AuditLog.MaxSizeMiB},
	}
	for _, h := range d.controlPlane() {
		p.ControlPlanes = append(p.ControlPlanes, h.node())
	}
	for _, h := range d.f.Hosts {
		p.SharedKernel = p.SharedKernel || h.Facts["container"] != ""
	}
	var err error
	p.Settings, err = programs.Of(d.doc, nil)
	return p, err
}

// neutral lists flags whose value does not matter, or that other findings cover.
func neutral(component string) []string {
	switch component {
	case "etcd":
		return []string{"experimental-initial-corrupt-check", "experimental-watch-progress-notify-interval", "initial-cluster"}
	case "kube-apiserver":
		return []string{encryptionFlag, "encryption-provider-config-automatic-reload", auditPolicyFlag, "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"}
	case "kube-controller-manager":
		return []string{"cluster-name", "flex-volume-plugin-dir"}
	}
	return nil
}

// proxy returns the comparison of kube-proxy; none if another finding covers it.
func (d *drafting) proxy() ([]comparison, error) {
	record, ok := d.f.Survey.Records["kube-proxy"]
	if !ok {
		return nil, nil
	}
	fields, err := fieldsOf([]byte(record["config.conf"]))
	if err != nil {
		d.block(whole, "correct it: kubectl --namespace kube-system edit configmap kube-proxy", "the ConfigMap kube-proxy can't be read: %v", err)
		return nil, nil
	}
	c := comparison{where: whole, of: "kube-proxy", restarts: "kube-proxy on each machine", program: flags.KubeProxy, fields: fields,
		neutral: slices.Concat([]string{"mode", "bindAddress", "clientConnection", "conntrack", "hostnameOverride"}, d.told),
		ours: func(p layout.Params) (map[string]string, error) {
			config, err := p.ProxySettings()
			if err != nil {
				return nil, err
			}
			return flat(config)
		}}
	p, err := d.params()
	if err != nil {
		return nil, err
	}
	ours, err := c.ours(p)
	if err != nil {
		return nil, err
	}
	if fields["mode"] == nil {
		fields["mode"] = "iptables"
	}
	c.theirs, err = texts(fields)
	withoutUsualSettings("kube-proxy", c.theirs, ours)
	return []comparison{c}, err
}

// merge combines equal findings on several hosts into one.
func (d *drafting) merge() {
	var out gaps
	for _, g := range d.gaps {
		i := slices.IndexFunc(out, func(o Gap) bool {
			return o.Kind == g.Kind && o.What == g.What && o.Do == g.Do && slices.Equal(o.Details, g.Details)
		})
		if i < 0 {
			out = append(out, g)
			continue
		}
		if out[i].Where != g.Where {
			out[i].Where += ", " + g.Where
		}
		if out[i].Restarts != g.Restarts {
			component, _, _ := strings.Cut(g.Restarts, " on ")
			out[i].Restarts = component + ", one machine after another"
		}
	}
	d.gaps = out
}

// always reports the changes that the first apply makes to every adopted cluster.
func (d *drafting) always() {
	r, _ := release.Find(d.doc.Spec.Kubernetes.Version)
	var before []string
	for i, n := range d.f.Survey.Nodes {
		if is := fmt.Sprintf("%s (%s)", n.Runtime, d.f.Hosts[i].Facts["runtime"]); !slices.Contains(before, is) {
			before = append(before, is)
		}
	}
	d.gaps = append(d.gaps,
		Gap{Kind: Changes, Where: whole, What: "programs and images come from the bundle of " + r.Kubernetes, Restarts: "containerd, kubelet and static pods, one machine after another; workers are drained first",
			Details: []string{"containerd: " + strings.Join(before, ", ") + " becomes containerd://" + strings.TrimPrefix(r.Containerd, "v") + " (/usr/local/bin/containerd) with a configuration of ours",
				"images of the control plane, kube-proxy and CoreDNS: " + d.conf.ImageRepository + " becomes the bundle's"}},
		Gap{Kind: Changes, Where: whole, What: "certificates of servers and users are issued anew by the same authorities, for a year", Restarts: "static pods of the control plane",
			Details: []string{"kubelets ask for serving certificates, which an approver on control-plane machines gives them"}},
		Gap{Kind: Changes, Where: whole, What: "kubeadm's records and addons (kube-proxy, CoreDNS) are written anew", Restarts: "kube-proxy and CoreDNS",
			Details: []string{"an edited Corefile stays"}},
		Gap{Kind: Changes, Where: whole, What: "anonymous requests to the API are answered only where they ask for health, and for what kubeadm join reads", Restarts: "API servers, one after another"},
		Gap{Kind: Stays, Where: whole, What: "what runs in it, its tokens, its authorities and keys, containerd's data, packages"})
	d.leadsTo()
}

// leadsTo adds the finding about an endpoint that its owner maintains.
func (d *drafting) leadsTo() {
	e := d.doc.Spec.Endpoint
	if e.Kind != v1alpha1.EndpointAddress {
		return
	}
	do := "tell it of control-plane machines that come and go"
	host, _, _ := net.SplitHostPort(e.Address)
	for _, h := range d.controlPlane() {
		if h.Address == host && !d.alone {
			do = "it is the address of " + h.Name + " alone: while that is down, none reaches the API; the endpoint can't change later"
		}
	}
	if slices.ContainsFunc(d.f.Hosts, func(h Host) bool { return h.knows(host) }) {
		do += "; machines find " + host + " in their /etc/hosts: write it there on every machine that you add"
	}
	d.add(Stays, whole, "the endpoint "+e.Address+" and the load balancer or record behind it", do)
}

// knows reports whether a host's own file resolves a name.
func (h Host) knows(name string) bool {
	for line := range strings.Lines(string(h.Files["/etc/hosts"])) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 1 && slices.Contains(words[1:], name) {
			return true
		}
	}
	return false
}
