package cloud

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/naupegos/naupegos/internal/fail"
)

// computeMicroversion is Nova's version in OpenStack Train (2019), which supports server tags at creation and server groups with one policy.
const computeMicroversion = "2.79"

// Cloud is a cloud after login. Some clouds lack volumes or load balancing; the client for the latter is made on request.
type Cloud struct {
	Login    Login
	calls    Calls
	Client   *gophercloud.ProviderClient
	Compute  *gophercloud.ServiceClient
	Network  *gophercloud.ServiceClient
	Volume   *gophercloud.ServiceClient // nil: the cloud has no volumes
	Image    *gophercloud.ServiceClient
	Identity *gophercloud.ServiceClient
	Region   string // of the services; empty if the catalogue names none
}

// Connect logs in and finds the services.
func Connect(ctx context.Context, l Login, calls Calls) (*Cloud, error) {
	calls.SetDefaults()
	pc, err := openstack.NewClient(l.Options.IdentityEndpoint)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use the identity service's address of %s", l.Source)
	}
	pc.HTTPClient = calls.client(l.TLS)
	pc.UserAgent.Prepend("naupegos")
	if err := openstack.Authenticate(ctx, pc, l.Options); err != nil {
		return nil, loginFailed(err, l)
	}
	all, err := catalogue(pc)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the service catalogue of %s", l.Source)
	}
	project := ""
	c := &Cloud{Login: l, Client: pc, calls: calls}
	if me, err := c.WhoAmI(); err == nil {
		project = me.Project.ID
	}
	pc.EndpointLocator = locator(all, func(base, kind string, major int) (string, error) {
		return versionsOf(ctx, pc, base, kind, major, project)
	})
	if c.Region, err = regionOf(all, l); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
		name string
	}{
		{&c.Compute, openstack.NewComputeV2, "compute"}, {&c.Network, openstack.NewNetworkV2, "network"},
		{&c.Image, openstack.NewImageV2, "image"}, {&c.Identity, openstack.NewIdentityV3, "identity"},
	} {
		if *s.to, err = s.make(pc, l.Where); err != nil {
			if fail.KindOf(err) != fail.Internal {
				return nil, err
			}
			return nil, noService(err, s.name, l)
		}
	}
	var absent *gophercloud.ErrEndpointNotFound
	if c.Volume, err = openstack.NewBlockStorageV3(pc, l.Where); errors.As(err, &absent) {
		c.Volume = nil
	} else if err != nil {
		return nil, noService(err, "block storage", l)
	}
	c.Compute.Microversion = computeMicroversion
	return c, nil
}

// BlockStorage returns the client of Cinder, or fail.Refused if the cloud has none.
func (c *Cloud) BlockStorage() (*gophercloud.ServiceClient, error) {
	if c.Volume == nil {
		return nil, noService(&gophercloud.ErrEndpointNotFound{}, "block-storage", c.Login).Do("want no root volumes: leave rootVolumeGiB out, or set it to 0")
	}
	return c.Volume, nil
}

// LoadBalancer returns the client of Octavia, or fail.Refused if the cloud has none.
func (c *Cloud) LoadBalancer() (*gophercloud.ServiceClient, error) {
	sc, err := openstack.NewLoadBalancerV2(c.Client, c.Login.Where)
	if err != nil {
		return nil, noService(err, "load-balancer", c.Login).Do("use another kind of spec.endpoint, such as gateways")
	}
	return sc, nil
}

// DNS returns the client of Designate, or fail.Refused if the cloud has none.
func (c *Cloud) DNS() (*gophercloud.ServiceClient, error) {
	sc, err := openstack.NewDNSV2(c.Client, c.Login.Where)
	if err != nil {
		return nil, noService(err, "dns", c.Login).
			Do("leave spec.provider.openstack.dns out, and create the record of the API's name yourself; external-dns can use a name server (rfc2136)")
	}
	return sc, nil
}

func noService(err error, name string, l Login) *fail.Error {
	return fail.Wrap(fail.Refused, err, "find the %s service%s in the catalogue of %s", name, inRegion(l.Where.Region), l.Source)
}

// loginFailed returns the error of a failed login. It names the source of the credentials, but never their content.
func loginFailed(err error, l Login) error {
	kind, cause, hint := Classify(err)
	e := fail.Wrap(kind, cause, "log in to %s with the credentials of %s", hostOf(l.Options.IdentityEndpoint), l.Source)
	switch kind {
	case fail.Unauthorized:
		return e.Do("%s", strings.Join(append([]string{refusedLogin(l)}, l.Settings.Notes...), "; "))
	case fail.NotFound:
		return e.Do("the identity service is not at %s", l.Options.IdentityEndpoint)
	}
	if hint != "" {
		e = e.Do("%s", hint)
	}
	return e
}

// refusedLogin suggests why credentials may have been rejected.
func refusedLogin(l Login) string {
	switch {
	case l.Options.ApplicationCredentialSecret != "":
		return "the application credential is wrong, expired or was deleted"
	case l.Options.TokenID != "":
		return "the token is wrong or expired: get another one, or log in by password or application credential"
	case l.Options.Passcode != "":
		return "user, password, passcode, project or domain is wrong; a passcode is good for one login within half a minute"
	}
	return "user, password, project or domain is wrong; try openstack token issue with the same settings"
}

// HTTPClient returns a new client with the same retries, limits and TLS settings as the cloud's other clients.
func (c *Cloud) HTTPClient() http.Client { return c.calls.client(c.Login.TLS) }
