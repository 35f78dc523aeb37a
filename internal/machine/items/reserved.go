package items

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Reserved is the reason why a document may not change something on machines.
type Reserved struct{ Owner, Hint string }

// reservedDirs are directories, including everything below them.
var reservedDirs = map[string]Reserved{
	"/etc/kubernetes":          {"Naupegos writes Kubernetes' files there", ""},
	"/var/lib/kubelet":         {"kubelet keeps its state there", ""},
	"/var/lib/etcd":            {"etcd keeps its data there", ""},
	"/etc/containerd":          {"Naupegos configures containerd there", "mirrors and registries belong in spec.registries"},
	"/var/lib/containerd":      {"containerd keeps its data there", ""},
	"/etc/cni":                 {"the pod network is configured there", ""},
	"/opt/cni/bin":             {"the pod network's programs lie there", ""},
	"/opt/containerd":          {"containerd keeps its programs there", ""},
	"/var/lib/cni":             {"the pod network keeps its state there", ""},
	"/var/log/pods":            {"kubelet writes the logs of pods there", ""},
	"/var/log/containers":      {"kubelet writes the logs of pods there", ""},
	"/etc/haproxy":             {"Naupegos configures HAProxy there", ""},
	"/etc/keepalived":          {"Naupegos configures keepalived there", ""},
	"/etc/wireguard":           {"Naupegos configures WireGuard there", "peers belong in spec.access.wireguard"},
	"/etc/naupegos":            {"Naupegos keeps its own there", ""},
	"/var/lib/naupegos":        {"Naupegos keeps its own there", ""},
	"/var/lib/naupegos-images": {"the registry's images lie there", ""},
	"/usr/local/lib/naupegos":  {"Naupegos keeps its own there", ""},
	"/proc":                    {"the kernel presents itself there", "kernel settings belong in sysctls"},
	"/sys":                     {"the kernel presents itself there", ""},
	"/dev":                     {"the kernel presents itself there", ""},
	"/run":                     {"it is empty after a boot", "files there belong to a unit with RuntimeDirectory"},
	"/var/run":                 {"it is empty after a boot", "files there belong to a unit with RuntimeDirectory"},
	"/tmp":                     {"it is empty after a boot", ""},
	"/etc/systemd/system/multi-user.target.wants": {"systemd keeps links there", "a unit says by enabled whether it starts at boot"},
}

// reservedFiles are single files.
var reservedFiles = map[string]Reserved{
	"/etc/hosts":                  {"Naupegos writes the machines' names there", "give names to a DNS server: dns.servers"},
	"/etc/resolv.conf":            {"Naupegos writes dns.servers there", "set dns"},
	"/etc/localtime":              {"Naupegos sets the time zone there", "set timeZone"},
	"/etc/timezone":               {"Naupegos sets the time zone there", "set timeZone"},
	"/etc/hostname":               {"a node keeps its name", ""},
	"/etc/machine-id":             {"it identifies the machine", ""},
	"/etc/passwd":                 {"the system's accounts are kept there", ""},
	"/etc/shadow":                 {"the system's accounts are kept there", ""},
	"/etc/group":                  {"the system's accounts are kept there", ""},
	"/etc/gshadow":                {"the system's accounts are kept there", ""},
	"/root/.kube/config":          {"Naupegos writes it on the control plane, for kubectl", ""},
	"/root/.ssh/authorized_keys":  {"Naupegos writes the keys that may log in there", "set spec.access.sshKeys"},
	"/root/.ssh/authorized_keys2": {"Naupegos writes the keys that may log in there", "set spec.access.sshKeys"},
	"/etc/default/kubelet":        {"kubelet reads it", ""},
	"/etc/crictl.yaml":            {"Naupegos writes it", ""},
	"/usr/local/bin/runc":         {"Naupegos installs it", ""},
	"/usr/local/sbin/runc":        {"Naupegos installs it", ""},
}

// reservedPrograms are the programs of a bundle; Naupegos links them in /usr/local/bin.
var reservedPrograms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(containerd|containerd-shim-runc-v2|ctr|runc|crictl|kubeadm|kubectl|kubelet|etcd|etcdctl|etcdutl|naupegos.*)$`)
})

// reservedUnits are the units of Naupegos, by name without type.
var reservedUnits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(kubelet|containerd|etcd|haproxy|keepalived|naupegos.*|wg-quick@.*)$`)
})

// ReservedPath says whether and why a document may not put a file at a clean, absolute path.
func ReservedPath(p string) (Reserved, bool) {
	if r, ok := reservedFiles[p]; ok {
		return r, true
	}
	for dir := p; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if r, ok := reservedDirs[dir]; ok {
			return r, true
		}
	}
	dir, base := path.Dir(p), path.Base(p)
	unit := path.Base(strings.TrimSuffix(dir, ".d"))
	switch {
	case strings.HasPrefix(base, "naupegos-") || strings.Contains(base, "-naupegos"):
		return Reserved{"Naupegos calls its own files so", "choose another name"}, true
	case dir == "/usr/local/bin" && reservedPrograms().MatchString(base):
		return Reserved{"Naupegos installs " + base + " there", ""}, true
	case dir == "/etc/systemd/system":
		return Reserved{"Naupegos writes units there", "list the unit under units"}, true
	case strings.HasSuffix(dir, ".d") && path.Dir(dir) == "/etc/systemd/system" && ReservedUnit(unit):
		return Reserved{unit + " is a unit of Naupegos", ""}, true
	}
	return Reserved{}, false
}

// reservedSysctls are kernel settings that Naupegos or Kubernetes sets itself.
var reservedSysctls = map[string]string{
	"net.ipv4.ip_forward":                                "pods need it; Naupegos sets it to 1",
	"net.ipv4.conf.all.forwarding":                       "pods need it; Naupegos sets it to 1 by net.ipv4.ip_forward",
	"net.bridge.bridge-nf-call-iptables":                 "Services need it; Naupegos sets it to 1",
	"net.ipv4.conf.all.route_localnet":                   "kube-proxy sets it",
	"net.netfilter.nf_conntrack_max":                     "kube-proxy sets it by the number of processors",
	"net.netfilter.nf_conntrack_tcp_timeout_established": "kube-proxy sets it",
	"net.netfilter.nf_conntrack_tcp_timeout_close_wait":  "kube-proxy sets it",
	"kernel.keys.root_maxbytes":                          "kubelet demands its value; Naupegos sets it",
	"kernel.keys.root_maxkeys":                           "kubelet demands its value; Naupegos sets it",
	"kernel.panic":                                       "kubelet demands its value; Naupegos sets it",
	"kernel.panic_on_oops":                               "kubelet demands its value; Naupegos sets it",
	"vm.overcommit_memory":                               "kubelet demands its value; Naupegos sets it",
	"vm.panic_on_oom":                                    "kubelet demands its value; Naupegos sets it",
}

// reservedModules are kernel modules that Naupegos loads itself.
var reservedModules = []string{"overlay", "br_netfilter"}

// reservedPackages are packages that would replace a program of the bundle.
var reservedPackages = []string{
	"kubelet", "kubeadm", "kubectl", "containerd", "containerd.io", "docker.io", "docker-ce", "cri-o", "runc", "kubernetes-cni", "cri-tools", "etcd-server",
}

// ReservedSysctl returns who sets a kernel setting, by its dotted name; "" if documents may.
func ReservedSysctl(name string) string { return reservedSysctls[name] }

// ReservedModule reports whether Naupegos loads a kernel module itself.
func ReservedModule(name string) bool {
	return slices.Contains(reservedModules, strings.ReplaceAll(name, "-", "_"))
}

// ReservedPackage reports whether a package would replace a program of the bundle.
func ReservedPackage(name string) bool { return slices.Contains(reservedPackages, name) }

// ReservedUnit reports whether a unit is one of Naupegos.
func ReservedUnit(name string) bool {
	return reservedUnits().MatchString(strings.TrimSuffix(name, path.Ext(name)))
}

// SysctlName returns the dotted form of a kernel setting's name. As in sysctl.d(5), names may also use slashes; the first separator decides.
func SysctlName(key string) string {
	if i := strings.IndexAny(key, "./"); i < 0 || key[i] == '.' {
		return key
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, key)
}

// OddPath reports whether a path is not one of a file on a machine: absolute, without dots and control characters.
func OddPath(p string) bool {
	return !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })
}
