package layout

import (
	"context"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

// The roles as the bundle's images name them.
const (
	roleControlPlane = "control-plane"
	roleWorker       = "worker"
)

// ControlPlane renders the complete configuration of a control-plane machine, as kubeadm would leave it. The same input gives the same output as long
// as no certificate is due for renewal.
func (p Params) ControlPlane(ctx context.Context, k *pki.PKI, n Node, etcd EtcdStart) (machine.Config, error) {
	n.Taints = controlPlaneTaints(n)
	return p.merge(n,
		func() (machine.Config, error) { return p.Runtime(n, roleControlPlane) },
		func() (machine.Config, error) { return p.etcdLayer(ctx, k, n, etcd) },
		func() (machine.Config, error) { return p.controlPlaneLayer(ctx, k, n, etcd) },
		func() (machine.Config, error) {
			return p.kubeletLayer(ctx, k, n, "https://"+hostPort(n.Address, APIServerPort))
		},
		func() (machine.Config, error) { return p.approverLayer(ctx, k, n) },
	)
}

// Worker renders the complete configuration of a worker machine.
func (p Params) Worker(ctx context.Context, k *pki.PKI, n Node) (machine.Config, error) {
	return p.merge(n,
		func() (machine.Config, error) { return p.Runtime(n, roleWorker) },
		func() (machine.Config, error) { return p.kubeletLayer(ctx, k, n, "https://"+p.Endpoint) },
	)
}

// merge checks p and the machine's release, renders the layers and merges them into one configuration.
func (p Params) merge(n Node, layers ...func() (machine.Config, error)) (machine.Config, error) {
	if err := p.Check(); err != nil {
		return machine.Config{}, err
	}
	if _, err := p.of(n).wants(); err != nil {
		return machine.Config{}, err
	}
	configs := []machine.Config{{Machine: n.Name}}
	for _, layer := range layers {
		c, err := layer()
		if err != nil {
			return machine.Config{}, err
		}
		configs = append(configs, c)
	}
	return machine.Merge(configs...)
}

func text(path, content string) machine.File {
	return machine.File{Path: path, Mode: 0o644, Content: []byte(content)}
}

func private(path string, content []byte) machine.File {
	return machine.File{Path: path, Mode: 0o600, Content: content, Secret: true}
}
