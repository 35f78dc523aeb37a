package gateway

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

const testCA = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"

func params() Params {
	return Params{
		ClusterName: "demo", VIP: "10.77.0.10", Port: 6443, Interface: "eth0", CACert: []byte(testCA),
		Nodes: []Node{{Name: "demo-gw-1", Address: "10.77.0.2"}, {Name: "demo-gw-2", Address: "10.77.0.3", Interface: "ens3"}},
		Backends: []Backend{
			{Name: "demo-cp-1", Address: "10.77.0.11", Port: 6443},
			{Name: "demo-cp-2", Address: "10.77.0.12", Port: 6443},
			{Name: "demo-cp-3", Address: "10.77.0.13", Port: 6443},
		},
	}
}

func params6() Params {
	p := params()
	p.VIP, p.Nodes = "fd00::10", []Node{{Name: "demo-gw-1", Address: "fd00::2"}}
	p.Backends = []Backend{{Name: "demo-cp-1", Address: "fd00::11", Port: 6443}}
	return p
}

// paramsWeb also forwards web traffic.
func paramsWeb() Params {
	p := params()
	p.Relayed = true
	p.Fronts = []Front{
		{Name: "ingress-http", Port: 80, Backends: []Backend{{Name: "demo-a-1", Address: "10.77.0.21", Port: 30080}, {Name: "demo-a-2", Address: "10.77.0.22", Port: 30080}}},
		{Name: "ingress-https", Port: 443}, // no worker yet
	}
	return p
}

func TestGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		p    Params
		self int
	}{"pair-first": {params(), 0}, "pair-second": {params(), 1}, "ipv6-single": {params6(), 0}, "web": {paramsWeb(), 0}} {
		t.Run(name, func(t *testing.T) {
			c, err := Config(tc.p, tc.p.Nodes[tc.self])
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{HAProxyPath, KeepalivedPath, CheckPath} {
				testkit.Golden(t, name+"."+filepath.Base(path), content(t, c, path))
			}
		})
	}
}

func TestRelay(t *testing.T) {
	if units := Relay("/agent", []string{"10.77.0.2"}); units != nil {
		t.Errorf("one gateway has %v", units)
	}
	testkit.Golden(t, "relay.service", []byte(Relay("/agent", []string{"10.77.0.2", "10.77.0.3"})[0].Content))
}

func content(t *testing.T, c machine.Config, path string) []byte {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == path {
			return f.Content
		}
	}
	t.Fatalf("the configuration has no file %s", path)
	return nil
}

func TestUnitsWatchTheirFiles(t *testing.T) {
	p := params()
	c, err := Config(p, p.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	watched := map[string]bool{}
	for _, u := range c.Units {
		if !u.Enabled || !u.Active || !u.Reload {
			t.Errorf("%s: want enabled, active and reloaded on change, got %+v", u.Name, u)
		}
		for _, w := range u.Watches {
			watched[w] = true
		}
	}
	for _, f := range c.Files {
		if !watched[f.Path] {
			t.Errorf("a change of %s reaches no unit", f.Path)
		}
		if f.Path == CAPath && !bytes.Equal(f.Content, p.CACert) {
			t.Errorf("%s is not the authority's certificate", f.Path)
		}
	}
	if c.Machine != "demo-gw-1" || c.Units[0].Name != "haproxy.service" {
		t.Errorf("machine %s, first unit %s: want demo-gw-1 and haproxy.service", c.Machine, c.Units[0].Name)
	}
}

func TestBadParams(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p *Params)
		want   string
	}{
		"vip":           {func(p *Params) { p.VIP = "10.77.0.300" }, "virtual address"},
		"cluster":       {func(p *Params) { p.ClusterName = "a\n} bad" }, "cluster name"},
		"port":          {func(p *Params) { p.Port = 0 }, "port 0"},
		"stats port":    {func(p *Params) { p.StatsPort = 6443 }, "health page"},
		"no backends":   {func(p *Params) { p.Backends = nil }, "no API servers"},
		"ca":            {func(p *Params) { p.CACert = []byte("x") }, "not PEM"},
		"interface":     {func(p *Params) { p.Interface = "eth0 {" }, "interface"},
		"self missing":  {func(p *Params) { p.Nodes = p.Nodes[1:] }, "not among"},
		"family":        {func(p *Params) { p.Nodes[1].Address = "fd00::3" }, "another family"},
		"vip is a node": {func(p *Params) { p.VIP = "10.77.0.2" }, "twice"},
		"backend twice": {func(p *Params) { p.Backends[1].Address = "10.77.0.11" }, "twice"},
		"name twice":    {func(p *Params) { p.Backends[1].Name = "demo-cp-1" }, "twice"},
		"backend port":  {func(p *Params) { p.Backends[1].Port = 70000 }, "port 70000"},
		"front's name":  {func(p *Params) { p.Fronts = []Front{{Name: "health", Port: 80}} }, "taken"},
		"front's port":  {func(p *Params) { p.Fronts = []Front{{Name: "web", Port: 6443}} }, "taken"},
		"front's backend": {func(p *Params) {
			p.Fronts = []Front{{Name: "web", Port: 80, Backends: []Backend{{Name: "a", Address: "x", Port: 30080}}}}
		}, "address of backend"},
		"backend address": {func(p *Params) { p.Backends[1].Address = "cp2" }, "address of API server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := params()
			self := p.Nodes[0]
			tc.change(&p)
			_, err := Config(p, self)
			if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want invalid input that says %q", err, tc.want)
			}
		})
	}
}

func TestRouterID(t *testing.T) {
	seen := map[int]bool{}
	for _, id := range []string{"a", "b", "c", "demo", "8d1c", ""} {
		r := RouterID(id)
		if r < 1 || r > 255 || r != RouterID(id) {
			t.Errorf("RouterID(%q) = %d: want 1 to 255, always the same", id, r)
		}
		seen[r] = true
	}
	if len(seen) < 4 {
		t.Errorf("only %d different IDs for six clusters", len(seen))
	}
}
