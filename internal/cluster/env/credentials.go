package env

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/fail"
	places "github.com/naupegos/naupegos/internal/place"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/provider"
)

// Credentials gets the credentials that a document names.
type Credentials struct {
	in      policy.Credentials
	cluster string
	Closed  bool // the document must not name files and variables of this host
}

// NewCredentials returns the credentials of a cluster. With closed, the document must not name files and variables of this host.
func NewCredentials(in policy.Credentials, cluster string, closed bool) Credentials {
	return Credentials{in: in, cluster: cluster, Closed: closed}
}

// Value returns a function for the value of a credential for the service at a URL, or nil if no credential is named.
func (n Credentials) Value(name, url string) func(context.Context) ([]byte, error) {
	if name == "" {
		return nil
	}
	return func(ctx context.Context) ([]byte, error) {
		to, err := places.ParseAddress(url)
		if err != nil {
			return nil, fail.New(fail.Invalid, "the address that credential %s is for can't be read", name) // cause withheld: it may quote a secret
		}
		return n.in.Find(ctx, n.cluster, name, to)
	}
}

// S3 returns the source of a bucket's credential.
func (n Credentials) S3(to *v1alpha1.BackupS3) s3.Source {
	return s3.Source{Credential: n.Value(to.Credential, to.Endpoint), Closed: n.Closed}
}

// Swift returns the source of a container's credential.
func (n Credentials) Swift(to *v1alpha1.BackupSwift) swift.Source {
	return swift.Source{Credential: n.Value(to.Credential, to.AuthURL), Closed: n.Closed}
}

// Cloud returns a function for the clouds.yaml of a document, or nil if the document names no credential.
func (n Credentials) Cloud(doc *v1alpha1.Cluster) func(context.Context) (provider.NamedCloud, error) {
	o := doc.Spec.Provider.OpenStack
	if o == nil || o.Credential == "" {
		return nil
	}
	return func(ctx context.Context) (provider.NamedCloud, error) {
		value, allowed, err := n.in.Open(ctx, n.cluster, o.Credential)
		if err != nil {
			return provider.NamedCloud{}, err
		}
		return provider.NamedCloud{Name: o.Credential, YAML: value, Allowed: func(authURL string) error {
			to, err := places.ParseAddress(authURL)
			if err != nil {
				return fail.New(fail.Invalid, "the auth_url of credential %s can't be read", o.Credential) // cause withheld: it may quote a secret
			}
			return allowed(to)
		}}, nil
	}
}

// SSHKey returns the private key that logs in to a document's hosts, or nil if the document names no credential. The credential must be valid for
// all addresses of hosts and jump hosts.
func (n Credentials) SSHKey(ctx context.Context, doc *v1alpha1.Cluster) ([]byte, error) {
	name := doc.Spec.Provider.Hosts.Credential
	switch {
	case name == "" && n.Closed:
		return nil, fail.New(fail.Refused, "no credential logs in to the hosts").At(n.cluster).Do("name one: spec.provider.hosts.credential")
	case name == "":
		return nil, nil
	}
	value, allowed, err := n.in.Open(ctx, n.cluster, name)
	if err != nil {
		return nil, err
	}
	for _, f := range doc.HostFields() {
		if f.Use != v1alpha1.HostAddress || !strings.HasPrefix(f.Path, "spec.provider.hosts.") {
			continue
		}
		to, err := policy.Address(doc, f)
		if err == nil {
			err = allowed(to)
		}
		if err != nil {
			return nil, err
		}
	}
	return value, nil
}

func (n Credentials) backupTarget(doc *v1alpha1.Cluster, dir string) backup.Target {
	if doc == nil || doc.Spec.Backup == nil || doc.Spec.Backup.To == nil {
		return backup.Directory(filepath.Join(dir, "backups"))
	}
	switch to := doc.Spec.Backup.To; {
	case to.S3 != nil:
		return s3.NewFrom(s3.Spec(*to.S3), n.S3(to.S3))
	case to.Swift != nil:
		return swift.NewFrom(swift.Spec(*to.Swift), n.Swift(to.Swift))
	case doc.Spec.Backup.Schedule != "":
		return backup.Shared{Directory: backup.Directory(to.Directory)}
	default:
		return backup.Directory(to.Directory)
	}
}
