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
	"github.com/naupegos/naupegos/internal/place"
)

// Policy decides which resources of a server's host and network documents may use. It is safe for concurrent use.
type Policy struct{ rules *v1alpha1.ServerPolicy }

// New returns a server's policy.
func New(rules *v1alpha1.ServerPolicy) *Policy { return &Policy{rules} }

// Check refuses a document that uses a resource of the server's host or network without permission by the policy or a credential. It opens no files or
// connections. was is the cluster's stored document, or nil; its releases stay allowed.
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
	c.library()
	return errors.Join(c.refused...)
}

// CheckProvider refuses a provider that the policy does not allow.
func (p *Policy) CheckProvider(name string) error {
	if slices.Contains(p.rules.Providers, name) {
		return nil
	}
	return refuse("spec.provider."+name, "provider %s is not allowed", name).
		Do("the server's administrator can allow it with naupegos server --providers or --policy; the server allows %s", strings.Join(p.rules.Providers, ", "))
}

// BMC reports whether the policy allows a machine's BMC at an address. Without a list of networks, all addresses are allowed except Inner ones.
func (p *Policy) BMC(ip netip.Addr) bool {
	if len(p.rules.BMCNetworks) == 0 {
		return !Inner(ip)
	}
	return slices.ContainsFunc(p.rules.BMCNetworks, func(text string) bool {
		n, err := netip.ParsePrefix(text)
		return err == nil && n.Contains(ip)
	})
}

// CheckBuild refuses to build the missing bundle of a document for an operator of a single cluster.
func (p *Policy) CheckBuild(doc *v1alpha1.Cluster, version string) error {
	if p.rules.For(doc.Metadata.Name).Builds {
		return nil
	}
	return refuse("spec.kubernetes.version", "the server has no bundle of Kubernetes %s with this document's addons, and builds none for cluster %s", version, doc.Metadata.Name).
		Do("choose a prepared release; the server's administrator prepares another one with naupegos bundle pull or naupegos bundle build, or allows builds: true")
}

// CheckBackupsOf refuses to read another cluster's backups, where a document keeps its own, by a credential that is not bound to their path, or in a
// directory that the other cluster may not use.
func (p *Policy) CheckBackupsOf(ctx context.Context, creds Credentials, doc *v1alpha1.Cluster, of string) error {
	c, other := &check{ctx: ctx, creds: creds, doc: doc}, *doc
	other.Metadata.Name = of
	there := &check{ctx: ctx, creds: creds, doc: &other, rule: p.rules.For(of)}
	for _, f := range doc.HostFields() {
		switch {
		case !strings.HasPrefix(f.Path, "spec.backup.to."):
		case f.Use == v1alpha1.HostCredential:
			c.add(c.credential(f, PathOf(&other, f.Path)))
		case f.Use == v1alpha1.HostDirectory:
			c.add(there.field(f))
		}
	}
	return errors.Join(c.refused...)
}

// CheckImport refuses an import that uses a file of the server, or a credential that is not bound to the host.
func (p *Policy) CheckImport(ctx context.Context, creds Credentials, cluster, file, credential string, to place.Address) error {
	if err := p.CheckProvider(v1alpha1.ProviderHosts); err != nil {
		return err
	}
	if file != "" || credential == "" {
		return refuse("identity", "an import may not use files of the server").Do("use a credential that the server's administrator defined")
	}
	if err := creds.Within(ctx, cluster, credential, ""); err != nil {
		return err
	}
	_, err := creds.Find(ctx, cluster, credential, to)
	return err
}

// check is the check of one document.
type check struct {
	ctx      context.Context
	creds    Credentials
	doc      *v1alpha1.Cluster
	rule     v1alpha1.ClusterPolicy
	fields   []v1alpha1.HostField
	releases []string // of the stored document
	refused  []error
}

func (c *check) add(err error) {
	if err != nil {
		c.refused = append(c.refused, err)
	}
}

// library refuses charts, whose templates the server would execute, and sets of images that the rule does not list: they may hold another team's images.
func (c *check) library() {
	if len(c.doc.Spec.Charts) > 0 && !c.rule.Charts {
		c.add(refuse("spec.charts", "cluster %s may not have charts", c.doc.Metadata.Name).
			Do("use spec.manifests with what helm template prints; or the server's administrator allows it with charts: true"))
	}
	if c.doc.Spec.Registry == nil {
		return
	}
	for i, name := range c.doc.Spec.Registry.Sets {
		if name != v1alpha1.DefaultImageSet && !slices.Contains(c.rule.ImageSets, name) {
			c.add(refuse(fmt.Sprintf("spec.registry.sets[%d]", i), "cluster %s may not use the set %s of the server's library", c.doc.Metadata.Name, name).
				Do("the server's administrator can allow it with imageSets"))
		}
	}
}

// refuse returns the refusal of a field.
func refuse(field, format string, args ...any) *fail.Error {
	return fail.New(fail.Refused, "the server's policy: %s", fmt.Sprintf(format, args...)).At(field)
}

// field checks one field. It refuses unknown uses.
func (c *check) field(f v1alpha1.HostField) error {
	switch f.Use {
	case v1alpha1.HostFile:
		return refuse(f.Path, "documents may not name files of the server").Do("use a credential instead; the server's administrator defines it with naupegos server credential add")
	case v1alpha1.HostSession:
		return refuse(f.Path, "documents may not use environment variables, the SSH agent or the terminal of the server").Do("leave it out")
	case v1alpha1.HostCredential:
		return c.credential(f, PathOf(c.doc, f.Path))
	case v1alpha1.HostAddress:
		return c.address(f)
	case v1alpha1.HostCluster:
		return c.clusterAddress(f)
	case v1alpha1.HostDirectory:
		if slices.Contains(c.rule.BackupDirectories, path.Clean(f.Value)) {
			return nil
		}
		return refuse(f.Path, "cluster %s may not use directory %s of the server", c.doc.Metadata.Name, f.Value).Do("the server's administrator can allow it with backupDirectories")
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
	return refuse(f.Path, "unknown use %q", f.Use)
}

// credential checks a field that names a credential, which is used for a path at its service.
func (c *check) credential(f v1alpha1.HostField, path string) error {
	if f.Value == "" {
		return refuse(f.Path, "no credential is named, and the server's own files and environment are not available to documents").
			Do("use a credential that the server's administrator defined with naupegos server credential add")
	}
	err := c.creds.Within(c.ctx, c.doc.Metadata.Name, f.Value, path)
	var refused *fail.Error
	switch {
	case fail.KindOf(err) == fail.Unauthorized:
		return refuse(f.Path, "cluster %s has no credential %s", c.doc.Metadata.Name, f.Value).Do("the server's administrator defines it with naupegos server credential add")
	case fail.KindOf(err) == fail.Refused && errors.As(err, &refused):
		return refuse(f.Path, "%s", refused.What).Do("%s", refused.Hint)
	}
	return err
}

// address checks an address that Naupegos connects to. The section's credential must be bound to it; without a credential, the policy must list it.
func (c *check) address(f v1alpha1.HostField) error {
	to, err := Address(c.doc, f)
	if err != nil {
		return refuse(f.Path, "%v", err)
	}
	if name, has := c.credentialFor(f.Path); has {
		if name == "" {
			return nil // the credential's own field is refused
		}
		_, err := c.creds.Find(c.ctx, c.doc.Metadata.Name, name, to)
		switch fail.KindOf(err) {
		case fail.Unauthorized:
			return nil // as above
		case fail.Refused:
			return refuse(f.Path, "credential %s is not bound to %s", name, to).Do("use a host that the credential is bound to, or another credential")
		}
		return err
	}
	if c.listed(to) {
		return nil
	}
	return refuse(f.Path, "cluster %s may not connect to %s from the server", c.doc.Metadata.Name, to).Do("the server's administrator can allow it with endpoints")
}

// credentialFor returns the credential of the innermost section that contains a field.
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

func (c *check) listed(to place.Address) bool {
	return slices.ContainsFunc(c.rule.Endpoints, func(text string) bool {
		p, err := place.ParsePlace(text)
		return err == nil && p.Covers(to)
	})
}

// clusterAddress checks an address of the cluster itself. Naupegos verifies the cluster's certificate before it sends anything there, so most addresses are
// allowed. Loopback, link-local and metadata addresses need an entry in the policy.
func (c *check) clusterAddress(f v1alpha1.HostField) error {
	to, err := Address(c.doc, f)
	if err != nil {
		return refuse(f.Path, "%v", err)
	}
	ip, err := netip.ParseAddr(to.Host)
	inner := err == nil && Inner(ip) || err != nil && Localhost(to.Host)
	if c.listed(to) || !inner && len(c.rule.Endpoints) == 0 {
		return nil
	}
	return refuse(f.Path, "cluster %s may not connect to %s from the server", c.doc.Metadata.Name, to).Do("the server's administrator can allow it with endpoints")
}

// Inner reports whether an address is a loopback, link-local or multicast one, or that of a cloud's metadata service.
func Inner(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || slices.Contains(metadata, ip.String())
}

// metadata are the addresses of clouds' metadata services that are not link-local: of EC2, Google Cloud and Alibaba Cloud.
var metadata = []string{"fd00:ec2::254", "fd20:ce::254", "100.100.100.200"}

// Localhost reports whether a name always means the server itself (RFC 6761).
func Localhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
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

// PathOf returns the path at its service that the section of a field uses: that of a Vault's mounts, or of the cluster's backups. A namespace, a bucket and a
// container are the beginning of the path, as the service sees it. It returns "" for other sections.
func PathOf(doc *v1alpha1.Cluster, field string) string {
	var to v1alpha1.BackupTarget
	if b := doc.Spec.Backup; b != nil && b.To != nil {
		to = *b.To
	}
	switch v := doc.Spec.PKI.VaultIssuer(); {
	case v != nil && strings.HasPrefix(field, "spec.pki.issuer.vault."):
		return path.Join(v.Namespace, v.Mount)
	case to.S3 != nil && strings.HasPrefix(field, "spec.backup.to.s3."):
		return path.Join(to.S3.Bucket, to.S3.Prefix, doc.Metadata.Name)
	case to.Swift != nil && strings.HasPrefix(field, "spec.backup.to.swift."):
		return path.Join(to.Swift.Container, to.Swift.Prefix, doc.Metadata.Name)
	}
	return ""
}

// Address parses the address in a field of a document.
func Address(doc *v1alpha1.Cluster, f v1alpha1.HostField) (place.Address, error) {
	hosts := doc.Spec.Provider.Hosts
	switch {
	case f.Use == v1alpha1.HostCluster && f.Path == "spec.endpoint.address":
		host, port := doc.Spec.Endpoint.AddressHostPort()
		return HostAt("https", host, cmp.Or(port, doc.Spec.Endpoint.Port)), nil
	case f.Use == v1alpha1.HostCluster:
		return HostAt("https", f.Value, doc.Spec.Endpoint.Port), nil
	case hosts != nil && strings.HasPrefix(f.Path, "spec.provider.hosts."):
		return HostAt("ssh", f.Value, hosts.PortOf(f.Path)), nil
	}
	return place.ParseAddress(f.Value)
}

// HostAt returns the address of a host, in the form in which addresses are compared.
func HostAt(scheme, host string, port int) place.Address {
	a := place.Address{Scheme: scheme, Host: strings.ToLower(strings.TrimSuffix(host, ".")), Port: port}
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		a.Host = ip.Unmap().String()
	}
	return a
}
