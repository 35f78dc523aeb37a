package credential

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/access"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// callees lists the services that components of the cluster call, as far as the cloud offers them.
func (i *Issuer) callees(ctx context.Context, c *cloud.Cloud) ([]access.Callee, error) {
	balancing, err := i.opts.Balancing(ctx)
	if err != nil {
		return nil, err
	}
	var names *gophercloud.ServiceClient
	if i.opts.DNS() {
		if names, err = c.DNS(); err != nil {
			return nil, err
		}
	}
	var out []access.Callee
	for _, s := range []access.Callee{
		{Service: access.Compute(), Client: c.Compute}, {Service: access.Network(), Client: c.Network},
		{Service: access.BlockStorage(), Client: c.Volume}, {Service: access.LoadBalancer(), Client: balancing}, {Service: access.DNS(), Client: names},
	} {
		if s.Client == nil {
			continue
		}
		if s.Places, err = c.Places(s.Major, s.Types...); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// boundedCredential makes an application credential that admits only the calls of the cluster's components. If the cloud does not support such
// a credential, boundedCredential returns the reason and leaves no credential behind.
func (i *Issuer) boundedCredential(ctx context.Context, c *cloud.Cloud) (cred provider.CloudCredential, why string, err error) {
	all, err := i.callees(ctx, c)
	if err != nil {
		return cred, "", err
	}
	var opts applicationcredentials.CreateOpts
	for _, s := range all {
		opts.AccessRules = append(opts.AccessRules, s.Rules(s.Places)...)
	}
	const old = "the cloud's Keystone knows no access rules"
	cred, rules, err := i.makeCredential(ctx, c, forCluster, opts)
	if cloud.Status(err) == http.StatusBadRequest {
		return cred, old, nil
	}
	if err != nil {
		return cred, "", err
	}
	if why = old; len(rules) > 0 { // otherwise Keystone ignored the rules
		why, err = refusers(ctx, c, cred, all)
	}
	if err == nil && why == "" {
		cred.Bounded, cred.DNS = true, i.opts.DNS()
		return cred, "", nil
	}
	if dropErr := i.dropCredential(context.WithoutCancel(ctx), cred.ID, rules); err == nil {
		err = dropErr
	}
	return provider.CloudCredential{}, why, err
}

// refusers returns which services reject a credential with access rules, and the remedy for their operator; empty if all accept it.
func refusers(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential, all []access.Callee) (string, error) {
	pc, err := SignIn(ctx, c, cred)
	if err != nil {
		return "", cloud.Wrap(err, "try the cluster's %s", cred)
	}
	return access.Refusers(ctx, pc, all)
}

// dropCredential deletes an application credential, and then those of its access rules that no other credential uses. Keystone stores each
// distinct rule of a user once, and keeps it when a credential is deleted.
func (i *Issuer) dropCredential(ctx context.Context, id string, rules []applicationcredentials.AccessRule) error {
	if err := i.DeleteCloudCredential(ctx, id); err != nil || len(rules) == 0 {
		return err
	}
	others, err := i.credentials(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, a := range others {
		for _, r := range a.AccessRules {
			used[r.ID] = true
		}
	}
	c, me, err := i.signedIn(ctx)
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
			case http.StatusNotFound, http.StatusForbidden, http.StatusConflict: // another process deleted it, or uses it by now
				return nil
			}
			return cloud.Wrap(err, "delete access rule %s", r.ID)
		})
	}
	return g.Wait()
}
