package judge

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryFactHasARule: each field of machine.Facts has one rule, with a check or with a reason for none.
func TestEveryFactHasARule(t *testing.T) {
	have := map[string]int{}
	for _, r := range rules() {
		have[r.fact]++
		n := 0
		for _, set := range []bool{r.refuse != nil || r.warn != nil, r.compare != nil, r.unchecked != ""} {
			if set {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s has %d checks and reasons for none", r.fact, n)
		}
	}
	facts := reflect.TypeFor[machine.Facts]()
	for i := range facts.NumField() {
		if name := facts.Field(i).Name; have[name] != 1 {
			t.Errorf("fact %s has %d rules", name, have[name])
		}
		delete(have, facts.Field(i).Name)
	}
	for name := range have {
		t.Errorf("the rule of %s checks no fact", name)
	}
}

const (
	ownID   = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	otherID = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
)

// sound returns the facts of a new host that can fill any role.
func sound() machine.Facts {
	return machine.Facts{
		Hostname: "h", OS: "debian 12", Kernel: "6.1.0-28-amd64", Systemd: true, Dpkg: true, Fresh: true, MemoryBytes: 4 << 30,
		Addresses: []string{"192.0.2.11"}, MachineID: ownID, Volumes: room("/var/lib", 9<<30), Clock: time.Now(),
	}
}

func room(directory string, free int64) []machine.Volume {
	return []machine.Volume{{Directory: directory, Free: free}}
}

// trial is one value of a fact. Neither refused nor warned: the value is good.
type trial struct {
	fact    string
	role    provider.Role
	change  func(*Subject, *machine.Facts)
	kind    fail.Kind
	refused string // parts of the error, separated by |
	warned  string // parts of the warning
}

// links gives a machine one address with its prefix, beside that of its default route, and its cluster a virtual address.
func links(prefix, vip string) func(*Subject, *machine.Facts) {
	return func(s *Subject, f *machine.Facts) {
		s.VIP, f.Interface = vip, "eth0"
		f.Links = []machine.Attachment{{Interface: "eth0", Prefix: "203.0.113.7/24"}, {Interface: "eth1", Prefix: prefix}}
	}
}

// left gives a host remains of a former cluster.
func left(paths ...string) func(*Subject, *machine.Facts) {
	return func(s *Subject, f *machine.Facts) { s.Network, f.Leftovers = "10-flannel.conflist", paths }
}

func trials() []trial {
	const node, plane, gateway = provider.Worker, provider.ControlPlane, provider.Gateway
	facts := func(change func(f *machine.Facts)) func(*Subject, *machine.Facts) {
		return func(_ *Subject, f *machine.Facts) { change(f) }
	}
	return []trial{
		{"Systemd", plane, facts(func(f *machine.Facts) { f.Systemd = false }), fail.Refused, "m: its first process is not systemd|use a Debian or Ubuntu host", ""},
		{"Systemd", gateway, facts(func(f *machine.Facts) { f.Systemd, f.Fresh = false, false }), fail.Refused, "m: its first process is not systemd", ""},
		{"Dpkg", plane, facts(func(f *machine.Facts) { f.Dpkg, f.OS = false, "fedora 44" }), fail.Refused, "m: its operating system (fedora 44) has no Debian packages|use Debian or Ubuntu", ""},
		{"Hostname", node, facts(func(f *machine.Facts) { f.Hostname = "other" }), 0, "", ""},
		{"Hostname", node, func(s *Subject, f *machine.Facts) { s.Given, f.Hostname = false, "other" }, fail.Conflict, `m: its hostname is "other"|another machine answers`, ""},
		{"Hostname", node, func(s *Subject, f *machine.Facts) { s.Given, f.Hostname = false, "m" }, 0, "", ""},
		{"Kernel", node, facts(func(f *machine.Facts) { f.Kernel = "5.4.0-42-generic" }), fail.Refused, "m: its kernel is 5.4.0-42-generic; kube-proxy needs 5.13 or newer|boot a newer kernel", ""},
		{"Kernel", plane, facts(func(f *machine.Facts) { f.Kernel = "4.19.0" }), fail.Refused, "m: its kernel is 4.19.0", ""},
		{"Kernel", node, facts(func(f *machine.Facts) { f.Kernel = "5.13.0" }), 0, "", ""},
		{"Kernel", node, facts(func(f *machine.Facts) { f.Kernel = "6.6" }), 0, "", ""},
		{"Kernel", gateway, facts(func(f *machine.Facts) { f.Kernel = "5.4.0" }), 0, "", ""},
		{"Kernel", node, facts(func(f *machine.Facts) { f.Kernel = "custom" }), 0, "", ""},
		{"Kernel", node, facts(func(f *machine.Facts) { f.Kernel, f.Fresh = "5.4.0", false }), 0, "", ""}, // it serves
		{"MemoryBytes", plane, facts(func(f *machine.Facts) { f.MemoryBytes = 1 << 30 }), fail.Refused, "m: it has 1024 MiB of memory; a control-plane machine needs 1700 MiB|add memory", ""},
		{"MemoryBytes", plane, facts(func(f *machine.Facts) { f.MemoryBytes = 1700 << 20 }), 0, "", ""},
		{"MemoryBytes", node, facts(func(f *machine.Facts) { f.MemoryBytes = 1 << 30 }), 0, "", ""},
		{"Addresses", plane, facts(func(f *machine.Facts) { f.Addresses = []string{"10.0.0.5", "10.0.1.5"} }), fail.Refused,
			"m: the host does not have its address 192.0.2.11, only 10.0.0.5, 10.0.1.5|set address to the one at which the other machines reach the host|set that as sshAddress", ""},
		{"Addresses", plane, facts(func(f *machine.Facts) { f.Addresses = []string{"10.0.0.5", "192.0.2.11"} }), 0, "", ""},
		{"Addresses", plane, facts(func(f *machine.Facts) { f.Addresses = nil }), 0, "", ""},                                      // an older agent
		{"Addresses", plane, facts(func(f *machine.Facts) { f.Addresses, f.Fresh = []string{"10.0.0.5"}, false }), 0, "", ""},     // it serves
		{"Addresses", plane, func(s *Subject, f *machine.Facts) { s.Address, f.Addresses = "", []string{"10.0.0.5"} }, 0, "", ""}, // a cloud knows the address
		{"GRUB", node, func(s *Subject, f *machine.Facts) { s.Boots, f.Fresh = true, false }, fail.Refused, "m: it does not boot by a GRUB|remove kernelArguments", ""},
		{"GRUB", node, func(s *Subject, f *machine.Facts) { s.Boots, f.GRUB = true, true }, 0, "", ""},
		{"MachineID", plane, facts(func(f *machine.Facts) { f.MachineID = otherID }), fail.Conflict, "m: other and m have one machine ID|one is a clone of the other, or both are the same host|systemd-machine-id-setup", ""},
		{"MachineID", plane, facts(func(f *machine.Facts) { f.MachineID, f.Fresh = otherID, false }), 0, "", ""}, // both serve
		{"MachineID", plane, func(s *Subject, f *machine.Facts) {
			s.Given, s.Name, f.Hostname, f.MachineID = false, "m", "m", otherID
		}, 0, "", ""},
		{"MachineID", plane, facts(func(f *machine.Facts) { f.MachineID = "" }), 0, "", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = room("/var/lib", 2<<30) }), fail.Refused, "m: 2048 MiB are free below /var/lib, 3072 MiB are needed|make room", ""},
		{"Volumes", gateway, facts(func(f *machine.Facts) { f.Volumes = room("/var/lib", 100<<20) }), fail.Refused, "m: 100 MiB are free below /var/lib, 512 MiB are needed", ""},
		{"Volumes", gateway, facts(func(f *machine.Facts) { f.Volumes = room("/var/lib", 1<<30) }), 0, "", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes, f.Fresh = room("/var/lib", 1), false }), 0, "", ""}, // the cluster fills it
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = room("/var/lib", 0) }), fail.Refused, "m: 0 MiB are free below /var/lib, 3072 MiB are needed", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = append(f.Volumes, room("/var/lib/containerd", 1<<30)...) }), fail.Refused, "m: 1024 MiB are free below /var/lib/containerd, 3072 MiB are needed", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = append(f.Volumes, room("/var/lib/kubelet", 900<<20)...) }), fail.Refused, "m: 900 MiB are free below /var/lib/kubelet, 1024 MiB are needed", ""},
		{"Volumes", plane, facts(func(f *machine.Facts) { f.Volumes = append(f.Volumes, room("/var/lib/etcd", 1<<30)...) }), fail.Refused, "m: 1024 MiB are free below /var/lib/etcd, 2048 MiB are needed", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = append(f.Volumes, room("/var/lib/etcd", 1<<20)...) }), 0, "", ""},
		{"Volumes", node, facts(func(f *machine.Facts) {
			f.Volumes = append(room("/var/lib", 1<<30), room("/var/lib/containerd", 9<<30)...)
		}), 0, "", ""},
		{"Volumes", gateway, facts(func(f *machine.Facts) { f.Volumes = append(f.Volumes, room("/var/lib/containerd", 0)...) }), 0, "", ""},
		{"Volumes", node, facts(func(f *machine.Facts) { f.Volumes = nil }), 0, "", ""}, // unknown
		{"Balancers", gateway, facts(func(f *machine.Facts) { f.Balancers = []string{"keepalived.service"} }), fail.Conflict, "m: keepalived.service serves something already (/etc/keepalived/keepalived.conf)|spec.endpoint.kind address", ""},
		{"Balancers", gateway, facts(func(f *machine.Facts) {
			f.Balancers, f.Listeners = []string{"haproxy.service", "keepalived.service"}, []machine.Listener{{Address: "::", Port: 443, Process: "haproxy", PID: 7, Unit: "haproxy.service"}}
		}), fail.Conflict, "m: haproxy.service and keepalived.service serves something already (/etc/haproxy/haproxy.cfg, /etc/keepalived/keepalived.conf)", ""},
		{"Balancers", gateway, facts(func(f *machine.Facts) { f.Balancers = []string{"haproxy.service"} }), 0, "", ""}, // as the package installs it
		{"Balancers", gateway, facts(func(f *machine.Facts) { f.Balancers, f.Fresh = []string{"keepalived.service"}, false }), 0, "", ""},
		{"Balancers", node, facts(func(f *machine.Facts) { f.Balancers = []string{"keepalived.service"} }), 0, "", ""},
		{"Links", gateway, links("192.0.2.11/24", "198.51.100.10"), fail.Refused, "m: the virtual address 198.51.100.10 lies outside of 192.0.2.0/24, the network of its address 192.0.2.11 on eth1|spec.endpoint.vip", ""},
		{"Links", gateway, links("192.0.2.11/28", "192.0.2.20"), fail.Refused, "m: the virtual address 192.0.2.20 lies outside of 192.0.2.0/28", ""},
		{"Links", gateway, links("192.0.2.11/24", "192.0.2.10"), 0, "", ""},
		{"Links", gateway, links("192.0.2.11/32", "192.0.2.10"), 0, "", ""}, // the network is routed
		{"Links", gateway, links("10.0.0.4/24", "192.0.2.10"), 0, "", ""},   // Addresses says it
		{"Links", gateway, links("192.0.2.11/24", ""), 0, "", ""},
		{"Links", node, links("192.0.2.11/24", "198.51.100.10"), 0, "", ""},
		{"Clock", node, facts(func(f *machine.Facts) { f.Clock = time.Now().Add(-time.Hour) }), fail.Refused, "m: its clock says |differs from this host's by 1h0m|timedatectl set-ntp true", ""},
		{"Clock", node, facts(func(f *machine.Facts) { f.Clock = time.Now().Add(time.Hour) }), fail.Refused, "m: its clock says ", ""},
		{"Clock", node, facts(func(f *machine.Facts) { f.Clock = time.Now().Add(time.Minute) }), 0, "", ""},
		{"Clock", plane, facts(func(f *machine.Facts) { f.Clock, f.Fresh = time.Now().Add(-20*time.Minute), false }), 0, "", "m: its clock says |differs from this host's by 20m|certificates that are made now|timedatectl set-ntp true"},
		{"Listeners", node, facts(func(f *machine.Facts) {
			f.Listeners = []machine.Listener{{Address: "::", Port: 10250, Process: "k3s", PID: 7, Unit: "k3s.service"}}
		}), fail.Conflict, "m: port 10250, which kubelet needs, is in use by k3s (process 7 of k3s.service)|systemctl disable --now k3s.service", ""},
		{"Listeners", node, facts(func(f *machine.Facts) { f.Listeners = []machine.Listener{{Address: "::", Port: 22}} }), 0, "", ""},
		{"Clock", node, facts(func(f *machine.Facts) { f.Clock, f.Fresh = time.Now().Add(time.Minute), false }), 0, "", ""},
		{"Firewall", node, facts(func(f *machine.Facts) { f.Firewall = "ufw" }), 0, "", `m: ufw is active and may block traffic|let all of them through there, or run "ufw disable"`},
		{"Firewall", gateway, facts(func(f *machine.Facts) { f.Firewall = "firewalld" }), 0, "", `m: firewalld is active|"systemctl disable --now firewalld"`},
		{"Firewall", node, facts(func(f *machine.Facts) { f.Firewall = "nftables" }), 0, "", `m: nftables is active|"systemctl disable --now nftables"`},
		{"Firewall", node, facts(func(f *machine.Facts) { f.Firewall = "netfilter-persistent" }), 0, "", `m: netfilter-persistent is active|"netfilter-persistent flush; systemctl disable netfilter-persistent"`},
		{"Firewall", node, facts(func(f *machine.Facts) { f.Firewall, f.Fresh = "ufw", false }), 0, "", ""}, // it serves
		{"Services", node, facts(func(f *machine.Facts) { f.Services = []string{"containerd.service", "docker.service"} }), 0, "",
			`m: containerd.service, docker.service runs already|run "systemctl disable --now containerd.service docker.service; iptables -P FORWARD ACCEPT"`},
		{"Services", gateway, facts(func(f *machine.Facts) { f.Services = []string{"docker.service"} }), 0, "", ""},
		{"Services", node, func(s *Subject, f *machine.Facts) { s.Adopted, f.Services = true, []string{"kubelet.service"} }, 0, "", ""},
		{"Services", node, func(s *Subject, f *machine.Facts) {
			s.Given, f.Hostname, f.Services = false, "m", []string{"containerd.service"}
		}, 0, "", ""}, // of our image
		{"Services", node, facts(func(f *machine.Facts) { f.Services = []string{"snap.docker.dockerd.service"} }), 0, "", "iptables -P FORWARD ACCEPT"},
		{"Leftovers", node, left("/etc/kubernetes/manifests/kube-vip.yaml"), fail.Refused, "m: a former cluster left /etc/kubernetes/manifests/kube-vip.yaml, which the new one would use|run on m: rm -r /etc/kubernetes/manifests/kube-vip.yaml; reboot", ""},
		{"Leftovers", plane, left("/var/lib/etcd/member"), fail.Refused, "m: a former cluster left /var/lib/etcd/member|rm -r /var/lib/etcd/member", ""},
		{"Leftovers", node, left("/var/lib/etcd/member"), 0, "", ""},
		{"Leftovers", node, left("/etc/cni/net.d/05-cilium.conflist", "/etc/cni/net.d/87-podman.conflist"), fail.Refused, "m: a former cluster left /etc/cni/net.d/05-cilium.conflist, which|rm -r /etc/cni/net.d/05-cilium.conflist; reboot", ""},
		{"Leftovers", node, left("/etc/cni/net.d/87-podman.conflist", "/etc/cni/net.d/10-flannel.conflist"), 0, "", ""},
		{"Leftovers", node, left("/sys/class/net/cni0"), fail.Refused, "m: a former cluster left network link cni0|run on m: reboot", ""},
		{"Leftovers", gateway, left("/sys/class/net/cni0"), 0, "", ""},
		{"Leftovers", plane, func(s *Subject, f *machine.Facts) { left("/var/lib/etcd/member")(s, f); s.Adopted = true }, 0, "", ""},
		{"Leftovers", node, func(s *Subject, f *machine.Facts) { left("/etc/cni/net.d/05-cilium.conflist")(s, f); s.Network = "" }, 0, "", ""},
		{"Leftovers", node, facts(func(f *machine.Facts) { f.Leftovers, f.Fresh = []string{"/sys/class/net/cni0"}, false }), 0, "", ""},
		{"ForwardDrops", node, facts(func(f *machine.Facts) { f.ForwardDrops = "iptables" }), 0, "", "m: iptables drops forwarded packets|iptables -P FORWARD ACCEPT"},
		{"ForwardDrops", node, facts(func(f *machine.Facts) { f.ForwardDrops = "/etc/iptables/rules.v4" }), 0, "", "m: /etc/iptables/rules.v4 drops forwarded packets|accept packets from and to the pods' network there"},
		{"ForwardDrops", gateway, facts(func(f *machine.Facts) { f.ForwardDrops = "iptables" }), 0, "", ""},
		{"SELinux", node, facts(func(f *machine.Facts) { f.SELinux = true }), 0, "", `m: SELinux is enforcing|"setenforce 0"`},
		{"SELinux", gateway, facts(func(f *machine.Facts) { f.SELinux = true }), 0, "", ""},
	}
}

// TestFacts tries good and bad values of each fact. Each bad value gives one sentence with machine, fact, reason and remedy.
func TestFacts(t *testing.T) {
	bad := map[string]bool{}
	for _, c := range trials() {
		bad[c.fact] = bad[c.fact] || c.refused != "" || c.warned != ""
		var j Judge
		other := sound()
		other.MachineID, other.Fresh = otherID, false // a machine in use
		testkit.Must(t, j.Facts(Subject{Name: "other", Given: true}, other))
		subject, f := Subject{Name: "m", Role: c.role, Given: true, Address: "192.0.2.11", Ports: []Port{{Number: 10250, Of: "kubelet"}}}, sound()
		c.change(&subject, &f)
		var err error
		for range 2 { // the second plan reports the same
			if err = j.Facts(subject, f); err == nil {
				err = j.Among([]string{"other", "m", "away"})
			}
		}
		checkSaid(t, c.fact+" refused", c.refused, err)
		if c.refused != "" && fail.KindOf(err) != c.kind {
			t.Errorf("%s: kind %v", c.fact, fail.KindOf(err))
		}
		var warned error
		if all := j.Warnings([]string{"m", "m", "away"}); len(all) > 0 {
			warned = fail.New(fail.Refused, "%s", strings.Join(all, "\n"))
		}
		checkSaid(t, c.fact+" warned", c.warned, warned)
	}
	for _, r := range rules() {
		if r.unchecked == "" && !bad[r.fact] {
			t.Errorf("no bad value of %s is tried", r.fact)
		}
	}
}

// checkSaid compares an error with the parts it must have. No parts: there must be no error.
func checkSaid(t *testing.T, what, parts string, err error) {
	t.Helper()
	if parts == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	for _, part := range strings.Split(parts, "|") {
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v lacks %q", what, err, part)
		}
	}
}

// TestMendedFacts: a machine's next report replaces the one before.
func TestMendedFacts(t *testing.T) {
	var j Judge
	names := []string{"a", "b", "c", "d"}
	clone := sound()
	clone.Firewall = "ufw"
	for i, name := range names {
		if i >= 2 {
			clone.MachineID = otherID
		}
		testkit.Must(t, j.Facts(Subject{Name: name, Given: true}, clone))
	}
	checkSaid(t, "two pairs of clones", "b: a and b have one machine ID|d: c and d have one machine ID", j.Among(names))
	if n := len(j.Warnings(names)); n != 4 {
		t.Errorf("%d warnings", n)
	}
	testkit.Must(t, j.Among([]string{"a", "c"}))
	testkit.Must(t, j.Among(nil))
	for i, name := range names {
		mended := sound()
		mended.MachineID = strings.Repeat(string(rune('a'+i)), 32)
		testkit.Must(t, j.Facts(Subject{Name: name, Given: true}, mended))
	}
	testkit.Must(t, j.Among(names))
	if all := j.Warnings(names); len(all) > 0 {
		t.Errorf("warnings %q", all)
	}
}
