package openstack

import (
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/provider"
)

// The properties of an image that say which bundle is inside.
const (
	PropertyBundle     = "naupegos_bundle"     // its ID
	PropertyKubernetes = "naupegos_kubernetes" // its release
)

// Warnings says what the last Preflight found odd.
func (p *Provider) Warnings() []string { return slices.Clone(p.odd) }

func (f *findings) warn(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odd = append(f.odd, text)
}

// waysIn warns before the first machine is made where none can be reached from outside of a network that is made for the cluster.
// Where the network or its router is somebody's, the operator may be inside, or have a route.
func (f preflight) waysIn() {
	made := slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { _, ok := f.serverOf(m.Name); return ok })
	floats := slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { return wantsFloating(f.shape(m.Role, m.Pool)) })
	if made || floats || f.spec().Network.Existing != "" || !f.ownRouter() {
		return
	}
	f.found.warn("no machine gets a floating IP: from outside of the cluster's network none can be configured by SSH; " +
		"set floatingIP: true in spec.controlPlane.machine, or use the endpoint kind gateways")
}

// bundleOf warns where machines have another bundle inside than the cluster's.
func (f preflight) bundleOf(m provider.MachineSpec, image images.Image) {
	bundle, _ := image.Properties[PropertyBundle].(string)
	release, _ := image.Properties[PropertyKubernetes].(string)
	want := f.opts.Cluster.Spec.Kubernetes.Version
	switch {
	case bundle == "" || m.Role == provider.Gateway: // gateways have nothing of it
	case release != "" && release != want:
		f.found.warn("image " + image.Name + " of " + poolName(m) + " has Kubernetes " + release + " inside, the cluster's is " + want +
			": machines get what differs over the network")
	case f.opts.BundleID != "" && bundle != f.opts.BundleID:
		f.found.warn("image " + image.Name + " of " + poolName(m) + " has another bundle of Kubernetes " + want +
			" inside than the cluster's: machines get what differs over the network")
	}
}
