package v1alpha1

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// NoWorkers is the number of worker machines of a cluster that has none.
const NoWorkers = -1

// InitOptions says what New writes. What is zero gets its default.
type InitOptions struct {
	Name          string        // of the cluster; default "demo"
	Provider      string        // "local" (default), "hosts", "openstack" or "metal"
	Kubernetes    string        // release; default the newest
	ControlPlanes int           // 1, 3 or 5; default 3
	Workers       int           // in the pool "general"; default 2; NoWorkers: workloads run on the control plane
	Gateways      int           // default 2
	Endpoint      string        // kind; default: address with Address, direct with one control-plane machine and no Gateways, else gateways
	Address       string        // host[:port] of a load balancer, for kind address
	VIP           string        // virtual address, for kind gateways with provider hosts or metal
	EtcdMode      string        // "stacked" (default) or "service"
	SSHKeyFile    string        // with provider hosts; default "~/.ssh/id_ed25519"
	Hosts         []HostMachine // with provider hosts; default: made-up machines, to be replaced

	Cloud           string // with provider openstack: name in clouds.yaml; default $OS_CLOUD or the OS_* variables
	ExternalNetwork string // with provider openstack; default the cloud's only one
	Flavor          string // with provider openstack; default "m1.medium"
	Image           string // with provider openstack; default "debian-12"
}

//go:embed init.yaml.tmpl
var initTemplate string

// New writes a commented, minimal document that Parse accepts. Options that make no valid document are an error of kind
// fail.Invalid, an Errors where the document would be at fault.
func New(o InitOptions) ([]byte, error) {
	o.fill()
	if known := Providers(); !slices.Contains(known, o.Provider) {
		return nil, fail.New(fail.Invalid, "unknown provider %q", o.Provider).Do("known: %s", strings.Join(known, ", "))
	}
	t, err := template.New("init").Funcs(template.FuncMap{"yaml": scalar}).Parse(initTemplate)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the template of a new document")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, o); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a new document")
	}
	if _, err := Parse("", b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// fill sets what is zero.
func (o *InitOptions) fill() {
	or(&o.Name, "demo")
	or(&o.Provider, ProviderLocal)
	or(&o.Kubernetes, LatestKubernetes)
	or(&o.EtcdMode, EtcdStacked)
	or(&o.SSHKeyFile, "~/.ssh/id_ed25519")
	or(&o.Flavor, "m1.medium")
	or(&o.Image, "debian-12")
	or(&o.ControlPlanes, 3)
	or(&o.Workers, 2)
	if o.Endpoint == "" {
		switch {
		case o.Address != "":
			o.Endpoint = EndpointAddress
		case o.ControlPlanes == 1 && o.Gateways == 0:
			o.Endpoint = EndpointDirect
		default:
			o.Endpoint = EndpointGateways
		}
	}
	if o.Endpoint == EndpointGateways {
		or(&o.Gateways, 2)
		if o.Provider == ProviderMetal {
			or(&o.VIP, madeUpVIP) // to be replaced
		}
	}
	if o.Provider == ProviderHosts && len(o.Hosts) == 0 {
		o.madeUpHosts()
	}
}

// or sets *p where it is zero.
func or[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// scalar writes a text so that YAML reads just this text.
func scalar(s string) (string, error) {
	b, err := yaml.Marshal(s)
	return strings.TrimSpace(string(b)), err
}

// madeUpHostKey has the form of a host key, but no machine has it: with it in place nothing connects by mistake.
const madeUpHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// madeUpNetwork is for documentation: few machines have an address of it.
var madeUpNetwork = netip.MustParsePrefix("192.0.2.0/24")

// madeUpVIP is the virtual address that New fills in.
const madeUpVIP = "192.0.2.10"

// checkMadeUp reports what New filled in and nobody replaced. Of hosts the key alone shows that: somebody may use such an address.
func (c *Cluster) checkMadeUp(r *findings) {
	address := func(field, text, hint string) {
		if a, err := netip.ParseAddr(text); err == nil && madeUpNetwork.Contains(a) {
			r.add(field, text+" is an example's address, as naupegos init writes it", hint)
		}
	}
	const vip, free = "spec.endpoint.vip", "put a free address of the gateways' network here"
	if c.Spec.Provider.Metal != nil && c.Spec.Endpoint.VIP == madeUpVIP {
		address(vip, madeUpVIP, free)
	}
	h := c.Spec.Provider.Hosts
	if h == nil {
		return
	}
	found := false
	for i, m := range h.Machines {
		if m.HostKey != madeUpHostKey {
			continue
		}
		found = true
		p := item(machinesField, i)
		address(p+".address", m.Address, "put the machine's own here")
		r.add(p+".hostKey", "is the example key that naupegos init writes", "put the line of /etc/ssh/ssh_host_ed25519_key.pub on the machine here")
	}
	if found {
		address(vip, c.Spec.Endpoint.VIP, free)
	}
}

// madeUpHosts fills in machines with addresses of the documentation network, for the user to replace.
func (o *InitOptions) madeUpHosts() {
	add := func(role string, n, first int) {
		for i := range n {
			o.Hosts = append(o.Hosts, HostMachine{Address: fmt.Sprintf("192.0.2.%d", first+i), Role: role, HostKey: madeUpHostKey})
		}
	}
	if o.Endpoint == EndpointGateways {
		or(&o.VIP, madeUpVIP)
		add(RoleGateway, min(o.Gateways, 9), 11)
	}
	add(RoleControlPlane, min(o.ControlPlanes, 9), 21)
	add(RoleWorker, min(o.Workers, 100), 101)
}

// MadeUp reports whether the machines are not the user's own, for the template.
func (o InitOptions) MadeUp() bool {
	return len(o.Hosts) > 0 && o.Hosts[0].HostKey == madeUpHostKey
}
