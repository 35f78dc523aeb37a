// Package sample writes documents for users to start from.
//
// It knows only documents.
package sample

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
)

// NoWorkers stands for a cluster without worker machines.
const NoWorkers = -1

// Options are the values that New writes. Zero fields get their defaults.
type Options struct {
	Name          string                 // of the cluster; default "demo"
	Provider      string                 // "local" (default), "hosts", "openstack" or "metal"
	Kubernetes    string                 // release; default the newest
	ControlPlanes int                    // 1, 3 or 5; default 3
	Workers       int                    // in the pool "general"; default 2; NoWorkers: workloads run on the control plane
	Gateways      int                    // default 2
	Endpoint      string                 // kind; default: address with Address, direct with one control-plane machine and no Gateways, else gateways
	Address       string                 // host[:port] of a load balancer, for kind address
	VIP           string                 // virtual address, for kind gateways with provider hosts or metal
	EtcdMode      string                 // "stacked" (default) or "service"
	SSHKeyFile    string                 // with provider hosts; default "~/.ssh/id_ed25519"
	Hosts         []v1alpha1.HostMachine // with provider hosts; default: placeholder machines, to be replaced

	Cloud           string // with provider openstack: name in clouds.yaml; default $OS_CLOUD or the OS_* variables
	ExternalNetwork string // with provider openstack; default the cloud's only one
	Flavor          string // with provider openstack; default "m1.medium"
	Image           string // with provider openstack; default "debian-12"

	With []string // examples to add as comments: names that Sections lists
}

//go:embed init.yaml.tmpl
var initTemplate string

// New writes a commented, minimal document that validation.Parse accepts. For options that make no valid document it returns an error of kind
// fail.Invalid, which is an Errors if the fault is in the document.
func New(o Options) ([]byte, error) {
	o.fill()
	if known := v1alpha1.Providers(); !slices.Contains(known, o.Provider) {
		return nil, fail.New(fail.Invalid, "unknown provider %q", o.Provider).Do("known: %s", strings.Join(known, ", "))
	}
	if err := o.checkSections(); err != nil {
		return nil, err
	}
	t, err := template.New("init").Funcs(template.FuncMap{"yaml": scalar}).Parse(initTemplate)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the template of a new document")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, o); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a new document")
	}
	if _, err := validation.Parse("", b.Bytes()); err != nil {
		return nil, withoutPlaces(err)
	}
	return b.Bytes(), nil
}

// withoutPlaces removes the lines from findings, because the user did not write the document and does not see it.
func withoutPlaces(err error) error {
	var errs v1alpha1.Errors
	if !errors.As(err, &errs) {
		return err
	}
	for i := range errs {
		errs[i].Line, errs[i].Column = 0, 0
	}
	return errs
}

// fill sets zero fields to their defaults.
func (o *Options) fill() {
	or(&o.Name, "demo")
	or(&o.Provider, v1alpha1.ProviderLocal)
	or(&o.Kubernetes, v1alpha1.LatestKubernetes)
	or(&o.EtcdMode, v1alpha1.EtcdStacked)
	or(&o.SSHKeyFile, "~/.ssh/id_ed25519")
	or(&o.Flavor, "m1.medium")
	or(&o.Image, "debian-12")
	or(&o.ControlPlanes, 3)
	or(&o.Workers, 2)
	if o.Endpoint == "" {
		switch {
		case o.Address != "":
			o.Endpoint = v1alpha1.EndpointAddress
		case o.ControlPlanes == 1 && o.Gateways == 0:
			o.Endpoint = v1alpha1.EndpointDirect
		default:
			o.Endpoint = v1alpha1.EndpointGateways
		}
	}
	if o.Endpoint == v1alpha1.EndpointGateways {
		or(&o.Gateways, 2)
		if o.Provider == v1alpha1.ProviderMetal {
			or(&o.VIP, v1alpha1.MadeUpVIP) // a placeholder, to be replaced
		}
	}
	if o.Provider == v1alpha1.ProviderHosts && len(o.Hosts) == 0 {
		o.madeUpHosts()
	}
}

// or sets *p to v if it is zero.
func or[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// scalar writes a text as a YAML scalar that is read back as the same text.
func scalar(s string) (string, error) {
	b, err := yaml.Marshal(s)
	return strings.TrimSpace(string(b)), err
}

// madeUpHosts fills in placeholder machines with addresses of the documentation network, which the user has to replace.
func (o *Options) madeUpHosts() {
	add := func(role string, n, first int) {
		for i := range n {
			o.Hosts = append(o.Hosts, v1alpha1.HostMachine{Address: fmt.Sprintf("192.0.2.%d", first+i), Role: role, HostKey: v1alpha1.MadeUpHostKey})
		}
	}
	if o.Endpoint == v1alpha1.EndpointGateways {
		or(&o.VIP, v1alpha1.MadeUpVIP)
		add(v1alpha1.RoleGateway, min(o.Gateways, 9), 11)
	}
	add(v1alpha1.RoleControlPlane, min(o.ControlPlanes, 9), 21)
	add(v1alpha1.RoleWorker, min(o.Workers, 100), 101)
}

// MadeUp reports whether the machines are placeholders. The template calls it.
func (o Options) MadeUp() bool {
	return len(o.Hosts) > 0 && o.Hosts[0].HostKey == v1alpha1.MadeUpHostKey
}
