package site

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// show renders a configuration for golden files.
func show(c machine.Config) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c.Sysctls)) {
		fmt.Fprintf(&b, "sysctl %s = %s\n", key, c.Sysctls[key])
	}
	fmt.Fprintf(&b, "modules %v\npackages %v\n", c.Modules, c.Packages)
	for _, f := range c.Files {
		fmt.Fprintf(&b, "--- %s %04o %s secret=%v\n%s", f.Path, uint32(f.Mode), f.Owner, f.Secret, f.Content)
	}
	for _, l := range c.Links {
		fmt.Fprintf(&b, "--- %s -> %s\n", l.Path, l.Target)
	}
	for _, u := range c.Units {
		fmt.Fprintf(&b, "--- unit %s enabled=%v active=%v onDemand=%v watches=%v\n%s", u.Name, u.Enabled, u.Active, u.OnDemand, u.Watches, u.Content)
		for _, d := range u.DropIns {
			fmt.Fprintf(&b, "--- drop-in %s\n%s", d.Name, d.Content)
		}
	}
	for _, h := range c.Hooks {
		fmt.Fprintf(&b, "--- hook %+v\n", h)
	}
	return b.String()
}

const head = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {network: {cidr: 10.1.0.0/22}}}\n"

func parse(t *testing.T, spec string) *v1alpha1.Cluster {
	t.Helper()
	doc, err := validation.Parse("test.yaml", []byte(head+spec))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

const settings = `
  controlPlane: {machines: {sysctls: {net/ipv4/tcp_keepalive_time: "300"}, timeZone: Etc/UTC}}
  workers:
    - name: storage
      machines:
        modules: [nvme_tcp]
        units: [{name: trim.timer, content: "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"}, {name: trim.service, content: "[Service]\nType=oneshot\nExecStart=/sbin/fstrim -a\n", enabled: false, started: false}]
        hooks: {afterInstall: [{name: format, run: "/usr/local/sbin/format-disks"}, {name: check, run: "test -e /data"}]}
  machines:
    sysctls: {vm.max_map_count: "262144", net.ipv4.tcp_keepalive_time: "600"}
    modules: [ip_vs]
    files:
      - {path: /etc/beat.conf, content: "every 5s\n", mode: "1750", owner: "root:adm"}
    units:
      - {name: beat.service, content: "[Service]\nExecStart=/usr/bin/beat /etc/beat.conf\n[Install]\nWantedBy=multi-user.target\n"}
    packages: [open-iscsi]
    repositories:
      - {name: beat, url: "https://packages.example.org/debian", suite: bookworm, key: "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmDME\n-----END PGP PUBLIC KEY BLOCK-----"}
      - {name: flat, url: "https://flat.example.org", suite: ./}
    ntp: {servers: [ntp1.example.org, 10.0.0.123]}
    dns: {servers: [10.0.0.53, 10.0.1.53], searchDomains: [example.org]}
    timeZone: Europe/Berlin
    hooks: {afterInstall: [{name: check, run: "true", timeout: 30s}], beforeReset: [{name: leave, run: "true"}]}
`

func TestSettings(t *testing.T) {
	doc := parse(t, settings)
	for name, c := range map[string]machine.Config{
		"worker":        Settings(doc.SettingsOf(v1alpha1.RoleWorker, "storage"), machine.Facts{}),
		"control-plane": Settings(doc.SettingsOf(v1alpha1.RoleControlPlane, ""), machine.Facts{ResolvConf: "/run/systemd/resolve/resolv.conf"}),
	} {
		c.Machine = "demo-" + name
		testkit.Must(t, c.Validate())
		testkit.Golden(t, "settings-"+name+".golden", show(c))
	}
	if c := Settings(v1alpha1.MachineSettings{}, machine.Facts{}); show(c) != "modules []\npackages []\n" {
		t.Errorf("no settings give %s", show(c))
	}
}

func TestClash(t *testing.T) {
	ours := machine.Config{
		Files: []machine.File{{Path: "/etc/x"}}, Binaries: []machine.Binary{{Path: "/usr/local/bin/x"}}, Sysctls: map[string]string{"a.b": "1"},
		Units: []machine.Unit{{Name: "x.service", Content: "c", DropIns: []machine.DropIn{{Name: "d.conf"}}}},
	}
	for thing, c := range map[string]machine.Config{
		"file /etc/x":                                 {Files: []machine.File{{Path: "/etc/x"}}},
		"file /usr/local/bin/x":                       {Links: []machine.Link{{Path: "/usr/local/bin/x"}}},
		"file /etc/systemd/system/x.service":          {Files: []machine.File{{Path: "/etc/systemd/system/x.service"}}},
		"file /etc/systemd/system/x.service.d/d.conf": {Files: []machine.File{{Path: "/etc/systemd/system/x.service.d/d.conf"}}},
		"unit x.service":                              {Units: []machine.Unit{{Name: "x.service"}}},
		"kernel setting a.b":                          {Sysctls: map[string]string{"a.b": "1"}},
	} {
		err := Clash("m-1", c, Layer{"Naupegos itself", machine.Config{}}, Layer{"the packet filter", ours})
		if fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), thing) || !strings.Contains(err.Error(), "the packet filter") || !strings.Contains(err.Error(), "the document's settings") {
			t.Errorf("%s: %v names not both owners", thing, err)
		}
	}
	testkit.Must(t, Clash("m-1", machine.Config{Files: []machine.File{{Path: "/etc/y"}}}, Layer{"ours", ours}))
}

func TestProxy(t *testing.T) {
	doc := parse(t, "  workers: [{name: general}]\n  endpoint: {dnsName: api.example.org}\n  proxy: {http: \"http://proxy.example.org:3128\", https: \"http://proxy.example.org:3129\", noProxy: [.example.org, mirror.internal, 192.0.2.0/24]}\n")
	inside := NoProxy(doc, "10.1.0.9:6443", []string{"demo-cp-1", "10.1.0.2", "demo-general-1", "203.0.113.5"}, []string{"10.1.0.0/22", ""})
	units := []machine.Unit{{Name: "containerd.service", Enabled: true, Active: true}}
	c := testkit.Value(Proxy(ProxyParams{Proxy: *doc.Spec.Proxy, Account: noAccount, Inside: inside, Runtimes: units}))(t)
	testkit.Golden(t, "proxy.golden", show(c))
	me := func(*v1alpha1.BasicAuth, string) (*Account, error) { return &Account{"me", `p"a:s s%`}, nil }
	c = testkit.Value(Proxy(ProxyParams{Proxy: *doc.Spec.Proxy, Account: me, Inside: inside, Runtimes: units}))(t)
	testkit.Golden(t, "proxy-account.golden", show(c))
	for _, u := range c.Units {
		for _, d := range u.DropIns {
			if strings.Contains(d.Content, "me") && strings.Contains(d.Content, "s%") {
				t.Errorf("the drop-in %s holds the password", d.Name)
			}
		}
	}
}

// TestProxyRegistryInside: containerd restarts when a machine that serves the registry inside is replaced by one with an address outside the known
// networks, for a running containerd keeps the list of what it reaches without the proxy.
func TestProxyRegistryInside(t *testing.T) {
	doc := parse(t, "  workers: [{name: general}]\n  proxy: {https: \"http://proxy.example.org:3128\"}\n")
	units := []machine.Unit{{Name: "containerd.service"}, {Name: "kubelet.service"}}
	dropIns := func(servers, networks []string) (containerd, kubelet string) {
		c := testkit.Value(Proxy(ProxyParams{Proxy: *doc.Spec.Proxy, Account: noAccount, Inside: NoProxy(doc, "", append([]string{"10.1.0.9"}, servers...), networks), Runtimes: units, Servers: servers}))(t)
		return c.Units[0].DropIns[0].Content, c.Units[1].DropIns[0].Content
	}
	containerd, kubelet := dropIns([]string{"10.1.0.2", "10.1.0.3"}, nil)
	again, _ := dropIns([]string{"10.1.0.3", "10.1.0.2"}, nil)
	other, same := dropIns([]string{"10.1.0.2", "10.1.0.4"}, nil)
	if containerd != again || containerd == other || kubelet != same {
		t.Errorf("containerd:\n%s%s%skubelet:\n%s%s", containerd, again, other, kubelet, same)
	}
	without, _ := dropIns(nil, nil)
	if inNetwork, _ := dropIns([]string{"10.1.0.2"}, []string{"10.1.0.0/24"}); inNetwork != without {
		t.Errorf("within a known network:\n%s", inNetwork)
	}
}

func TestRegistries(t *testing.T) {
	doc := parse(t, `  workers: [{name: general}]
  registries:
    - host: registry-1.docker.io
      mirrors:
        - {url: "https://mirror.example.org/v2/hub/", capabilities: [pull], overridePath: true, auth: {credential: mirror}}
        - {url: "http://10.0.0.5:5000", insecure: true}
    - {host: "registry.example.org:5000", auth: {credentialsFile: /etc/naupegos/registry}, insecure: true}
    - {host: "*", mirrors: [{url: "https://all.example.org"}]}
`)
	doc.Spec.Registries[0].CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	files, err := Registries(doc.Spec.Registries, nil, func(auth *v1alpha1.BasicAuth, url string) (*Account, error) {
		if auth == nil {
			return nil, nil
		}
		return &Account{"me@" + url, "secret"}, nil
	})
	testkit.Must(t, err)
	testkit.Golden(t, "registries.golden", show(machine.Config{Files: files}))
	for _, f := range files {
		if strings.Contains(string(f.Content), "Authorization") && (!f.Secret || f.Mode != 0o600) {
			t.Errorf("%s holds a password, but is not secret", f.Path)
		}
	}
}

// TestAptReachesItsSources without the proxy if noProxy names their host, domain or network; each proxy gets the account of its own address.
func TestAptReachesItsSources(t *testing.T) {
	p := ProxyParams{
		Proxy:   v1alpha1.Proxy{HTTP: "http://plain.example.org:3128", HTTPS: "http://tls.example.org:3128", NoProxy: []string{".corp.example.org", "10.0.0.0/8", "one.example.net"}},
		Sources: []string{"https://apt.corp.example.org/debian", "http://10.2.3.4:8081/x", "https://deb.example.com/debian", "http://corp.example.org.evil.net/", "http://192.168.1.1/"},
	}
	p.Account = func(_ *v1alpha1.BasicAuth, address string) (*Account, error) {
		if address == p.Proxy.HTTPS {
			return &Account{"me", "secret"}, nil
		}
		return nil, nil
	}
	c := testkit.Value(Proxy(p))(t)
	var conf, env string
	for _, f := range c.Files {
		switch f.Path {
		case aptProxy:
			conf = string(f.Content)
		case ProxyEnvironment:
			env = string(f.Content)
		}
	}
	for host, direct := range map[string]bool{"apt.corp.example.org": true, "10.2.3.4": true, "one.example.net": true, "deb.example.com": false, "corp.example.org.evil.net": false, "192.168.1.1": false} {
		if got := strings.Count(conf, "::Proxy::"+host+" \"DIRECT\""); got == 2 != direct {
			t.Errorf("%s is direct %d times:\n%s", host, got, conf)
		}
	}
	if !strings.Contains(env, `HTTP_PROXY="http://plain.example.org:3128"`) || !strings.Contains(env, `HTTPS_PROXY="http://me:secret@tls.example.org:3128"`) {
		t.Error(env)
	}
}

func noAccount(*v1alpha1.BasicAuth, string) (*Account, error) { return nil, nil }
