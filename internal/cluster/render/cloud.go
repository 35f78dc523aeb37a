package render

import (
	"context"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// CloudCAFile is the file of the cloud's certificate authorities on machines.
const CloudCAFile = addon.AuthoritiesDir + "/cloud-ca.crt"

// Cloud returns the provider if its cloud integrates with Kubernetes, else nil.
func (c *Renderer) Cloud() provider.CloudIntegration {
	p, _ := c.Prov.(provider.CloudIntegration)
	return p
}

// cloudInstance returns what the cloud knows about a machine; zero outside of a cloud.
func cloudInstance(m provider.Machine) layout.CloudInstance {
	if m.ID == "" {
		return layout.CloudInstance{}
	}
	return layout.CloudInstance{ProviderID: "openstack:///" + m.ID, Zone: m.Zone}
}

// cloudFiles returns the files with which control-plane machines reach the cloud.
func (c *Renderer) cloudFiles(s wanted.Slot) ([]machine.File, error) {
	ca, err := c.CloudCA(context.Background())
	if err != nil || len(ca) == 0 || !s.IsControlPlane() {
		return nil, err
	}
	return []machine.File{{Path: CloudCAFile, Mode: 0o644, Content: ca}}, nil
}

// CloudCA returns the authorities that sign the cloud's certificate, as PEM; empty if the system's do.
func (c *Renderer) CloudCA(context.Context) ([]byte, error) {
	if cloud := c.Cloud(); cloud != nil {
		ca, err := cloud.CACert()
		return []byte(ca), err
	}
	return nil, nil
}
