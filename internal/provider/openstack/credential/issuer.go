package credential

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
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Options configures an Issuer: the cluster of the credentials, and its access to the cloud.
type Options struct {
	Names     marks.Names
	Cloud     func(context.Context) (*cloud.Cloud, error)
	Balancing func(context.Context) (*gophercloud.ServiceClient, error) // client of the load-balancer service; nil if the project can't use it
	CACert    func() (string, error)                                    // PEM certificates of the cloud's authorities; empty for the system's
	DNS       func() bool                                               // reports whether the cluster's components call Designate
}

// Issuer makes, tries and deletes a cluster's application credentials.
type Issuer struct{ opts Options }

// New returns the issuer of a cluster's credentials. It makes no call.
func New(o Options) *Issuer { return &Issuer{opts: o} }

// signedIn returns the cloud and its logged-in user.
func (i *Issuer) signedIn(ctx context.Context) (*cloud.Cloud, cloud.User, error) {
	c, err := i.opts.Cloud(ctx)
	if err != nil {
		return nil, cloud.User{}, err
	}
	me, err := c.WhoAmI()
	return c, me, err
}

// EnsureCloudCredential returns a restricted application credential for the cluster's components: have if the cloud still accepts it, else a
// new one. The caller stores it encrypted, and calls PruneCloudCredentials with its ID once all components use it. It returns fail.Refused if
// the user's own credentials may not create others.
func (i *Issuer) EnsureCloudCredential(ctx context.Context, have *provider.CloudCredential) (provider.CloudCredential, error) {
	if have == nil || have.ID == "" {
		return i.NewCloudCredential(ctx, "")
	}
	c, err := i.opts.Cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	got, err := i.withCloud(*have, c)
	if err != nil {
		return got, err
	}
	works, err := i.accepts(ctx, c, got)
	if err != nil || works {
		return got, err
	}
	return i.NewCloudCredential(ctx, "")
}

// accepts reports whether a credential can log in to the project of the current session.
func (i *Issuer) accepts(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential) (bool, error) {
	me, err := c.WhoAmI()
	if err != nil || cred.ProjectID != me.Project.ID {
		return false, err
	}
	_, err = SignIn(ctx, c, cred)
	if kind, _, _ := cloud.Classify(err); err != nil && (kind == fail.Unauthorized || kind == fail.NotFound) {
		return false, nil
	}
	return err == nil, cloud.Wrap(err, "try the cluster's %s", cred)
}

// SignIn logs in with a credential.
func SignIn(ctx context.Context, c *cloud.Cloud, cred provider.CloudCredential) (*gophercloud.ProviderClient, error) {
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
func (i *Issuer) NewCloudCredential(ctx context.Context, unbounded string) (provider.CloudCredential, error) {
	c, err := i.opts.Cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	reach := unbounded
	if reach == "" {
		cred, why, err := i.boundedCredential(ctx, c)
		if err != nil || why == "" {
			return cred, err
		}
		reach = why
	}
	cred, _, err := i.makeCredential(ctx, c, forCluster, applicationcredentials.CreateOpts{})
	cred.Reach = reach
	return cred, err
}

// PeopleCredential makes an application credential for a person who takes the cluster over: restricted, for all services, valid until the
// given time. Earlier ones stay, because other people may hold them; expired ones are deleted.
func (i *Issuer) PeopleCredential(ctx context.Context, until time.Time) (provider.CloudCredential, error) {
	c, err := i.opts.Cloud(ctx)
	if err != nil {
		return provider.CloudCredential{}, err
	}
	if _, err := i.prune(ctx, func(a applicationcredentials.ApplicationCredential) bool {
		return i.isForPeople(a) && !a.ExpiresAt.IsZero() && a.ExpiresAt.Before(time.Now())
	}); err != nil {
		return provider.CloudCredential{}, err
	}
	until = until.UTC() // Keystone expects UTC
	cred, _, err := i.makeCredential(ctx, c, forPeople, applicationcredentials.CreateOpts{ExpiresAt: &until})
	return cred, err
}

// makeCredential makes an application credential with the roles that the cluster needs, and returns the access rules that Keystone gave it.
func (i *Issuer) makeCredential(ctx context.Context, c *cloud.Cloud, part string, opts applicationcredentials.CreateOpts) (
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
	opts.Name, opts.Description, opts.Roles = i.opts.Names.Name(part, hex.EncodeToString(nonce[:])), i.opts.Names.Mark(), me.Delegated()
	made, err := applicationcredentials.Create(ctx, c.Identity, me.User.ID, opts).Extract()
	if err != nil {
		return cred, nil, cloud.CannotDelegate(cloud.Wrap(err, "make an application credential for the cluster with the credentials of %s", c.Login.Source))
	}
	cred = provider.CloudCredential{ID: made.ID, Name: made.Name, Secret: made.Secret, ProjectID: me.Project.ID, UserID: me.User.ID}
	for _, r := range made.Roles {
		cred.Roles = append(cred.Roles, r.Name)
	}
	cred, err = i.withCloud(cred, c)
	return cred, made.AccessRules, err
}

// DeleteCloudCredential deletes one of the user's application credentials. A missing credential is no error.
func (i *Issuer) DeleteCloudCredential(ctx context.Context, id string) error {
	c, me, err := i.signedIn(ctx)
	if err != nil {
		return err
	}
	err = cloud.UnlessGone(applicationcredentials.Delete(ctx, c.Identity, me.User.ID, id).ExtractErr())
	return cloud.CannotDelegate(cloud.Wrap(err, "delete application credential %s", id))
}

// PruneCloudCredentials deletes the application credentials that this user made for the cluster, except those in keep: replaced ones, and ones
// whose creation was never answered. Credentials for people stay. Without keep it is part of destroying a cluster, and deletes the credentials
// for people too. It returns the number of deleted credentials.
func (i *Issuer) PruneCloudCredentials(ctx context.Context, keep ...string) (int, error) {
	return i.prune(ctx, func(a applicationcredentials.ApplicationCredential) bool {
		return !slices.Contains(keep, a.ID) && (len(keep) == 0 || !i.isForPeople(a))
	})
}

func (i *Issuer) isForPeople(a applicationcredentials.ApplicationCredential) bool {
	return strings.HasPrefix(a.Name, i.opts.Names.Name(forPeople)+".")
}

// prune deletes the cluster's application credentials that goes selects, and the access rules that no other credential uses.
func (i *Issuer) prune(ctx context.Context, goes func(applicationcredentials.ApplicationCredential) bool) (int, error) {
	all, err := i.credentials(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, a := range all {
		if a.Description != i.opts.Names.Mark() || !goes(a) {
			continue
		}
		if err := i.dropCredential(ctx, a.ID, a.AccessRules); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// credentials lists the user's application credentials.
func (i *Issuer) credentials(ctx context.Context) ([]applicationcredentials.ApplicationCredential, error) {
	c, me, err := i.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, applicationcredentials.List(c.Identity, me.User.ID, nil), applicationcredentials.ExtractApplicationCredentials)
	return all, cloud.Wrap(err, "list application credentials")
}

// withCloud adds the access data of the cloud, which can change while the credential stays.
func (i *Issuer) withCloud(cred provider.CloudCredential, c *cloud.Cloud) (provider.CloudCredential, error) {
	cred.AuthURL, cred.Region = c.Login.Options.IdentityEndpoint, c.Login.Where.Region
	cred.Interface = ""
	if a := c.Login.Where.Availability; a != gophercloud.AvailabilityPublic {
		cred.Interface = string(a)
	}
	cred.Insecure = c.Login.TLS != nil && c.Login.TLS.InsecureSkipVerify
	ca, err := i.opts.CACert()
	cred.CACert = ca
	return cred, err
}
