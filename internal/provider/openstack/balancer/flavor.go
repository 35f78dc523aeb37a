package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/providers"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// CheckFlavor refuses a load-balancer flavor that the cloud does not have.
func (k *Keeper) CheckFlavor(ctx context.Context, c *gophercloud.ServiceClient) error {
	_, err := k.flavor(ctx, c)
	return err
}

// flavor returns the ID of the load balancer's flavor; empty if the document names none. It returns fail.Refused if no flavor or several have
// that name.
func (k *Keeper) flavor(ctx context.Context, c *gophercloud.ServiceClient) (string, error) {
	want := k.opts.Octavia.Flavor
	if want == "" {
		return "", nil
	}
	all, err := cloud.Pages(ctx, flavors.List(c, flavors.ListOpts{}), flavors.ExtractFlavors)
	if err != nil {
		return "", cloud.Wrap(err, "list flavors of load balancers")
	}
	var fit []string
	for _, f := range all {
		if f.ID == want || f.Name == want {
			fit = append(fit, f.ID)
		}
	}
	if len(fit) != 1 {
		return "", cloud.NotOne(len(fit), "load-balancer flavors", want, "spec.endpoint.octavia.flavor")
	}
	return fit[0], nil
}

// CheckPlace refuses a provider and an availability zone that the cloud does not have. If the cloud does not list them, CheckPlace passes, and the
// cloud refuses the load balancer itself.
func (k *Keeper) CheckPlace(ctx context.Context, c *gophercloud.ServiceClient) error {
	if err := k.checkZone(ctx, c); err != nil {
		return err
	}
	return k.checkProvider(ctx, c)
}

func (k *Keeper) checkProvider(ctx context.Context, c *gophercloud.ServiceClient) error {
	want := k.opts.Octavia.Provider
	all, err := cloud.Pages(ctx, providers.List(c, providers.ListOpts{}), providers.ExtractProviders)
	if cloud.Untold(err) {
		return nil
	}
	if err != nil {
		return cloud.Wrap(err, "list providers of load balancers")
	}
	var have []string
	for _, x := range all {
		have = append(have, x.Name)
	}
	switch {
	case slices.Contains(have, want):
		return nil
	case want == "" && len(have) == 1 && have[0] == v1alpha1.ProviderOVN:
		return fail.New(fail.Refused, "the cloud's load-balancer service has only the provider ovn, which needs other firewall rules").At("spec.endpoint.octavia.provider").Do("say ovn there")
	case want == "":
		return nil // the cloud does not say which one is its default
	}
	return fail.New(fail.Refused, "the cloud's load-balancer service has no provider %s; there are: %s", want, strings.Join(sorted(have), ", ")).
		At("spec.endpoint.octavia.provider")
}

// checkZone asks for the zones of load balancers, which clouds have since OpenStack Ussuri (2020).
func (k *Keeper) checkZone(ctx context.Context, c *gophercloud.ServiceClient) error {
	want := k.opts.Octavia.Zone
	if want == "" {
		return nil
	}
	var zones struct {
		All []struct {
			Name    string `json:"name"`
			Enabled *bool  `json:"enabled"`
		} `json:"availability_zones"`
	}
	err := cloud.Get(ctx, c, &zones, "lbaas", "availabilityzones")
	if cloud.Untold(err) {
		return nil
	}
	if err != nil {
		return cloud.Wrap(err, "list availability zones of load balancers")
	}
	var have []string
	for _, z := range zones.All {
		if z.Enabled == nil || *z.Enabled {
			have = append(have, z.Name)
		}
	}
	switch {
	case slices.Contains(have, want):
		return nil
	case len(have) == 0:
		return fail.New(fail.Refused, "the cloud's load-balancer service has no availability zones").At("spec.endpoint.octavia.zone").Do("leave it out")
	}
	return fail.New(fail.Refused, "the cloud's load-balancer service has no availability zone %s; there are: %s", want, strings.Join(sorted(have), ", ")).
		At("spec.endpoint.octavia.zone")
}

// checkDefaultProvider refuses a load balancer that the cloud made with OVN by default, if the document does not name OVN, which needs other
// firewall rules for the machines.
func (k *Keeper) checkDefaultProvider(b *State) error {
	if b.LB.Provider != v1alpha1.ProviderOVN || k.opts.Octavia.OVN() {
		return nil
	}
	return fail.New(fail.Refused, "the cloud makes load balancers with ovn, where nothing else is said").At("spec.endpoint.octavia.provider").
		Do("say ovn there; for another one that the cloud has (openstack loadbalancer provider list), destroy this beginning first")
}

// Fixed returns a changed field of the document that Octavia can't change in the existing load balancer, and the reason; empty if there is
// none.
func (k *Keeper) Fixed(ctx context.Context) (field, why string, err error) {
	b, o := k.Seen(), k.opts.Octavia
	if b == nil || o == nil {
		return "", "", nil
	}
	if o.Provider != "" && o.Provider != b.LB.Provider {
		return "spec.endpoint.octavia.provider",
			fmt.Sprintf("load balancer %s is made with %s, and can't become one of %s", b.LB.Name, b.LB.Provider, o.Provider), nil
	}
	if o.Zone != "" && o.Zone != b.LB.AvailabilityZone {
		return "spec.endpoint.octavia.zone",
			fmt.Sprintf("load balancer %s is in zone %q, and can't move to %s", b.LB.Name, b.LB.AvailabilityZone, o.Zone), nil
	}
	if o.Flavor == "" {
		return "", "", nil
	}
	c, err := k.needed(ctx)
	if err != nil {
		return "", "", err
	}
	want, err := k.flavor(ctx, c)
	if err != nil || want == b.LB.FlavorID {
		return "", "", err
	}
	return "spec.endpoint.octavia.flavor", fmt.Sprintf("load balancer %s has flavor %q, and can't get %s", b.LB.Name, b.LB.FlavorID, o.Flavor), nil
}
