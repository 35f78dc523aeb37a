package gateway

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"hash/fnv"
	"net/netip"
	"regexp"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// Params are the common parameters of all gateways of a cluster.
type Params struct {
	ClusterName string    // for comments and names in the rendered files; a DNS label
	ClusterID   string    // the VRRP router ID is derived from it; empty: from ClusterName
	VIP         string    // the virtual address, in the machines' own network: "10.0.0.10"
	Port        int       // of the endpoint on the gateways, usually 6443
	Interface   string    // interface with the VIP, such as "eth0"; a Node may override it
	Nodes       []Node    // the gateways, self included
	Backends    []Backend // the API servers
	Fronts      []Front   // ports to forward besides the API
	Relayed     bool      // the Backends' machines run the unit of Relay
	CACert      []byte    // PEM: the authority of the API servers' certificates
	StatsPort   int       // of the health page on 127.0.0.1; 0 means 8404
}

// Node is one gateway machine.
type Node struct {
	Name      string
	Address   string // its own address, of the VIP's family; adverts go between these addresses
	Interface string // empty: Params.Interface
}

// Backend is one API server.
type Backend struct {
	Name    string
	Address string
	Port    int
}

// Front is another port on which the gateways listen, on every address like the endpoint.
type Front struct {
	Name     string // unique: "ingress-http"
	Port     int
	Backends []Backend
}

// RouterID derives the VRRP virtual router ID (1 to 255) from a cluster's ID. Adverts are unicast between the gateways of one
// cluster, so two clusters that share an ID do not disturb each other.
func RouterID(clusterID string) int {
	h := fnv.New32a()
	h.Write([]byte(clusterID))
	return int(h.Sum32()%255) + 1
}

// HealthURL is the URL at which a gateway reports whether it can reach at least one API server.
func (p Params) HealthURL() string { return fmt.Sprintf("http://127.0.0.1:%d/healthz", p.statsPort()) }

func (p Params) statsPort() int {
	if p.StatsPort == 0 {
		return 8404
	}
	return p.StatsPort
}

func (p Params) routerID() int {
	if p.ClusterID == "" {
		return RouterID(p.ClusterName)
	}
	return RouterID(p.ClusterID)
}

var (
	label  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`) })
	ifname = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][-a-zA-Z0-9_.@]{0,14}$`) })
)

// check refuses parameters that would not work, or that would change the meaning of the rendered files.
func (p Params) check(self Node) error {
	bad := func(format string, args ...any) error {
		return fail.New(fail.Invalid, format, args...).At("gateway " + self.Name)
	}
	vip, err := netip.ParseAddr(p.VIP)
	switch {
	case err != nil:
		return bad("virtual address %q: %v", p.VIP, err)
	case !label().MatchString(p.ClusterName):
		return bad("cluster name %q is not a DNS label", p.ClusterName)
	case p.Port < 1 || p.Port > 65535:
		return bad("port %d is outside 1 to 65535", p.Port)
	case p.statsPort() < 1 || p.statsPort() > 65535 || p.statsPort() == p.Port:
		return bad("port %d for the health page is outside 1 to 65535 or the endpoint's own", p.statsPort())
	case len(p.Backends) == 0:
		return bad("no API servers given")
	}
	if block, _ := pem.Decode(bytes.TrimSpace(p.CACert)); block == nil || block.Type != "CERTIFICATE" {
		return bad("the authority's certificate is not PEM")
	}
	found := false
	seen := map[string]bool{p.VIP: true}
	for _, n := range p.Nodes {
		if err := checkPeer("gateway", n.Name, n.Address, vip, seen); err != nil {
			return bad("%v", err)
		}
		if !ifname().MatchString(p.iface(n)) {
			return bad("interface %q of gateway %s is not an interface's name", p.iface(n), n.Name)
		}
		found = found || n == self
	}
	if !found {
		return bad("it is not among the cluster's gateways")
	}
	for _, b := range p.Backends {
		if err := checkPeer("API server", b.Name, b.Address, netip.Addr{}, seen); err != nil {
			return bad("%v", err)
		}
		if b.Port < 1 || b.Port > 65535 {
			return bad("port %d of API server %s is outside 1 to 65535", b.Port, b.Name)
		}
	}
	for _, f := range p.Fronts {
		if err := p.checkFront(f); err != nil {
			return bad("%v", err)
		}
	}
	return nil
}

func (p Params) checkFront(f Front) error {
	if !label().MatchString(f.Name) || f.Name == "endpoint" || f.Name == "health" || f.Name == "kube-apiserver" {
		return fmt.Errorf("front name %q is not a DNS label, or taken", f.Name)
	}
	if f.Port < 1 || f.Port > 65535 || f.Port == p.Port || f.Port == p.statsPort() {
		return fmt.Errorf("port %d of front %s is outside 1 to 65535, or taken", f.Port, f.Name)
	}
	seen := map[string]bool{}
	for _, b := range f.Backends {
		if err := checkPeer("backend", b.Name, b.Address, netip.Addr{}, seen); err != nil {
			return err
		}
		if b.Port < 1 || b.Port > 65535 {
			return fmt.Errorf("port %d of backend %s is outside 1 to 65535", b.Port, b.Name)
		}
	}
	return nil
}

// checkPeer checks a name and an address, and that neither occurs twice. If family is valid, the address must belong to it.
func checkPeer(kind, name, address string, family netip.Addr, seen map[string]bool) error {
	a, err := netip.ParseAddr(address)
	switch {
	case !label().MatchString(name):
		return fmt.Errorf("%s name %q is not a DNS label", kind, name)
	case err != nil:
		return fmt.Errorf("address of %s %s: %w", kind, name, err)
	case family.IsValid() && a.Is4() != family.Is4():
		return fmt.Errorf("address %s of %s %s is of another family than the virtual address %s", a, kind, name, family)
	case seen[address] || seen[kind+" "+name]:
		return fmt.Errorf("%s %s (%s): its name or address occurs twice", kind, name, address)
	}
	seen[address], seen[kind+" "+name] = true, true
	return nil
}

func (p Params) iface(n Node) string {
	if n.Interface != "" {
		return n.Interface
	}
	return p.Interface
}
