package machine

import (
	"net/netip"
	"time"
)

// Paths on every machine. Prepared images and the agent agree on them.
const (
	StateDir       = "/var/lib/naupegos"             // everything of ours that persists on a machine
	BlobDir        = StateDir + "/blobs/sha256"      // content-addressed blobs, one file per digest (hex), mode 0755, root
	AgentDir       = "/usr/local/lib/naupegos/agent" // agent binaries: AgentDir/<sha256 hex>/naupegos-agent
	StateKey       = StateDir + "/agent/state.json"  // what the agent last installed: digest and managed paths, mode 0600
	UnitDir        = "/etc/systemd/system"           // where unit files and drop-ins go
	ContainerdRoot = "/var/lib/containerd"           // containerd's root; prepared images fill it before the first boot
)

// Facts is what the agent reports about a machine (`naupegos-agent facts`).
type Facts struct {
	Hostname      string       `json:"hostname"`
	OS            string       `json:"os"`           // ID and VERSION_ID of os-release: "debian 12"
	Kernel        string       `json:"kernel"`       // release
	Architecture  string       `json:"architecture"` // as Go names it: "amd64"
	CPUs          int          `json:"cpus"`
	MemoryBytes   int64        `json:"memoryBytes"`
	CgroupVersion int          `json:"cgroupVersion"`        // 1 (also hybrid) or 2: the version that kubelet and runc will use
	Systemd       bool         `json:"systemd"`              // pid 1 is systemd
	Dpkg          bool         `json:"dpkg"`                 // software is installed as Debian packages
	AppArmor      bool         `json:"appArmor"`             // enabled in the kernel
	SysResource   bool         `json:"sysResource"`          // CAP_SYS_RESOURCE is in the bounding set: negative oom_score_adj works
	Interface     string       `json:"interface"`            // with the default route
	Address       string       `json:"address"`              // primary IPv4 address of Interface
	Container     bool         `json:"container"`            // shares its kernel with others: it must not change global kernel settings
	ResolvConf    string       `json:"resolvConf"`           // the real one if systemd-resolved puts a stub in front of it; empty: /etc/resolv.conf
	NoResolver    bool         `json:"noResolver,omitempty"` // the only known name server is the machine itself, at a loopback address, which pods can't use
	Swap          bool         `json:"swap"`
	GRUB          bool         `json:"grub,omitempty"` // it boots by a configuration that update-grub writes
	MachineID     string       `json:"machineID"`
	BootID        string       `json:"bootID"`
	Links         []Attachment `json:"links,omitempty"` // its addresses except loopback and link-local ones
	Clock         time.Time    `json:"clock,omitzero"`  // time of the answer, by its own clock
	Fresh         bool         `json:"fresh"`           // nothing has been configured on it yet; the fields below are set only then
	// Listeners are the TCP ports that are in use, none of them by Naupegos.
	Listeners []Listener `json:"listeners,omitempty"`
	Volumes   []Volume   `json:"volumes,omitempty"`   // file systems of /var/lib and of directories below that fill
	Addresses []string   `json:"addresses,omitempty"` // its IPv4 addresses except loopback's
	Firewall  string     `json:"firewall,omitempty"`  // the active one: "ufw", "firewalld", "nftables", "netfilter-persistent", "shorewall" or "ferm"
	Services  []string   `json:"services,omitempty"`  // running services that run containers or a cluster
	Balancers []string   `json:"balancers,omitempty"` // running services that a gateway would take over: haproxy.service, keepalived.service
	SELinux   bool       `json:"seLinux,omitempty"`   // SELinux is enforcing
	// Leftovers are paths of a former cluster that programs of the new one would mistake for their own.
	Leftovers []string `json:"leftovers,omitempty"`
	// ForwardDrops names the rules that drop forwarded packets by default, or is empty: "iptables", "/etc/iptables/rules.v4".
	ForwardDrops string `json:"forwardDrops,omitempty"`
}

// Attachment is an address on an interface.
type Attachment struct {
	Interface string `json:"interface"`
	Prefix    string `json:"prefix"` // the address with the length of its network's prefix
}

// AttachmentOf returns the interface of an address, or false if the machine does not have the address.
func (f Facts) AttachmentOf(address string) (Attachment, bool) {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return Attachment{}, false
	}
	for _, l := range f.Links {
		if p, err := netip.ParsePrefix(l.Prefix); err == nil && p.Addr() == want {
			return l, true
		}
	}
	return Attachment{}, false
}

// Volume is a file system.
type Volume struct {
	Directory string `json:"directory"` // the first of our addresses on it
	Free      int64  `json:"free"`      // bytes that root can still write
}

// Listener is a TCP port that a process listens on.
type Listener struct {
	Address string `json:"address"`           // "0.0.0.0" or "::" for all addresses
	Port    int    `json:"port"`              //
	Process string `json:"process,omitempty"` // its name; empty if the kernel itself listens
	PID     int    `json:"pid,omitempty"`     //
	Unit    string `json:"unit,omitempty"`    // the systemd service that it is part of
}
