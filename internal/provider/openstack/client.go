package openstack

import (
	"context"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/naupegos/naupegos/internal/fail"
)

// computeMicroversion is Nova's of OpenStack Train (2019): server tags at creation, server groups with one policy.
const computeMicroversion = "2.79"

// cloud is a cloud that one is logged in to. Not every cloud has volumes, nor load balancing, which is asked for on its own.
type cloud struct {
	login    login
	calls    Calls
	provider *gophercloud.ProviderClient
	compute  *gophercloud.ServiceClient
	network  *gophercloud.ServiceClient
	volume   *gophercloud.ServiceClient // nil: it has none
	image    *gophercloud.ServiceClient
	identity *gophercloud.ServiceClient
	region   string // of the services; empty where the catalogue names none
}

// connect logs in and finds the services.
func connect(ctx context.Context, l login, calls Calls) (*cloud, error) {
	calls.setDefaults()
	pc, err := openstack.NewClient(l.options.IdentityEndpoint)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use the identity service's address of %s", l.source)
	}
	pc.HTTPClient = calls.client(l.tls)
	pc.UserAgent.Prepend("naupegos")
	if err := openstack.Authenticate(ctx, pc, l.options); err != nil {
		return nil, loginFailed(err, l)
	}
	all, err := catalogue(pc)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the service catalogue of %s", l.source)
	}
	pc.EndpointLocator = locator(all)
	c := &cloud{login: l, provider: pc, calls: calls}
	if c.region, err = regionOf(all, l); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
		name string
	}{
		{&c.compute, openstack.NewComputeV2, "compute"}, {&c.network, openstack.NewNetworkV2, "network"},
		{&c.image, openstack.NewImageV2, "image"}, {&c.identity, openstack.NewIdentityV3, "identity"},
	} {
		if *s.to, err = s.make(pc, l.where); err != nil {
			return nil, noService(err, s.name, l)
		}
	}
	var absent *gophercloud.ErrEndpointNotFound
	if c.volume, err = openstack.NewBlockStorageV3(pc, l.where); errors.As(err, &absent) {
		c.volume = nil
	} else if err != nil {
		return nil, noService(err, "block storage", l)
	}
	c.compute.Microversion = computeMicroversion
	return c, nil
}

// blockStorage returns the client of Cinder; fail.Refused where the cloud has none.
func (c *cloud) blockStorage() (*gophercloud.ServiceClient, error) {
	if c.volume == nil {
		return nil, noService(&gophercloud.ErrEndpointNotFound{}, "block-storage", c.login).Do("want no root volumes: leave rootVolumeGiB out, or set it to 0")
	}
	return c.volume, nil
}

// loadBalancer returns the client of Octavia; fail.Refused where the cloud has none.
func (c *cloud) loadBalancer() (*gophercloud.ServiceClient, error) {
	sc, err := openstack.NewLoadBalancerV2(c.provider, c.login.where)
	if err != nil {
		return nil, noService(err, "load-balancer", c.login).Do("use another kind of spec.endpoint, such as gateways")
	}
	return sc, nil
}

func noService(err error, name string, l login) *fail.Error {
	return fail.Wrap(fail.Refused, err, "find the %s service%s in the catalogue of %s", name, inRegion(l.where.Region), l.source)
}

// loginFailed says whose credentials were not accepted, never which.
func loginFailed(err error, l login) error {
	kind, cause, hint := classify(err)
	e := fail.Wrap(kind, cause, "log in to %s with the credentials of %s", hostOf(l.options.IdentityEndpoint), l.source)
	switch kind {
	case fail.Unauthorized:
		if l.options.ApplicationCredentialSecret != "" {
			return e.Do("the application credential is wrong, expired or was deleted")
		}
		return e.Do("user, password, project or domain is wrong; try openstack token issue with the same settings")
	case fail.NotFound:
		return e.Do("the identity service is not at %s", l.options.IdentityEndpoint)
	}
	if hint != "" {
		e = e.Do("%s", hint)
	}
	return e
}

// httpClient makes calls as the cloud's other clients do.
func (c *cloud) httpClient() http.Client { return c.calls.client(c.login.tls) }
