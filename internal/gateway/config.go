package gateway

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"text/template"

	"github.com/naupegos/naupegos/internal/machine"
)

// Paths of the rendered files on a gateway.
const (
	HAProxyPath    = "/etc/haproxy/haproxy.cfg"
	CAPath         = "/etc/haproxy/kubernetes-ca.crt"
	KeepalivedPath = "/etc/keepalived/keepalived.conf"
	CheckPath      = "/etc/keepalived/check-backends" // only root may write it: keepalived runs it as root
)

//go:embed haproxy.cfg.tmpl keepalived.conf.tmpl check-backends.tmpl
var files embed.FS

// Config renders the gateway layer of self's machine configuration. The packages haproxy and keepalived of the distribution
// must be installed; their own units are used. Invalid parameters give fail.Invalid.
func Config(p Params, self Node) (machine.Config, error) {
	if err := p.check(self); err != nil {
		return machine.Config{}, err
	}
	haproxy, err := render("haproxy.cfg.tmpl", p.view(self))
	if err != nil {
		return machine.Config{}, err
	}
	keepalived, err := render("keepalived.conf.tmpl", p.view(self))
	if err != nil {
		return machine.Config{}, err
	}
	check, err := render("check-backends.tmpl", p.view(self))
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Config{
		Packages: []string{"haproxy", "keepalived"},
		Machine:  self.Name,
		Directories: []machine.Directory{
			{Path: "/etc/haproxy", Mode: 0o755},
			{Path: "/etc/keepalived", Mode: 0o755},
		},
		Files: []machine.File{
			{Path: CAPath, Mode: 0o644, Content: p.CACert},
			{Path: HAProxyPath, Mode: 0o644, Content: haproxy},
			{Path: CheckPath, Mode: 0o755, Content: check},
			{Path: KeepalivedPath, Mode: 0o644, Content: keepalived},
		},
		Units: []machine.Unit{
			{Name: "haproxy.service", DropIns: dropIn(haproxyDropIn), Enabled: true, Active: true, Reload: true, Watches: []string{HAProxyPath, CAPath}},
			{Name: "keepalived.service", DropIns: dropIn(keepalivedDropIn), Enabled: true, Active: true, Reload: true, Watches: []string{KeepalivedPath, CheckPath}},
		},
	}, nil
}

// systemd restarts both after a crash without a limit, at most once a second: a gateway that stays down would not help.
const (
	haproxyDropIn = `[Unit]
StartLimitIntervalSec=0

[Service]
Restart=always
RestartSec=1
# It logs to the journal through standard error; the distribution's bind of /dev/log would only be one more thing to fail.
BindReadOnlyPaths=
`
	keepalivedDropIn = `[Unit]
# Not Requires or BindsTo: a crash of HAProxy must not take keepalived along.
After=haproxy.service
StartLimitIntervalSec=0

[Service]
Restart=always
RestartSec=1
# What a killed keepalived leaves: where another process has got that number it would take itself for running already.
ExecStartPre=-/bin/rm -f /run/keepalived.pid /run/vrrp.pid /run/checkers.pid /run/keepalived/vrrp.pid /run/keepalived/checkers.pid
`
)

func dropIn(content string) []machine.DropIn {
	return []machine.DropIn{{Name: "10-naupegos.conf", Content: content}}
}

// view is the data of the templates.
type view struct {
	Params
	Self      Node
	Peers     []Node
	Relays    []string
	Bind      string // address part of HAProxy's bind: every address, so that the VIP works whether or not it is here
	RouterID  int
	StatsPort int
	Interface string
	CAPath    string
	CheckPath string
	VIPPrefix int
	Loopback  string
}

func (p Params) view(self Node) view {
	v := view{Params: p, Self: self, Bind: "", RouterID: p.routerID(), StatsPort: p.statsPort(), Interface: p.iface(self), CAPath: CAPath, CheckPath: CheckPath, VIPPrefix: 32, Loopback: "127.0.0.1"}
	if netip.MustParseAddr(p.VIP).Is6() { // checked before
		v.Bind, v.VIPPrefix, v.Loopback = "[::]", 128, "::1"
	}
	for _, n := range p.Nodes {
		if n != self {
			v.Peers = append(v.Peers, n)
		}
	}
	for _, b := range p.Backends {
		if p.Relayed && len(v.Peers) > 0 && netip.MustParseAddr(b.Address).Is6() == (v.VIPPrefix == 128) {
			v.Relays = append(v.Relays, b.Address)
		}
	}
	return v
}

// bracket writes an address in the form that a server line requires.
func bracket(address string) string {
	if netip.MustParseAddr(address).Is6() { // checked before
		return "[" + address + "]"
	}
	return address
}

func render(name string, v view) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"addr": bracket}).ParseFS(files, name)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}
