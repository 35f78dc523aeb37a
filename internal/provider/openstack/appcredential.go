package openstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// EnsureCloudCredential returns a restricted application credential for what runs in the cluster: have, where the cloud still
// accepts it, else a new one. The caller keeps it encrypted, and once all use it, calls PruneCloudCredentials with its ID.
// Errors: fail.Refused where the user's own credentials may not make others.
func (p *Provider) EnsureCloudCredential(ctx context.Context, have *provider.CloudCredential) (provider.CloudCredential, error) {
	if have == nil || have.ID == "" {
		return p.NewCloudCredential(ctx)
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	got, err := p.withCloud(*have, c)
	if err != nil {
		return got, err
	}
	works, err := p.accepts(ctx, c, got)
	if err != nil || works {
		return got, err
	}
	return p.NewCloudCredential(ctx)
}

// accepts reports whether the cloud lets a credential log in, to the project that one is logged in to.
func (p *Provider) accepts(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential) (bool, error) {
	me, err := c.WhoAmI()
	if err != nil || cred.ProjectID != me.Project.ID {
		return false, err
	}
	pc, err := openstack.NewClient(cred.AuthURL)
	if err != nil {
		return false, cloud.Wrap(err, "use %s", cred.AuthURL)
	}
	pc.HTTPClient = c.HTTPClient()
	err = openstack.Authenticate(ctx, pc, gophercloud.AuthOptions{
		IdentityEndpoint: cred.AuthURL, ApplicationCredentialID: cred.ID, ApplicationCredentialSecret: cred.Secret,
	})
	if kind, _, _ := cloud.Classify(err); err != nil && (kind == fail.Unauthorized || kind == fail.NotFound) {
		return false, nil
	}
	return err == nil, cloud.Wrap(err, "try the cluster's %s", cred)
}

// NewCloudCredential makes another restricted application credential: to rotate the one that is in use. That stays valid until
// PruneCloudCredentials, so that nothing in the cluster is without one meanwhile.
func (p *Provider) NewCloudCredential(ctx context.Context) (provider.CloudCredential, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	me, err := c.WhoAmI()
	if err != nil {
		return provider.CloudCredential{}, err
	}
	if err := me.MayDelegate(c.Login.Source); err != nil {
		return provider.CloudCredential{}, err
	}
	var nonce [4]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return provider.CloudCredential{}, fail.Wrap(fail.Internal, err, "read random bytes")
	}
	opts := applicationcredentials.CreateOpts{
		Name: p.n.Name("cloud", hex.EncodeToString(nonce[:])), Description: p.n.Mark(), Unrestricted: false, Roles: me.Delegated(),
	}
	made, err := applicationcredentials.Create(ctx, c.Identity, me.User.ID, opts).Extract()
	if err != nil {
		return provider.CloudCredential{}, cloud.CannotDelegate(cloud.Wrap(err, "make an application credential for the cluster with the credentials of %s", c.Login.Source))
	}
	cred := provider.CloudCredential{ID: made.ID, Name: made.Name, Secret: made.Secret, ProjectID: me.Project.ID, UserID: me.User.ID}
	for _, r := range made.Roles {
		cred.Roles = append(cred.Roles, r.Name)
	}
	return p.withCloud(cred, c)
}

// DeleteCloudCredential deletes one of the user's application credentials. One that is not there is as good.
func (p *Provider) DeleteCloudCredential(ctx context.Context, id string) error {
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	me, err := c.WhoAmI()
	if err != nil {
		return err
	}
	err = cloud.UnlessGone(applicationcredentials.Delete(ctx, c.Identity, me.User.ID, id).ExtractErr())
	return cloud.CannotDelegate(cloud.Wrap(err, "delete application credential %s", id))
}

// PruneCloudCredentials deletes the cluster's application credentials that this user has made, but those to keep: former ones, and
// ones whose answers never came. With none to keep, it is part of destroying a cluster. It returns how many it deleted.
func (p *Provider) PruneCloudCredentials(ctx context.Context, keep ...string) (int, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return 0, err
	}
	me, err := c.WhoAmI()
	if err != nil {
		return 0, err
	}
	all, err := cloud.Pages(ctx, applicationcredentials.List(c.Identity, me.User.ID, nil), applicationcredentials.ExtractApplicationCredentials)
	if err != nil {
		return 0, cloud.Wrap(err, "list application credentials")
	}
	n := 0
	for _, a := range all {
		if a.Description != p.n.Mark() || slices.Contains(keep, a.ID) {
			continue
		}
		if err := p.DeleteCloudCredential(ctx, a.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// withCloud adds how the cloud is reached, which can change while the credential stays.
func (p *Provider) withCloud(cred provider.CloudCredential, c *cloud.Cloud) (provider.CloudCredential, error) {
	cred.AuthURL, cred.Region = c.Login.Options.IdentityEndpoint, c.Login.Where.Region
	cred.Interface = ""
	if a := c.Login.Where.Availability; a != gophercloud.AvailabilityPublic {
		cred.Interface = string(a)
	}
	cred.Insecure = c.Login.TLS != nil && c.Login.TLS.InsecureSkipVerify
	ca, err := p.CACert()
	cred.CACert = ca
	return cred, err
}
