package render

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/imageserver"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/inside"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

// ImageServers names the machines that serve images; none if the cluster has no registry inside.
func (c *Renderer) ImageServers() []string {
	if c.Doc.Spec.Registry == nil {
		return nil
	}
	names := c.NamesOf(provider.ControlPlane)
	return names[:min(c.Doc.Spec.Registry.Replicas, len(names))]
}

// insideRegistry returns how a machine reaches the registry inside the cluster; nil if the cluster has none. If the machine serves it, insideRegistry
// adds the server to conf.
func (c *Renderer) insideRegistry(ctx context.Context, s wanted.Slot, conf *machine.Config) (*site.Inside, error) {
	servers := c.ImageServers()
	if len(servers) == 0 {
		return nil, nil
	}
	in := &site.Inside{CA: inside.AuthorityPath, Client: layout.KubeletClientPath(c.Vault != nil)}
	for _, name := range servers {
		address, err := c.Address(ctx, name)
		if err != nil {
			return nil, err
		}
		in.URLs = append(in.URLs, "https://"+net.JoinHostPort(address, strconv.Itoa(v1alpha1.RegistryPort)))
	}
	if !slices.Contains(servers, s.Name) {
		return in, nil
	}
	layer, err := c.registryServer(ctx, s)
	if err != nil {
		return nil, err
	}
	conf.Files, conf.Units, conf.Binaries = append(conf.Files, layer.Files...), append(conf.Units, layer.Units...), append(conf.Binaries, layer.Binaries...)
	return in, nil
}

// registryServer renders the server of a control-plane machine.
func (c *Renderer) registryServer(ctx context.Context, s wanted.Slot) (machine.Config, error) {
	address, err := c.Address(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	cert, err := c.PKI.Leaf(ctx, pki.LeafSpec{Name: s.Name + "/registry", Authority: pki.KubernetesCA, CommonName: "naupegos:registry", DNSNames: []string{s.Name},
		IPs: []net.IP{net.ParseIP(address)}, Server: true})
	if err != nil {
		return machine.Config{}, err
	}
	chain, err := c.PKI.CrossChain(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	p := inside.Params{Agent: c.Agent.RemotePath(), Listen: net.JoinHostPort(address, strconv.Itoa(v1alpha1.RegistryPort)), Cert: append(cert.CertPEM, chain...), Key: cert.KeyPEM}
	for _, i := range c.Current.Images(string(provider.ControlPlane)) {
		name, tag, _ := strings.Cut(i.Ref, ":")
		p.Images = append(p.Images, imageserver.Image{Name: name, Tag: tag, Digest: i.ID})
	}
	sets, err := c.ImageSets(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	for _, set := range sets {
		for _, a := range set.Artifacts() {
			p.Blobs = append(p.Blobs, inside.Blob{Digest: a.Digest, Size: a.Size})
		}
		for _, i := range set.Images {
			files := map[string]string{}
			for _, b := range i.Blobs {
				files[b.Digest] = b.MediaType
			}
			p.Images = append(p.Images, imageserver.Image{Name: i.Name, Tag: i.Tag, Digest: i.Digest, Files: files})
		}
	}
	return inside.Config(p)
}

// ImageSets returns the sets of images that the document names. The store keeps a copy of each, so that a machine whose library lacks a set still knows
// what the cluster serves.
func (c *Renderer) ImageSets(ctx context.Context) ([]bundle.Set, error) {
	names, optional := c.Doc.Spec.Registry.Sets, false
	if len(names) == 0 {
		names, optional = []string{v1alpha1.DefaultImageSet}, true
	}
	var out []bundle.Set
	for _, name := range names {
		set, err := c.imageSet(ctx, name)
		if optional && fail.KindOf(err) == fail.NotFound {
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

func (c *Renderer) imageSet(ctx context.Context, name string) (bundle.Set, error) {
	secret := "images-" + name
	kept, err := c.Secrets.Get(ctx, secret)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return bundle.Set{}, err
	}
	found, missing := c.Current.Set(name)
	switch {
	case fail.KindOf(missing) == fail.NotFound && len(kept) > 0:
		set, err := bundle.ParseSet(kept)
		if err != nil {
			return set, fail.Wrap(fail.Internal, err, "read the record of the set of images %s", name)
		}
		return set, nil
	case missing != nil:
		return bundle.Set{}, missing
	}
	data, err := found.Encode()
	if err != nil {
		return found.Set, err
	}
	if !bytes.Equal(data, kept) {
		return found.Set, c.Secrets.Put(ctx, secret, data)
	}
	return found.Set, nil
}
