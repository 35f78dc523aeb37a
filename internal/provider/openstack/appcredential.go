package openstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

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
		return p.NewCloudCredential(ctx, "")
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
	return p.NewCloudCredential(ctx, "")
}

// accepts reports whether the cloud lets a credential log in, to the project that one is logged in to.
func (p *Provider) accepts(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential) (bool, error) {
	me, err := c.WhoAmI()
	if err != nil || cred.ProjectID != me.Project.ID {
		return false, err
	}
	_, err = signIn(ctx, c, cred)
	if kind, _, _ := cloud.Classify(err); err != nil && (kind == fail.Unauthorized || kind == fail.NotFound) {
		return false, nil
	}
	return err == nil, cloud.Wrap(err, "try the cluster's %s", cred)
}

// signIn logs in with a credential.
func signIn(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential) (*gophercloud.ProviderClient, error) {
	pc, err := openstack.NewClient(cred.AuthURL)
	if err != nil {
		return nil, err
	}
	pc.HTTPClient = c.HTTPClient()
	return pc, openstack.Authenticate(ctx, pc, gophercloud.AuthOptions{
		IdentityEndpoint: cred.AuthURL, ApplicationCredentialID: cred.ID, ApplicationCredentialSecret: cred.Secret,
	})
}

// Parts of the names of application credentials that tell whom they are for.
const (
	forCluster = "cloud"
	forPeople  = "people"
)

// NewCloudCredential makes another restricted application credential: to rotate the one that is in use. That stays valid until
// PruneCloudCredentials, so that nothing in the cluster is without one meanwhile. Where the cloud's services take access rules it admits
// only the calls of what runs in the cluster, else it says why it reaches the whole project. unbounded says why it shall; empty: it shall not.
func (p *Provider) NewCloudCredential(ctx context.Context, unbounded string) (provider.CloudCredential, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	reach := unbounded
	if reach == "" {
		cred, why, err := p.boundedCredential(ctx, c)
		if err != nil || why == "" {
			return cred, err
		}
		reach = why
	}
	cred, _, err := p.makeCredential(ctx, c, forCluster, applicationcredentials.CreateOpts{})
	cred.Reach = reach
	return cred, err
}

// PeopleCredential makes an application credential for somebody who takes the cluster over: restricted, for all services, until then.
// Those that were made before stay, for others may hold them; expired ones are deleted.
func (p *Provider) PeopleCredential(ctx context.Context, until time.Time) (provider.CloudCredential, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	if _, err := p.prune(ctx, func(a applicationcredentials.ApplicationCredential) bool {
		return p.isForPeople(a) && !a.ExpiresAt.IsZero() && a.ExpiresAt.Before(time.Now())
	}); err != nil {
		return provider.CloudCredential{}, err
	}
	until = until.UTC() // which is how Keystone reads it
	cred, _, err := p.makeCredential(ctx, c, forPeople, applicationcredentials.CreateOpts{ExpiresAt: &until})
	return cred, err
}

// makeCredential makes an application credential of the roles that the cluster needs, and returns the access rules that it has got.
func (p *Provider) makeCredential(ctx context.Context, c *cloud.Cloud, part string, opts applicationcredentials.CreateOpts) (
	cred provider.CloudCredential, rules []applicationcredentials.AccessRule, err error,
) {
	me, err := c.WhoAmI()
	if err != nil {
		return cred, nil, err
	}
	if err := me.MayDelegate(c.Login.Source); err != nil {
		return cred, nil, err
	}
	var nonce [4]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return cred, nil, fail.Wrap(fail.Internal, err, "read random bytes")
	}
	opts.Name, opts.Description, opts.Roles = p.n.Name(part, hex.EncodeToString(nonce[:])), p.n.Mark(), me.Delegated()
	made, err := applicationcredentials.Create(ctx, c.Identity, me.User.ID, opts).Extract()
	if err != nil {
		return cred, nil, cloud.CannotDelegate(cloud.Wrap(err, "make an application credential for the cluster with the credentials of %s", c.Login.Source))
	}
	cred = provider.CloudCredential{ID: made.ID, Name: made.Name, Secret: made.Secret, ProjectID: me.Project.ID, UserID: me.User.ID}
	for _, r := range made.Roles {
		cred.Roles = append(cred.Roles, r.Name)
	}
	cred, err = p.withCloud(cred, c)
	return cred, made.AccessRules, err
}

// DeleteCloudCredential deletes one of the user's application credentials. One that is not there is as good.
func (p *Provider) DeleteCloudCredential(ctx context.Context, id string) error {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return err
	}
	err = cloud.UnlessGone(applicationcredentials.Delete(ctx, c.Identity, me.User.ID, id).ExtractErr())
	return cloud.CannotDelegate(cloud.Wrap(err, "delete application credential %s", id))
}

// PruneCloudCredentials deletes the cluster's application credentials that this user has made, but those to keep: former ones, and
// ones whose answers never came. Those for people stay. With none to keep, it is part of destroying a cluster, and they go as well. It
// returns how many it deleted.
func (p *Provider) PruneCloudCredentials(ctx context.Context, keep ...string) (int, error) {
	return p.prune(ctx, func(a applicationcredentials.ApplicationCredential) bool {
		return !slices.Contains(keep, a.ID) && (len(keep) == 0 || !p.isForPeople(a))
	})
}

func (p *Provider) isForPeople(a applicationcredentials.ApplicationCredential) bool {
	return strings.HasPrefix(a.Name, p.n.Name(forPeople)+".")
}

// prune deletes those of the cluster's application credentials that go, with the access rules that nothing else has.
func (p *Provider) prune(ctx context.Context, goes func(applicationcredentials.ApplicationCredential) bool) (int, error) {
	all, err := p.credentials(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, a := range all {
		if a.Description != p.n.Mark() || !goes(a) {
			continue
		}
		if err := p.dropCredential(ctx, a.ID, a.AccessRules); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// credentials lists the user's application credentials.
func (p *Provider) credentials(ctx context.Context) ([]applicationcredentials.ApplicationCredential, error) {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, applicationcredentials.List(c.Identity, me.User.ID, nil), applicationcredentials.ExtractApplicationCredentials)
	return all, cloud.Wrap(err, "list application credentials")
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
