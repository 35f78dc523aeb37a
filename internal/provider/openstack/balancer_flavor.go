package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/providers"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// balancerFlavor returns the ID of the load balancer's flavor; empty where the document names none. fail.Refused where there is no such
// flavor, or several.
func (p *Provider) balancerFlavor(ctx context.Context, c *gophercloud.ServiceClient) (string, error) {
	want := p.octavia().Flavor
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
		return "", notOne(len(fit), "load-balancer flavors", want, "spec.endpoint.octavia.flavor")
	}
	return fit[0], nil
}

// checkBalancerProvider refuses a provider that the cloud does not have. A cloud that does not tell which it has refuses by itself.
func (p *Provider) checkBalancerProvider(ctx context.Context, c *gophercloud.ServiceClient) error {
	want := p.octavia().Provider
	if want == "" {
		return nil
	}
	all, err := cloud.Pages(ctx, providers.List(c, providers.ListOpts{}), providers.ExtractProviders)
	if untold(err) {
		return nil
	}
	if err != nil {
		return cloud.Wrap(err, "list providers of load balancers")
	}
	var have []string
	for _, x := range all {
		have = append(have, x.Name)
	}
	if slices.Contains(have, want) {
		return nil
	}
	return fail.New(fail.Refused, "the cloud's load-balancer service has no provider %s; there are: %s", want, strings.Join(sorted(have), ", ")).
		At("spec.endpoint.octavia.provider")
}

// checkDefaultProvider refuses to go on with OVN where the document does not say so, as it turns out where it is the cloud's default: it
// needs other rules for the machines.
func (p *Provider) checkDefaultProvider(b *balancer) error {
	if b.lb.Provider != v1alpha1.ProviderOVN || p.octavia().OVN() {
		return nil
	}
	return fail.New(fail.Refused, "the cloud makes load balancers with ovn, where nothing else is said").At("spec.endpoint.octavia.provider").
		Do("say ovn there; for another one that the cloud has (openstack loadbalancer provider list), destroy this beginning first")
}

// checkBalancerShape refuses what Octavia can't change of a load balancer that is there.
func (p *Provider) checkBalancerShape(ctx context.Context) error {
	b, o := p.seenBalancer(), p.octavia()
	if b == nil || o == nil {
		return nil
	}
	if o.Provider != "" && o.Provider != b.lb.Provider {
		return lasts("spec.endpoint.octavia.provider", "load balancer %s is made with %s, and can't become one of %s", b.lb.Name, b.lb.Provider, o.Provider)
	}
	if o.Zone != "" && o.Zone != b.lb.AvailabilityZone {
		return lasts("spec.endpoint.octavia.zone", "load balancer %s is in zone %q, and can't move to %s", b.lb.Name, b.lb.AvailabilityZone, o.Zone)
	}
	if o.Flavor == "" {
		return nil
	}
	c, err := p.neededBalancing(ctx)
	if err != nil {
		return err
	}
	want, err := p.balancerFlavor(ctx, c)
	if err == nil && want != b.lb.FlavorID {
		err = lasts("spec.endpoint.octavia.flavor", "load balancer %s has flavor %q, and can't get %s", b.lb.Name, b.lb.FlavorID, o.Flavor)
	}
	return err
}
