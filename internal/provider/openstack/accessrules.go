package openstack

import (
	"context"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/access"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// callee is a service of this cloud that what runs in the cluster calls.
type callee struct {
	access.Service
	client *gophercloud.ServiceClient // of the user
	places []cloud.Place
}

// callees lists the services that what runs in the cluster calls, as far as the cloud has them.
func (p *Provider) callees(ctx context.Context, c *cloud.Cloud) ([]callee, error) {
	balancing, err := p.balancer.Client(ctx)
	if err != nil {
		return nil, err
	}
	var out []callee
	for _, s := range []callee{
		{Service: access.Compute(), client: c.Compute}, {Service: access.Network(), client: c.Network},
		{Service: access.BlockStorage(), client: c.Volume}, {Service: access.LoadBalancer(), client: balancing},
	} {
		if s.client == nil {
			continue
		}
		if s.places, err = c.Places(s.Major, s.Types...); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// boundedCredential makes an application credential that admits only the calls of what runs in the cluster. Where the cloud can't do with one
// it says why, and leaves none.
func (p *Provider) boundedCredential(ctx context.Context, c *cloud.Cloud) (cred provider.CloudCredential, why string, err error) {
	all, err := p.callees(ctx, c)
	if err != nil {
		return cred, "", err
	}
	var opts applicationcredentials.CreateOpts
	for _, s := range all {
		opts.AccessRules = append(opts.AccessRules, s.Rules(s.places)...)
	}
	const old = "the cloud's Keystone knows no access rules"
	cred, rules, err := p.makeCredential(ctx, c, forCluster, opts)
	if cloud.Status(err) == http.StatusBadRequest {
		return cred, old, nil
	}
	if err != nil {
		return cred, "", err
	}
	if why = old; len(rules) > 0 { // else it has left them out
		why, err = refusers(ctx, c, cred, all)
	}
	if err == nil && why == "" {
		cred.Bounded = true
		return cred, "", nil
	}
	if dropErr := p.dropCredential(context.WithoutCancel(ctx), cred.ID, rules); err == nil {
		err = dropErr
	}
	return provider.CloudCredential{}, why, err
}

// refusers says which services don't take a credential with access rules, and what their operator can do about it; empty where all take it.
// They check it each by itself, and refuse all that it is used for where they don't know what they are called in the catalogue.
func refusers(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential, all []callee) (string, error) {
	pc, err := signIn(ctx, c, cred)
	if err != nil {
		return "", cloud.Wrap(err, "try the cluster's %s", cred)
	}
	var out []string
	for _, s := range all {
		bounded := *s.client
		bounded.ProviderClient = pc
		refused, err := s.probe(ctx, &bounded)
		if err != nil {
			return "", err
		}
		if refused {
			out = append(out, s.Name+" (service_type = "+s.places[0].Type+")")
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	return "not all of the cloud's services take a credential with access rules: " + strings.Join(out, ", ") +
		"; their operator has to set that in [keystone_authtoken], and what stands before them to leave paths as they are", nil
}

// probe reports whether the service refuses a client with access rules what it gives the user.
func (s callee) probe(ctx context.Context, bounded *gophercloud.ServiceClient) (bool, error) {
	var answer any
	url := s.ProbeURL(s.client.Endpoint)
	err := cloud.GetURL(ctx, bounded, &answer, url)
	if err == nil {
		return false, nil
	}
	own := cloud.GetURL(ctx, s.client, &answer, url)
	if status := cloud.Status(own); own != nil && (status < http.StatusBadRequest || status >= http.StatusInternalServerError) {
		return false, cloud.Wrap(own, "ask the %s service", s.Name)
	}
	return own == nil, nil // what it does not give the user either says nothing of access rules
}

// dropCredential deletes an application credential, and then those of its access rules that no other one has. Keystone keeps each of a
// user's rules once, whoever asks for it, and leaves it when the credential goes.
func (p *Provider) dropCredential(ctx context.Context, id string, rules []applicationcredentials.AccessRule) error {
	if err := p.DeleteCloudCredential(ctx, id); err != nil || len(rules) == 0 {
		return err
	}
	others, err := p.credentials(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, a := range others {
		for _, r := range a.AccessRules {
			used[r.ID] = true
		}
	}
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range rules {
		if used[r.ID] {
			continue
		}
		g.Go(func() error {
			err := applicationcredentials.DeleteAccessRule(ctx, c.Identity, me.User.ID, r.ID).ExtractErr()
			switch cloud.Status(err) {
			case http.StatusNotFound, http.StatusForbidden, http.StatusConflict: // somebody else deleted it, or has come to use it meanwhile
				return nil
			}
			return cloud.Wrap(err, "delete access rule %s", r.ID)
		})
	}
	return g.Wait()
}
