package openstack

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/naupegos/naupegos/internal/fail"
)

// computeMicroversion is Nova's of OpenStack Train (2019): server tags at creation, server groups with one policy.
const computeMicroversion = "2.79"

// cloud is a cloud that one is logged in to. Load balancing is asked for on its own: not every cloud has it.
type cloud struct {
	login    login
	provider *gophercloud.ProviderClient
	compute  *gophercloud.ServiceClient
	network  *gophercloud.ServiceClient
	volume   *gophercloud.ServiceClient
	image    *gophercloud.ServiceClient
	identity *gophercloud.ServiceClient
}

// session logs in once, when it is first needed. A failed login is tried anew at the next call.
type session struct {
	mu sync.Mutex
	c  *cloud
}

// cloud returns the cloud, logged in.
func (p *Provider) cloud(ctx context.Context) (*cloud, error) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.c != nil {
		return p.session.c, nil
	}
	spec := p.spec()
	l, err := readLogin(spec.Cloud, spec.Region)
	if err != nil {
		return nil, err
	}
	c, err := p.connect(ctx, l)
	if err != nil {
		return nil, err
	}
	p.session.c = c
	return c, nil
}

// connect logs in and finds the services.
func (p *Provider) connect(ctx context.Context, l login) (*cloud, error) {
	pc, err := openstack.NewClient(l.options.IdentityEndpoint)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use the identity service's address of %s", l.source)
	}
	pc.HTTPClient = p.httpClient(l.tls)
	pc.UserAgent.Prepend("naupegos")
	if err := openstack.Authenticate(ctx, pc, l.options); err != nil {
		return nil, loginFailed(err, l)
	}
	pc.EndpointLocator, err = locator(pc)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the service catalogue of %s", l.source)
	}
	c := &cloud{login: l, provider: pc}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
		name string
	}{
		{&c.compute, openstack.NewComputeV2, "compute"}, {&c.network, openstack.NewNetworkV2, "network"},
		{&c.volume, openstack.NewBlockStorageV3, "block storage"}, {&c.image, openstack.NewImageV2, "image"},
		{&c.identity, openstack.NewIdentityV3, "identity"},
	} {
		if *s.to, err = s.make(pc, l.where); err != nil {
			return nil, noService(err, s.name, l)
		}
	}
	c.compute.Microversion = computeMicroversion
	return c, nil
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
	where := ""
	if l.where.Region != "" {
		where = " in region " + l.where.Region
	}
	return fail.Wrap(fail.Refused, err, "find the %s service%s in the catalogue of %s", name, where, l.source)
}

// loginFailed says whose credentials were not accepted, never which.
func loginFailed(err error, l login) error {
	kind, cause, _ := classify(err)
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
	return e
}

// httpClient puts retries and the cloud's TLS settings below gophercloud.
func (p *Provider) httpClient(cfg *tls.Config) http.Client {
	base := http.DefaultTransport
	var out http.Client
	if p.opts.HTTPClient != nil {
		out = *p.opts.HTTPClient
		if out.Transport != nil {
			base = out.Transport
		}
	}
	if t, ok := base.(*http.Transport); ok {
		t = t.Clone()
		if cfg != nil {
			t.TLSClientConfig = cfg
		}
		t.MaxIdleConnsPerHost = maxCalls
		base = t
	}
	out.Transport = &transport{next: base, retry: p.opts.Retry, limit: p.opts.Timeouts.Call, slots: make(chan struct{}, maxCalls)}
	return out
}

var versionInURL = regexp.MustCompile(`/v(\d+)(\.\d+)?(/|$)`)

// locator finds services in the catalogue that came with the token. gophercloud's own asks each service for its versions
// first, which is a call more each, without a deadline; where the address tells the version, there is nothing to ask.
func locator(pc *gophercloud.ProviderClient) (gophercloud.EndpointLocator, error) {
	result, ok := pc.GetAuthResult().(interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return nil, errors.New("the identity service does not speak version 3")
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return nil, err
	}
	return func(o gophercloud.EndpointOpts) (string, error) {
		for _, kind := range o.Types() { // the official name first, then the aliases
			for _, s := range catalog.Entries {
				if s.Type != kind || o.Name != "" && s.Name != o.Name {
					continue
				}
				if url := endpointOf(s.Endpoints, o); url != "" {
					return url, nil
				}
			}
		}
		return "", &gophercloud.ErrEndpointNotFound{}
	}, nil
}

func endpointOf(all []tokens.Endpoint, o gophercloud.EndpointOpts) string {
	i := slices.IndexFunc(all, func(e tokens.Endpoint) bool {
		m := versionInURL.FindStringSubmatch(e.URL)
		return e.Interface == string(o.Availability) && (o.Region == "" || e.Region == o.Region || e.RegionID == o.Region) &&
			(m == nil || o.Version == 0 || m[1] == string(rune('0'+o.Version)))
	})
	if i < 0 {
		return ""
	}
	return gophercloud.NormalizeURL(all[i].URL)
}
