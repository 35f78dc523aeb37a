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

// EnsureCloudCredential returns a restricted application credential for the cluster's components: have if the cloud still accepts it, else a
// new one. The caller stores it encrypted, and calls PruneCloudCredentials with its ID once all components use it. It returns fail.Refused if
// the user's own credentials may not create others.
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

// accepts reports whether a credential can log in to the project of the current session.
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

// Parts of the names of application credentials that state the credential's purpose.
const (
	forCluster = "cloud"
	forPeople  = "people"
)

// NewCloudCredential makes another restricted application credential, to rotate the current one. The current one stays valid until
// PruneCloudCredentials, so that every component always holds a valid credential. If the cloud's services accept access rules, the new credential
// admits only the calls of the cluster's components; otherwise its field Reach says why it covers the whole project. A non-empty unbounded asks
// for a credential without access rules, and gives the reason.
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

// PeopleCredential makes an application credential for a person who takes the cluster over: restricted, for all services, valid until the
// given time. Earlier ones stay, because other people may hold them; expired ones are deleted.
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
	until = until.UTC() // Keystone expects UTC
	cred, _, err := p.makeCredential(ctx, c, forPeople, applicationcredentials.CreateOpts{ExpiresAt: &until})
	return cred, err
}

// makeCredential makes an application credential with the roles that the cluster needs, and returns the access rules that Keystone gave it.
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

// DeleteCloudCredential deletes one of the user's application credentials. A missing credential is no error.
func (p *Provider) DeleteCloudCredential(ctx context.Context, id string) error {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return err
	}
	err = cloud.UnlessGone(applicationcredentials.Delete(ctx, c.Identity, me.User.ID, id).ExtractErr())
	return cloud.CannotDelegate(cloud.Wrap(err, "delete application credential %s", id))
}

// PruneCloudCredentials deletes the application credentials that this user made for the cluster, except those in keep: replaced ones, and ones
// whose creation was never answered. Credentials for people stay. Without keep it is part of destroying a cluster, and deletes the credentials
// for people too. It returns the number of deleted credentials.
func (p *Provider) PruneCloudCredentials(ctx context.Context, keep ...string) (int, error) {
	return p.prune(ctx, func(a applicationcredentials.ApplicationCredential) bool {
		return !slices.Contains(keep, a.ID) && (len(keep) == 0 || !p.isForPeople(a))
	})
}

func (p *Provider) isForPeople(a applicationcredentials.ApplicationCredential) bool {
	return strings.HasPrefix(a.Name, p.n.Name(forPeople)+".")
}

// prune deletes the cluster's application credentials that goes selects, and the access rules that no other credential uses.
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

// withCloud adds the access data of the cloud, which can change while the credential stays.
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
