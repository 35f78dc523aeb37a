package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/provider"
)

// SecretCredential names the restricted application credential, as JSON, among the cluster's secrets.
const SecretCredential = "cloud-credential" //nolint:gosec // a name

// AddonApprover is the addon that approves kubelets' serving certificates.
const AddonApprover = "naupegos-approver"

// AddonFlannel is the pod network flannel.
const AddonFlannel = "flannel"

// Credential returns the cluster's own cloud credential; nil before it exists.
func (c *Observer) Credential(ctx context.Context) (*provider.CloudCredential, error) {
	data, err := c.Secrets.Get(ctx, SecretCredential)
	if fail.KindOf(err) == fail.NotFound || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cred := &provider.CloudCredential{}
	if err := json.Unmarshal(data, cred); err != nil {
		return nil, fail.New(fail.Internal, "the stored credential of the cloud can't be read").Do("naupegos certs rotate %s --cloud-credential", c.Name()) // cause withheld: it may quote a secret
	}
	return cred, nil
}

// CloudAddonList returns the addons of clusters on this cloud, without manifests. It requires a login to the cloud.
func (c *Observer) CloudAddonList() []addon.Addon {
	cloud := c.Cloud()
	if cloud == nil {
		return nil
	}
	return addon.OpenStackAddons(cloud.NoVolumes() != "")
}

// CredentialUsers lists the addons whose programs authenticate with the cluster's cloud credential, without manifests.
func (c *Observer) CredentialUsers() []addon.Addon {
	list := c.CloudAddonList()
	if len(list) == 0 || !c.Doc.UsesDesignate() {
		return list
	}
	return append(list, slices.DeleteFunc(addon.Site(c.Doc), func(a addon.Addon) bool { return a.Name != addon.NameExternalDNS })...)
}

// cloudLogin returns the cluster's own access to its cloud; nil before its credential exists.
func (c *Observer) cloudLogin(ctx context.Context) (*addon.CloudLogin, error) {
	cloud := c.Cloud()
	cred, err := c.Credential(ctx)
	if err != nil || cred == nil || cloud == nil {
		return nil, err
	}
	l := &addon.CloudLogin{AuthURL: cred.AuthURL, CredentialID: cred.ID, Secret: cred.Secret, Region: cred.Region, Interface: cred.Interface, Insecure: cred.Insecure}
	if l.Authorities, err = c.CloudCA(ctx); err != nil {
		return nil, err
	}
	l.ClientCert, l.ClientKey, err = cloud.ClientCertificate()
	return l, err
}

// cloudAddons renders the cloud's addons by name; none without a cloud, or before its credential exists.
func (c *Observer) cloudAddons(ctx context.Context, p layout.Params) (map[string][]byte, error) {
	cloud := c.Cloud()
	if cloud == nil {
		return nil, nil
	}
	cred, err := c.Credential(ctx)
	if err != nil || cred == nil {
		return nil, err
	}
	info, err := cloud.CloudInfo(ctx)
	if err != nil {
		return nil, err
	}
	conf := addon.CloudConf{
		AuthURL: cred.AuthURL, Region: cred.Region, CredentialID: cred.ID, CredentialSecret: cred.Secret, Insecure: cred.Insecure, EndpointType: cred.Interface,
		SubnetID: info.SubnetID, FloatingNetworkID: info.FloatingNetworkID, IgnoreVolumeZone: info.IgnoreVolumeZone,
		NoLoadBalancers: info.NoLoadBalancers, InternalLB: info.InternalBalancers, LBProvider: info.LBProvider, LBMethod: info.LBMethod,
		FloatingSubnetID: info.FloatingSubnetID,
	}
	for _, class := range info.BalancerClasses {
		conf.Classes = append(conf.Classes, addon.BalancerClass(class))
	}
	ca, err := c.CloudCA(ctx)
	if err != nil {
		return nil, err
	}
	if len(ca) > 0 {
		conf.CAFile = render.CloudCAFile // see cloudFiles
	}
	cert, key, err := cloud.ClientCertificate()
	if err != nil {
		return nil, err
	}
	conf.ClientCert = len(cert) > 0
	text, err := conf.Render()
	if err != nil {
		return nil, err
	}
	all, err := addon.OpenStack{
		ClusterID: c.Record.ID, Bundle: p.Release.Bundle, CloudConf: text, Authorities: ca, ClientCert: cert, ClientKey: key, ControlPlanes: len(p.ControlPlanes), PodCIDR: p.PodCIDR, VolumeZone: info.VolumeZone,
		NoVolumes: cloud.NoVolumes() != "",
	}.Catalogue()
	out := map[string][]byte{}
	for _, a := range all {
		out[a.Name] = a.Manifests
	}
	return out, err
}

// AddonList lists the addons in the order of their installation, without manifests.
func (c *Observer) AddonList() []addon.Addon {
	var list []addon.Addon
	if c.Vault == nil { // else kubelets ask for none
		list = append(list, addon.Addon{
			Name: AddonApprover, Title: "the RBAC objects of the certificate approver",
			Reason: "it approves kubelets' serving certificates after checking the machine",
		})
	}
	if c.Doc.Spec.Kubernetes.CNI != layout.CNINone {
		list = append(list, addon.Addon{
			Name: AddonFlannel, Title: "the pod network (flannel)", Reason: "pods on different nodes reach each other through it",
		})
	}
	list = append(append(list, c.CloudAddonList()...), addon.Site(c.Doc)...)
	if len(c.Doc.Spec.Identity.Bindings) > 0 {
		list = append(list, addon.Addon{Name: addon.NameBindings, Title: "the role bindings of the document", Reason: "spec.identity.bindings gives groups and users their roles"})
	}
	return list
}

// Manifests renders an addon of addonList; nil for a cloud's addons while the cluster has no credential.
func (c *Observer) Manifests(ctx context.Context, p layout.Params, name string) ([]byte, error) {
	switch name {
	case AddonApprover:
		return layout.ApproverManifest(), nil
	case AddonFlannel:
		return p.Flannel()
	case addon.NameBindings:
		return addon.Bindings(c.Doc)
	}
	if a := c.Doc.Addon(name); a != nil {
		definitions := func(set string) ([]byte, error) { return c.BundleAt(p.Release.Version).Definitions(ctx, set) }
		key := func(s v1alpha1.RFC2136) (string, string, error) { return c.UpdateKey(ctx, s) }
		login := func() (*addon.CloudLogin, error) { return c.cloudLogin(ctx) }
		return addon.RenderSite(addon.Input{Doc: c.Doc, Bundle: p.Release.Bundle, Definitions: definitions, UpdateKey: key, CloudLogin: login}, *a)
	}
	cloud, err := c.cloudAddons(ctx, p)
	return cloud[name], err
}

// RecordDigest identifies the content that kubeadm's phases record in the cluster.
func RecordDigest(p layout.Params) (string, error) {
	conf, err := p.Recorded()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(conf)
	return hex.EncodeToString(sum[:]), nil
}

// AddonOptions returns the options by which an addon is applied. An addon that the document lists takes no object of another owner, but every field of its own.
func (c *Observer) AddonOptions(name string) kube.ApplyOptions {
	listed := c.Doc.Addon(name) != nil
	return kube.ApplyOptions{Addon: name, Prune: true, Shared: listed, Force: listed}
}

// observeAddons reports whether kubeadm's records and the pod network are in the cluster as wanted.
func (c *Observer) observeAddons(ctx context.Context, client *kube.Client, o *Observed) error {
	p, err := c.KubeParams(ctx)
	if fail.KindOf(err) == fail.NotReady {
		return nil // addresses are not known yet: the plan makes them known and everything is recorded then
	}
	if err != nil {
		return err
	}
	digest, err := RecordDigest(p)
	if err != nil {
		return err
	}
	o.Recorded = c.Facts.Get(memory.Recorded) == digest
	if o.ProxyTimeoutsReverted, err = client.ProxyPatient(ctx); err != nil {
		o.APIErr = err
		return nil
	}
	o.Addons, o.AddonFindings, o.AddonLoses, o.AddonDefined = map[string]bool{}, map[string]objects.Finding{}, map[string][]string{}, map[string][]string{}
	for _, a := range c.AddonList() {
		manifests, err := c.Manifests(ctx, p, a.Name)
		if fail.KindOf(err) == fail.NotFound && c.Doc.Addon(a.Name) != nil { // the local bundle, of a plan without changes, lacks its image
			o.Addons[a.Name] = false
			continue
		}
		if err != nil {
			return err
		}
		if manifests == nil { // its inputs don't exist yet
			continue
		}
		ok, err := client.UpToDate(ctx, manifests, kube.ApplyOptions{Addon: a.Name})
		if err != nil {
			o.APIErr = err
			return nil
		}
		if !ok {
			f := client.Differences(ctx, manifests, c.AddonOptions(a.Name))
			if ok = f.Clean(); !ok {
				o.AddonFindings[a.Name] = f
				if o.AddonLoses[a.Name], o.AddonDefined[a.Name], err = client.Lost(ctx, f.Pruned); err != nil {
					o.APIErr = err
					return nil
				}
			}
		}
		o.Addons[a.Name] = ok
	}
	if err := c.observeSurplus(ctx, client, o); err != nil {
		o.APIErr = err
	}
	return nil
}

// observeSurplus finds addons that the cluster has and the document no longer lists, and what their removal would lose.
func (c *Observer) observeSurplus(ctx context.Context, client *kube.Client, o *Observed) error {
	installed, err := client.Addons(ctx)
	if err != nil {
		return err
	}
	for _, name := range installed {
		switch {
		case name == addon.NameBindings && len(c.Doc.Spec.Identity.Bindings) == 0: // the document lists none any more
		case !slices.Contains(addon.SiteNames(), name) || c.Doc.Addon(name) != nil:
			continue
		}
		s := SurplusAddon{Name: name}
		if name == addon.NameLocalPath {
			if s.Volumes, err = kube.VolumesOf(ctx, client, addon.LocalPathProvisioner); err != nil {
				return err
			}
		}
		all, _, _, err := client.Departing(ctx, name)
		if err != nil {
			return err
		}
		if s.Stays, err = client.Occupied(ctx, all, name); err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(r objects.Ref) bool { return slices.Contains(addon.OwnDefinitions, r.Name) })
		if s.Lost, s.Defined, err = client.Lost(ctx, all); err != nil {
			return err
		}
		o.Surplus = append(o.Surplus, s)
	}
	return nil
}

// SurplusAddon is an addon that the document no longer lists.
type SurplusAddon struct {
	Name    string
	Volumes []string // PersistentVolumes whose data stays, but that nothing deletes or mounts any more: "shop/data (pvc-1f…)"
	Lost    []string // PersistentVolumeClaims that are deleted with it
	Defined []string // definitions with objects of other owners, which are deleted with them
	Stays   []string // namespaces with objects of others: "Namespace cert-manager has Secret ca"
}
