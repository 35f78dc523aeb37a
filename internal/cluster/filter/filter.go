// Package filter renders the packet filter of machines that are not protected by a cloud's security groups: only machines of the cluster can
// reach the ports that they use among themselves.
package filter

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

const (
	// Table is the filter's table of nftables, family inet.
	Table = "naupegos"
	// Visitors is the table's set of addresses that are let in for a while. It outlives new rules, not a restart of the machine.
	Visitors = "visitors"

	// RulePath is the file with the rules.
	RulePath = "/etc/naupegos/filter.nft"

	unitName = "naupegos-filter.service"
)

// Params describe the peers of a machine.
type Params struct {
	Machine      string
	ControlPlane bool     // it has a member of etcd
	Registry     int      // port at which it serves images to the machines; 0: none
	Metrics      []int    // ports at which addons serve metrics
	VXLAN        bool     // pods of different machines reach each other by flannel
	Machines     Peers    // the addresses of all machines
	Pods         string   // their network: a machine's pods reach its kubelet from their own addresses
	Admit        []string // further networks
}

// Config renders the filter as a layer of a machine's configuration. A network that is none, or not of IPv4, is fail.Invalid.
func Config(p Params) (machine.Config, error) {
	for _, n := range append([]string{p.Pods}, p.Admit...) {
		if prefix, err := netip.ParsePrefix(n); err != nil || !prefix.Addr().Is4() {
			return machine.Config{}, fail.New(fail.Invalid, "the packet filter can't admit %q, which is no IPv4 network", n).At(p.Machine)
		}
	}
	return machine.Config{
		Machine: p.Machine, Packages: []string{"nftables"},
		Files: []machine.File{{Path: RulePath, Mode: 0o644, Content: p.rules()}},
		Units: []machine.Unit{{Name: unitName, Content: unit, Enabled: true, Active: true, Reload: true, Watches: []string{RulePath}, Table: "inet " + Table}},
	}, nil
}

// Peers are IPv4 addresses of machines in their order: in nftables, it would otherwise vary.
type Peers struct{ addresses []string }

// PeersOf sorts addresses. One that is none, or not of IPv4, is fail.Invalid.
func PeersOf(list []string) (Peers, error) {
	out := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		a, err := netip.ParseAddr(s)
		if err == nil && !a.Is4() {
			err = fmt.Errorf("%s is no IPv4 address", s)
		}
		if err != nil {
			return Peers{}, fail.Wrap(fail.Invalid, err, "render the packet filter")
		}
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	texts := make([]string, 0, len(out))
	for _, a := range out {
		texts = append(texts, a.String())
	}
	return Peers{texts}, nil
}

// rules admit all other traffic: ssh, the API, NodePorts and other programs on the machine are up to the owner. They run before other tools'
// table "filter", and accept nothing that those refuse. Loading them is idempotent and atomic.
func (p Params) rules() []byte {
	tcp := "10250" // kubelet
	if p.ControlPlane {
		tcp += ", 2379, 2380" // etcd
	}
	if p.Registry != 0 {
		tcp += fmt.Sprintf(", %d", p.Registry)
	}
	for _, port := range p.Metrics {
		tcp += fmt.Sprintf(", %d", port)
	}
	udp := ""
	if p.VXLAN {
		udp = "\t\tudp dport 8472 jump strangers\n"
	}
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `# Managed by Naupegos.
table inet %[1]s {
	set machines { type ipv4_addr; }
	set networks { type ipv4_addr; flags interval; auto-merge; }
	set %[2]s { type ipv4_addr; flags timeout; }
	chain input { type filter hook input priority filter - 5; policy accept; }
	chain strangers { }
}
flush table inet %[1]s
flush set inet %[1]s machines
flush set inet %[1]s networks
add element inet %[1]s machines { %[3]s }
add element inet %[1]s networks { %[4]s }
table inet %[1]s {
	chain input {
		iifname "lo" accept
		tcp dport { %[5]s } jump strangers
%[6]s	}
	chain strangers {
		ip saddr @machines return
		ip saddr @networks return
		ip saddr @%[2]s return
		drop
	}
}
`, Table, Visitors, strings.Join(p.Machines.addresses, ", "), strings.Join(append([]string{p.Pods}, p.Admit...), ", "), tcp, udp)
	return b.Bytes()
}

// unit has no default dependencies: it would run after sysinit.target, for which cloud-init waits with the network, and systemd would delete
// one of the jobs of that cycle. What loads or flushes the rules of nftables.service has this unit load its own again.
const unit = `[Unit]
Description=Packet filter between the machines of the cluster and others
DefaultDependencies=no
After=local-fs.target nftables.service
Wants=network-pre.target
Before=network-pre.target shutdown.target
Conflicts=shutdown.target
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f ` + RulePath + `
ExecReload=/usr/sbin/nft -f ` + RulePath + `
ExecStop=/usr/sbin/nft delete table inet ` + Table + `

[Install]
WantedBy=multi-user.target
`
