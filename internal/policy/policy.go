package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// Policy decides what documents may use of a server's host and network. It is safe for concurrent use.
type Policy struct{ rules *v1alpha1.ServerPolicy }

// New returns the policy of a server.
func New(rules *v1alpha1.ServerPolicy) *Policy { return &Policy{rules} }

// Check refuses a document that uses something of the server's host or network which the policy, or a credential, does not allow. It opens no file and
// connects nowhere. was is the document that the store has of the cluster, nil if there is none: its releases stay allowed.
func (p *Policy) Check(ctx context.Context, creds Credentials, doc, was *v1alpha1.Cluster) error {
	c := &check{ctx: ctx, creds: creds, doc: doc, rule: p.rules.For(doc.Metadata.Name), fields: doc.HostFields()}
	if was != nil {
		for _, f := range was.HostFields() {
			if f.Use == v1alpha1.HostRelease {
				c.releases = append(c.releases, f.Value)
			}
		}
	}
	c.add(p.CheckProvider(doc.Spec.Provider.Name()))
	for _, f := range c.fields {
		c.add(c.field(f))
	}
	return errors.Join(c.refused...)
}

// CheckProvider refuses a provider that documents may not name.
func (p *Policy) CheckProvider(name string) error {
	if slices.Contains(p.rules.Providers, name) {
		return nil
	}
	return refuse("spec.provider."+name, "documents may not name provider %s", name).
		Do("the server's administrator allows it with naupegos server --providers or --policy; it allows %s now", strings.Join(p.rules.Providers, ", "))
}

// CheckImport refuses an import that names a file of the server, or a host that the credential is not for.
func (p *Policy) CheckImport(ctx context.Context, creds Credentials, cluster, file, credential string, to v1alpha1.Address) error {
	if err := p.CheckProvider(v1alpha1.ProviderHosts); err != nil {
		return err
	}
	if file != "" || credential == "" {
		return refuse("identity", "files of the server are not for documents").Do("name a credential that the server's administrator has defined")
	}
	_, err := creds.Find(ctx, cluster, credential, to)
	return err
}

// check is one look at one document.
type check struct {
	ctx      context.Context
	creds    Credentials
	doc      *v1alpha1.Cluster
	rule     v1alpha1.ClusterPolicy
	fields   []v1alpha1.HostField
	releases []string // that the cluster has already
	refused  []error
}

func (c *check) add(err error) {
	if err != nil {
		c.refused = append(c.refused, err)
	}
}

// refuse is an error about a field.
func refuse(field, format string, args ...any) *fail.Error {
	return fail.New(fail.Refused, "the server's policy: %s", fmt.Sprintf(format, args...)).At(field)
}

// field decides about one field. An unknown use is refused.
func (c *check) field(f v1alpha1.HostField) error {
	switch f.Use {
	case v1alpha1.HostFile:
		return refuse(f.Path, "documents may not name files of the server").Do("name a credential in its place, which the server's administrator defines with naupegos server credential add")
	case v1alpha1.HostCredential:
		return c.credential(f)
	case v1alpha1.HostAddress:
		return c.address(f)
	case v1alpha1.HostCluster:
		return c.clusterAddress(f)
	case v1alpha1.HostDirectory:
		if slices.Contains(c.rule.BackupDirectories, path.Clean(f.Value)) {
			return nil
		}
		return refuse(f.Path, "cluster %s may not use directory %s of the server", c.doc.Metadata.Name, f.Value).Do("the server's administrator allows it with backupDirectories")
	case v1alpha1.HostPort:
		first, last, err := c.rule.Ports()
		if !c.doc.Spec.Unattended.Autoscale {
			return nil // nothing listens
		}
		if n, e := strconv.Atoi(f.Value); err == nil && e == nil && n >= first && n <= last {
			return nil
		}
		return refuse(f.Path, "cluster %s may not use port %s of the server", c.doc.Metadata.Name, f.Value).Do("choose a port of %s", c.rule.AutoscalePorts)
	case v1alpha1.HostRelease:
		return c.release(f)
	}
	return refuse(f.Path, "the use %q is not known", f.Use)
}

func (c *check) credential(f v1alpha1.HostField) error {
	if f.Value == "" {
		return refuse(f.Path, "no credential is named, and documents get nothing of the server's files and environment").
			Do("name one that the server's administrator has defined with naupegos server credential add")
	}
	err := c.creds.Usable(c.ctx, c.doc.Metadata.Name, f.Value)
	if fail.KindOf(err) == fail.Unauthorized {
		return refuse(f.Path, "cluster %s has no credential %s", c.doc.Metadata.Name, f.Value).Do("the server's administrator defines it with naupegos server credential add")
	}
	return err
}

// address decides where Naupegos may connect to: where the credential of the section may be sent, or, without one, where the rule says.
func (c *check) address(f v1alpha1.HostField) error {
	to, err := Address(c.doc, f)
	if err != nil {
		return refuse(f.Path, "%v", err)
	}
	if name, has := c.credentialFor(f.Path); has {
		if name == "" {
			return nil // refused by its own field
		}
		_, err := c.creds.Find(c.ctx, c.doc.Metadata.Name, name, to)
		switch fail.KindOf(err) {
		case fail.Unauthorized:
			return nil // as above
		case fail.Refused:
			return refuse(f.Path, "credential %s is not for %s", name, to).Do("name the host that it is for, or another credential")
		}
		return err
	}
	if c.listed(to) {
		return nil
	}
	return refuse(f.Path, "cluster %s may not have the server connect to %s", c.doc.Metadata.Name, to).Do("the server's administrator allows it with endpoints")
}

// credentialFor returns the credential of the nearest section around a field.
func (c *check) credentialFor(field string) (name string, has bool) {
	for at := parent(field); strings.Count(at, ".") >= 2; at = parent(at) {
		for _, f := range c.fields {
			if f.Use == v1alpha1.HostCredential && strings.HasPrefix(f.Path, at+".") {
				return f.Value, true
			}
		}
	}
	return "", false
}

func parent(field string) string { return field[:max(strings.LastIndexAny(field, ".["), 0)] }

func (c *check) listed(to v1alpha1.Address) bool {
	return slices.ContainsFunc(c.rule.Endpoints, func(text string) bool {
		p, err := v1alpha1.ParsePlace(text)
		return err == nil && p.Covers(to)
	})
}

// clusterAddress decides about an address of the cluster itself. Naupegos sends nothing there before it has seen a certificate of the cluster. The
// server's own addresses and the link's, where metadata services are, need an entry all the same.
func (c *check) clusterAddress(f v1alpha1.HostField) error {
	to, err := Address(c.doc, f)
	if err != nil {
		return refuse(f.Path, "%v", err)
	}
	ip, err := netip.ParseAddr(to.Host)
	inner := err == nil && (ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast()) ||
		err != nil && (to.Host == "localhost" || strings.HasSuffix(to.Host, ".localhost"))
	if c.listed(to) || !inner && len(c.rule.Endpoints) == 0 {
		return nil
	}
	return refuse(f.Path, "cluster %s may not have the server connect to %s", c.doc.Metadata.Name, to).Do("the server's administrator allows it with endpoints")
}

func (c *check) release(f v1alpha1.HostField) error {
	if len(c.rule.Releases) == 0 || slices.Contains(c.releases, f.Value) ||
		slices.ContainsFunc(c.rule.Releases, func(r string) bool {
			return f.Value == r || strings.Count(r, ".") == 1 && strings.HasPrefix(f.Value, r+".")
		}) {
		return nil
	}
	return refuse(f.Path, "cluster %s may not run Kubernetes %s", c.doc.Metadata.Name, f.Value).Do("choose one of %s", strings.Join(c.rule.Releases, ", "))
}

// Address reads the address that a field of a document names.
func Address(doc *v1alpha1.Cluster, f v1alpha1.HostField) (v1alpha1.Address, error) {
	hosts := doc.Spec.Provider.Hosts
	switch {
	case f.Use == v1alpha1.HostCluster && f.Path == "spec.endpoint.address":
		host, port := doc.Spec.Endpoint.AddressHostPort()
		return HostAt("https", host, cmp.Or(port, doc.Spec.Endpoint.Port)), nil
	case f.Use == v1alpha1.HostCluster:
		return HostAt("https", f.Value, doc.Spec.Endpoint.Port), nil
	case hosts != nil && strings.HasPrefix(f.Path, "spec.provider.hosts."):
		return HostAt("ssh", f.Value, hosts.Port), nil
	}
	return v1alpha1.ParseAddress(f.Value)
}

// HostAt returns the address of a host, in the form in which addresses are compared.
func HostAt(scheme, host string, port int) v1alpha1.Address {
	a := v1alpha1.Address{Scheme: scheme, Host: strings.ToLower(strings.TrimSuffix(host, ".")), Port: port}
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		a.Host = ip.Unmap().String()
	}
	return a
}
