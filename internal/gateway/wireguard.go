package gateway

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Paths of WireGuard's files on a gateway, and the names of its link and unit.
const (
	WireGuardLink     = "wg-naupegos"
	WireGuardPath     = "/etc/wireguard/" + WireGuardLink + ".conf"
	WireGuardRules    = "/etc/wireguard/" + WireGuardLink + ".nft"
	WireGuardUnit     = "naupegos-wireguard.service"
	wireGuardNftTable = "inet naupegos_wireguard"
	// keepalive is the interval, in seconds, that keeps the return path open through the NAT in front of most peers.
	keepalive = 25
)

// WireGuard holds the parameters for giving peers access to the machines' network through one gateway.
type WireGuard struct {
	ClusterName string // for comments
	Gateway     string // name of this gateway
	Network     string // the private network: "172.30.153.0/24"
	Address     string // of this gateway in it
	Port        int    // UDP
	PrivateKey  string // of this gateway, base64; only a file of mode 0600 contains it
	// Reach lists the networks that peers may reach through the gateway: "10.1.0.0/24".
	Reach []string
	Peers []WireGuardPeer
}

// WireGuardPeer is a peer that may connect.
type WireGuardPeer struct {
	Name      string
	Address   string // in the private network, the same on all gateways
	PublicKey string // base64
}

// NewWireGuardKey makes a private key, base64.
func NewWireGuardKey() (string, error) {
	k, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "make a WireGuard key")
	}
	return k.String(), nil
}

// WireGuardPublicKey returns the public half of a private key, both base64. The error does not repeat the key.
func WireGuardPublicKey(private string) (string, error) {
	k, err := wgtypes.ParseKey(private)
	if err != nil {
		return "", fail.New(fail.Invalid, "the WireGuard private key is not 32 bytes in base64") // cause withheld: it may quote a secret
	}
	return k.PublicKey().String(), nil
}

// WireGuardConfig renders the WireGuard layer of a gateway's machine configuration. The unit runs wg-quick, which uses the kernel's WireGuard or,
// if the kernel lacks it, wireguard-go. Invalid parameters give fail.Invalid.
func WireGuardConfig(w WireGuard) (machine.Config, error) {
	if err := w.check(); err != nil {
		return machine.Config{}, err
	}
	return machine.Config{
		Machine:     w.Gateway,
		Packages:    []string{"wireguard-tools", "wireguard-go", "nftables", "iproute2"},
		Sysctls:     map[string]string{"net.ipv4.ip_forward": "1"},
		Directories: []machine.Directory{{Path: "/etc/wireguard", Mode: 0o700}},
		Files: []machine.File{
			{Path: WireGuardPath, Mode: 0o600, Secret: true, Content: w.conf()},
			{Path: WireGuardRules, Mode: 0o644, Content: w.rules()},
		},
		Units: []machine.Unit{{
			Name: WireGuardUnit, Content: w.unit(), Enabled: true, Active: true, Reload: true,
			Watches: []string{WireGuardPath, WireGuardRules},
		}},
	}, nil
}

// conf is wg-quick's file.
func (w WireGuard) conf() []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "# Written by naupegos for cluster %s; changes by hand are overwritten.\n", w.ClusterName)
	fmt.Fprintf(b, "[Interface]\nPrivateKey = %s\nListenPort = %d\nAddress = %s\n", w.PrivateKey, w.Port, w.cidr())
	fmt.Fprintf(b, "PostUp = nft -f %s\nPostDown = nft delete table %s\n", WireGuardRules, wireGuardNftTable)
	for _, p := range w.Peers {
		fmt.Fprintf(b, "\n# %s\n[Peer]\nPublicKey = %s\nAllowedIPs = %s/32\n", p.Name, p.PublicKey, p.Address)
	}
	return b.Bytes()
}

// rules permits peers to reach only the machines, under the gateway's own address: machines need no route to the peers' network, and a cloud lets no
// foreign address out of a port. Loading the rules twice is harmless.
func (w WireGuard) rules() []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `# Written by naupegos for cluster %s; changes by hand are overwritten.
table %[2]s {}
delete table %[2]s
table %[2]s {
	chain forward {
		type filter hook forward priority filter; policy accept;
		iifname "%[3]s" ip daddr { %[4]s } accept
		oifname "%[3]s" ct state established,related accept
		iifname "%[3]s" drop
		oifname "%[3]s" drop
	}
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %[5]s oifname != "%[3]s" masquerade
	}
}
`, w.ClusterName, wireGuardNftTable, WireGuardLink, strings.Join(w.Reach, ", "), w.Network)
	return b.Bytes()
}

// unit brings the link up and down. If wireguard-go, which stays in the background, dies, the unit fails and is restarted; with the kernel's
// WireGuard no process remains, and the unit stays active. A reload changes peers, keys and the port without interrupting connections. The unit
// contains the address because only a restart can change it.
func (w WireGuard) unit() string {
	return fmt.Sprintf(`# Address: %s
[Unit]
Description=WireGuard for the peers of cluster %s
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=forking
RemainAfterExit=yes
ExecStart=/usr/bin/wg-quick up %[3]s
ExecStop=/usr/bin/wg-quick down %[3]s
ExecReload=/bin/bash -c 'exec /usr/bin/wg syncconf %[3]s <(exec /usr/bin/wg-quick strip %[3]s)'
ExecReload=/usr/sbin/nft -f %[4]s
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
`, w.cidr(), w.ClusterName, WireGuardLink, WireGuardRules)
}

// cidr returns the gateway's address with the network's prefix length: "172.30.153.1/24".
func (w WireGuard) cidr() string {
	return fmt.Sprintf("%s/%d", w.Address, netip.MustParsePrefix(w.Network).Bits()) // checked before
}

// check refuses parameters that would not work, or that would change the meaning of the rendered files.
func (w WireGuard) check() error {
	bad := func(format string, args ...any) error {
		return fail.New(fail.Invalid, "WireGuard: "+format, args...).At("gateway " + w.Gateway)
	}
	network, err := netip.ParsePrefix(w.Network)
	switch {
	case err != nil || !network.Addr().Is4() || network != network.Masked():
		return bad("%q is not an IPv4 network", w.Network)
	case !label().MatchString(w.ClusterName) || !label().MatchString(w.Gateway):
		return bad("cluster %q or gateway %q is not a DNS label", w.ClusterName, w.Gateway)
	case w.Port < 1 || w.Port > 65535:
		return bad("port %d is outside 1 to 65535", w.Port)
	case len(w.Reach) == 0:
		return bad("there is no network that peers may reach")
	}
	if _, err := WireGuardPublicKey(w.PrivateKey); err != nil {
		return bad("%v", err)
	}
	for _, r := range w.Reach {
		if p, err := netip.ParsePrefix(r); err != nil || !p.Addr().Is4() || p.Overlaps(network) {
			return bad("%q is not an IPv4 network apart from %s", r, network)
		}
	}
	seen := map[string]bool{}
	for _, p := range append([]WireGuardPeer{{Name: "this gateway", Address: w.Address}}, w.Peers...) {
		a, err := netip.ParseAddr(p.Address)
		if err != nil || !network.Contains(a) {
			return bad("address %q of %s is not in %s", p.Address, p.Name, network)
		}
		if seen[p.Address] || p.PublicKey != "" && seen[p.PublicKey] {
			return bad("address or key of %s occurs twice", p.Name)
		}
		seen[p.Address], seen[p.PublicKey] = true, true
	}
	for _, p := range w.Peers {
		if _, err := wgtypes.ParseKey(p.PublicKey); err != nil || !label().MatchString(p.Name) {
			return bad("peer %q has no name that is a DNS label, or no key of 32 bytes in base64", p.Name)
		}
	}
	return nil
}

// WireGuardClient holds the parameters of a peer's connection through one gateway.
type WireGuardClient struct {
	ClusterName string
	Peer        string
	Address     string // of the peer in the private network
	PrivateKey  string // base64; empty: the peer generated its key itself, and adds the private half
	Gateway     string
	GatewayKey  string // public key of the gateway
	Endpoint    string // host of the gateway from outside
	Port        int
	Reach       []string // networks behind the gateway
}

// Config renders the client's wg-quick configuration. With a PrivateKey it is a secret.
func (c WireGuardClient) Config() []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "# Peer %s of cluster %s through %s. Use it through one gateway at a time.\n[Interface]\n", c.Peer, c.ClusterName, c.Gateway)
	if c.PrivateKey == "" {
		fmt.Fprintf(b, "# PrivateKey = the one that belongs to the public key in the cluster's document\n")
	} else {
		fmt.Fprintf(b, "PrivateKey = %s\n", c.PrivateKey)
	}
	fmt.Fprintf(b, "Address = %s/32\n\n[Peer]\nPublicKey = %s\nEndpoint = %s\nAllowedIPs = %s\nPersistentKeepalive = %d\n",
		c.Address, c.GatewayKey, net.JoinHostPort(c.Endpoint, strconv.Itoa(c.Port)), strings.Join(c.Reach, ", "), keepalive)
	return b.Bytes()
}
