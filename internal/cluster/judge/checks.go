package judge

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Requirements of a machine before Naupegos configures it.
const (
	kernelMajor, kernelMinor = 5, 13           // the oldest kernel on which kube-proxy starts in nftables mode
	planeMemory              = 1700 << 20      // bytes: kubeadm's minimum for a control plane
	nodeDisk                 = 3 << 30         // bytes: programs, images, and their unpacked layers
	ownDisk                  = 1 << 30         // bytes, of what has a file system of its own beside these
	etcdDisk                 = 2 << 30         // bytes: the size that etcd stops at
	gatewayDisk              = 512 << 20       // bytes: programs and packages
	clockSkew                = 5 * time.Minute // between its clock and this one: certificates are valid from shortly before their creation
)

func systemd(m report) error {
	if m.facts.Systemd {
		return nil
	}
	return fail.New(fail.Refused, "its first process is not systemd").At(m.Name).Do("use a Debian or Ubuntu host that runs systemd")
}

func dpkg(m report) error {
	if m.facts.Dpkg {
		return nil
	}
	return fail.New(fail.Refused, "its operating system (%s) has no Debian packages", m.facts.OS).At(m.Name).
		Do("use Debian or Ubuntu; Naupegos does not support Fedora CoreOS, Flatcar and the like yet")
}

func grub(m report) error {
	if !m.Boots || m.facts.GRUB {
		return nil
	}
	return fail.New(fail.Refused, "it does not boot by a GRUB that update-grub configures, so its kernel can't get arguments").At(m.Name).
		Do("remove kernelArguments from spec.machines, or from the machine's role or pool; containers have their host's kernel")
}

func hostname(m report) error {
	if m.facts.Hostname == m.Name || m.Given { // kubelet registers the machine's name, not the host's
		return nil
	}
	return fail.New(fail.Conflict, "its hostname is %q", m.facts.Hostname).At(m.Name).Do("another machine answers at this address, or its hostname was changed")
}

func kernel(m report) error {
	major, minor, ok := kernelVersion(m.facts.Kernel)
	if !ok || m.Role == provider.Gateway || major > kernelMajor || major == kernelMajor && minor >= kernelMinor {
		return nil
	}
	return fail.New(fail.Refused, "its kernel is %s; kube-proxy needs %d.%d or newer", m.facts.Kernel, kernelMajor, kernelMinor).At(m.Name).
		Do("boot a newer kernel, or install Debian 12, Ubuntu 22.04 or newer")
}

// kernelVersion parses the start of a release such as "5.4.0-42-generic".
func kernelVersion(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		rest = rest[:i]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err1 == nil && err2 == nil
}

func memory(m report) error {
	have := m.facts.MemoryBytes
	if m.Role != provider.ControlPlane || !m.Given || have == 0 || have >= planeMemory {
		return nil
	}
	return fail.New(fail.Refused, "it has %d MiB of memory; a control-plane machine needs %d MiB", have>>20, planeMemory>>20).At(m.Name).
		Do("add memory, or use another host")
}

// addresses requires the document's address on the host itself, because servers listen there.
func addresses(m report) error {
	have := m.facts.Addresses
	if len(have) == 0 || m.Address == "" || slices.Contains(have, m.Address) {
		return nil
	}
	return fail.New(fail.Refused, "the host does not have its address %s, only %s, and servers listen at that address", m.Address, strings.Join(have, ", ")).At(m.Name).
		Do("set address to the one at which the other machines reach the host; if you reach it only at %s (a floating or translated address), set that as sshAddress", m.Address)
}

// machineID matches an ID, unlike "uninitialized".
var machineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// machineIDs refuses clones: systemd, DHCP servers and pod networks identify machines by this ID. Two machines in use keep working, so one
// of the clones must be new.
func machineIDs(all []report) (found []error) {
	same := map[string][]report{}
	for _, m := range all {
		if id := m.facts.MachineID; machineID.MatchString(id) && m.Given {
			same[id] = append(same[id], m)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(same)) {
		twins := same[id]
		fresh := func(m report) bool { return m.facts.Fresh }
		if len(twins) < 2 || !slices.ContainsFunc(twins, fresh) {
			continue
		}
		names := make([]string, len(twins))
		for i, m := range twins {
			names[i] = m.Name
		}
		clone := twins[slices.IndexFunc(twins, fresh)]
		if i := slices.IndexFunc(twins[1:], fresh); i >= 0 {
			clone = twins[1+i] // the first may be the original
		}
		found = append(found, fail.New(fail.Conflict, "%s have one machine ID (/etc/machine-id): one is a clone of the other, or both are the same host", strings.Join(names, " and ")).
			At(clone.Name).Do("on the clone, run: rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; reboot"))
	}
	return found
}

// disk requires room on each file system that the role fills. Hardened hosts have several below /var/lib.
func disk(m report) error {
	images := slices.ContainsFunc(m.facts.Volumes, func(v machine.Volume) bool { return v.Directory == machine.ContainerdRoot })
	for _, v := range m.facts.Volumes {
		need := int64(ownDisk)
		switch {
		case m.Role == provider.Gateway && v.Directory == "/var/lib":
			need = gatewayDisk
		case m.Role == provider.Gateway && v.Directory != machine.StateDir, m.Role != provider.ControlPlane && v.Directory == "/var/lib/etcd":
			continue
		case v.Directory == "/var/lib" && !images, v.Directory == machine.ContainerdRoot:
			need = nodeDisk
		case v.Directory == "/var/lib/etcd":
			need = etcdDisk
		}
		if v.Free < need {
			return fail.New(fail.Refused, "%d MiB are free below %s, %d MiB are needed", v.Free>>20, v.Directory, need>>20).At(m.Name).
				Do("make room there, or mount a larger disk")
		}
	}
	return nil
}

// vip refuses a gateway whose address lies in another network than the virtual one: neighbours could not find that by ARP. An address whose prefix has
// its full length says nothing about its network.
func vip(m report) error {
	if m.VIP == "" || m.Role != provider.Gateway || m.Address == "" {
		return nil
	}
	link, ok := m.facts.AttachmentOf(m.Address)
	if !ok {
		return nil
	}
	prefix, err := netip.ParsePrefix(link.Prefix)
	address, err2 := netip.ParseAddr(m.VIP)
	if err != nil || err2 != nil || prefix.IsSingleIP() || prefix.Contains(address) || prefix.Addr().Is4() != address.Is4() {
		return nil
	}
	return fail.New(fail.Refused, "the virtual address %s lies outside of %s, the network of its address %s on %s: other machines could not reach it", m.VIP, prefix.Masked(), m.Address, link.Interface).
		At(m.Name).Do("set spec.endpoint.vip to a free address of that network, or give the gateway the address that it has in the network of the virtual one")
}

// balancers refuses to take HAProxy or keepalived over from other services. HAProxy that listens nowhere is as the package installs it.
func balancers(m report) error {
	if m.Role != provider.Gateway || !m.Given || m.Adopted {
		return nil
	}
	var serve, files []string
	for _, s := range m.facts.Balancers {
		switch s {
		case "haproxy.service":
			if !slices.ContainsFunc(m.facts.Listeners, func(l machine.Listener) bool { return l.Unit == s }) {
				continue
			}
			files = append(files, "/etc/haproxy/haproxy.cfg")
		case "keepalived.service":
			files = append(files, "/etc/keepalived/keepalived.conf")
		}
		serve = append(serve, s)
	}
	if len(serve) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "%s serves something already (%s), and a gateway would replace that", strings.Join(serve, " and "), strings.Join(files, ", ")).At(m.Name).
		Do("use other hosts as gateways, or leave these in front of the cluster: spec.endpoint.kind address; if nothing needs them any more, run \"systemctl disable --now %s\" there", strings.Join(serve, " "))
}

// clock refuses a machine that is not in use: its first certificates may not be valid there yet.
func clock(m report) error {
	if says := skewed(m); says != "" && m.facts.Fresh {
		return fail.New(fail.Refused, "%s", says).At(m.Name).Do("%s", setClock(m))
	}
	return nil
}

// clockInUse warns of a machine in use: the cluster must remain manageable while a clock is wrong.
func clockInUse(m report) string {
	if says := skewed(m); says != "" && !m.facts.Fresh {
		return says + ", and it may refuse certificates that are made now as not yet valid: " + setClock(m)
	}
	return ""
}

// skewed says how a machine's clock differed from this host's when it reported; empty if by little.
func skewed(m report) string {
	there := m.facts.Clock
	skew := m.at.Sub(there).Abs()
	if there.IsZero() || skew <= clockSkew {
		return ""
	}
	return fmt.Sprintf("its clock says %s, which differs from this host's by %s", there.UTC().Format(time.RFC3339), skew.Round(time.Second))
}

func setClock(m report) string {
	return fmt.Sprintf("set it: timedatectl set-ntp true on %s; or correct this host's clock, if that is wrong", m.Name)
}

// firewall warns because the facts do not include whether the firewall admits the cluster's machines.
func firewall(m report) string {
	if m.facts.Firewall == "" {
		return ""
	}
	disable := "systemctl disable --now " + m.facts.Firewall
	switch m.facts.Firewall {
	case "ufw":
		disable = "ufw disable"
	case "netfilter-persistent": // its rules stay when it stops
		disable = "netfilter-persistent flush; systemctl disable netfilter-persistent"
	case "shorewall": // without clear, its stop closes the machine
		disable = "shorewall clear; systemctl disable shorewall"
	}
	return fmt.Sprintf("%s is active and may block traffic between the cluster's machines, and a timeout would be the only sign: let all of them through there, or run %q "+
		"(Naupegos has its own packet filter)", m.facts.Firewall, disable)
}

// services warns of container runtimes and clusters that run already, because their containers stop.
func services(m report) string {
	if len(m.facts.Services) == 0 || !m.Given || m.Adopted || m.Role == provider.Gateway {
		return ""
	}
	stop := "systemctl disable --now " + strings.Join(m.facts.Services, " ")
	if slices.ContainsFunc(m.facts.Services, func(s string) bool { return strings.Contains(s, "docker") }) {
		stop += "; iptables -P FORWARD ACCEPT" // Docker's policy stays when it stops
	}
	return fmt.Sprintf("%s runs already, and Naupegos installs its own containerd, which may stop those containers: move them elsewhere, then run %q there",
		strings.Join(m.facts.Services, ", "), stop)
}

// selinux warns, because Debian's containerd has no policy.
func selinux(m report) string {
	if !m.facts.SELinux || m.Role == provider.Gateway {
		return ""
	}
	return "SELinux is enforcing, and Debian has no policy for containers, so that pods fail: run \"setenforce 0\" there, and set SELINUX=permissive in /etc/selinux/config"
}

// leftovers refuses a host with remains of a former cluster that programs of the new one would take for their own: kubelet starts each manifest,
// etcd prefers data to its flags, containerd takes the pod network whose file comes first.
func leftovers(m report) error {
	if m.Role == provider.Gateway || !m.Given || m.Adopted {
		return nil
	}
	var files, found []string
	reboot := false
	for _, l := range m.facts.Leftovers {
		dir, name := path.Split(l)
		switch dir {
		case "/var/lib/etcd/":
			if m.Role != provider.ControlPlane {
				continue
			}
		case "/etc/cni/net.d/":
			if name >= m.Network {
				continue
			}
		case "/sys/class/net/":
			reboot = true
			found = append(found, "network link "+name)
			continue
		}
		files, found = append(files, l), append(found, l)
	}
	if len(found) == 0 {
		return nil
	}
	var steps []string
	if len(files) > 0 {
		steps = append(steps, "rm -r "+strings.Join(files, " "))
	}
	if reboot || slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, "/etc/") }) {
		steps = append(steps, "reboot") // links, addresses and rules of the packet filter go, too
	}
	return fail.New(fail.Refused, "a former cluster left %s, which the new one would use", strings.Join(found, ", ")).At(m.Name).
		Do("if nothing needs it any more, run on %s: %s", m.Name, strings.Join(steps, "; "))
}

// forwardDrops warns, because the facts do not include whether a rule accepts the pods' packets.
func forwardDrops(m report) string {
	if m.facts.ForwardDrops == "" || m.Role == provider.Gateway || m.Adopted {
		return ""
	}
	remedy := "accept packets from and to the pods' network there"
	if m.facts.ForwardDrops == "iptables" {
		remedy = `run "iptables -P FORWARD ACCEPT" there (Docker sets DROP when it starts before net.ipv4.ip_forward is on)`
	}
	return fmt.Sprintf("%s drops forwarded packets, and so those between pods of different machines, and a timeout would be the only sign: %s", m.facts.ForwardDrops, remedy)
}
