package cluster

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/handover"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// HandoverOptions says what a hand-over holds beyond what every cluster has.
type HandoverOptions struct {
	// CloudsYAML returns a clouds.yaml with a credential of its own, which ends then; nil, or fail.NotFound from it, where there is no cloud.
	CloudsYAML func(ctx context.Context, until time.Time) ([]byte, error)
	// CloudCA returns the authorities that sign the cloud's certificate, as PEM; nil, or nothing from it, where the system's do.
	CloudCA func(ctx context.Context) ([]byte, error)
	Now     time.Time // for the README
	Release bool      // Naupegos forgets the cluster: its authorities and document are handed over, too
}

// Handover returns what somebody needs who takes the cluster over, as files by their slash-separated names. Most hold secrets.
// fail.Refused where the cluster never came up.
func (c *Cluster) Handover(ctx context.Context, o HandoverOptions) (map[string][]byte, error) {
	if !c.facts.Bootstrapped() {
		return nil, fail.New(fail.Refused, "cluster %s has not come up yet: there is nothing to hand over", c.Name()).Do("naupegos apply first")
	}
	files := map[string][]byte{}
	var err error
	if files[handover.KubeconfigFile], err = c.Kubeconfig(ctx); err != nil {
		return nil, err
	}
	if err := c.handOverSSH(ctx, files); err != nil {
		return nil, err
	}
	clients, err := c.WireGuardClients(ctx)
	if err != nil {
		return nil, err
	}
	for name, data := range clients {
		files[path.Join(handover.WireGuardDir, name)] = data
	}
	certs, err := c.Certificates(ctx)
	if err != nil {
		return nil, err
	}
	expiries := handover.Expiries(certs)
	if err := o.cloud(ctx, files, handover.UsedUntil(expiries)); err != nil {
		return nil, err
	}
	if o.Release {
		files[handover.DocumentFile] = c.rec.Document
		if err := c.addPKI(ctx, files); err != nil {
			return nil, err
		}
	}
	files[handover.ReadmeFile], err = c.handoverText(ctx, files, expiries, o)
	return files, err
}

// cloud adds a credential of the cluster's cloud that ends with the kubeconfig, where there is a cloud.
func (o HandoverOptions) cloud(ctx context.Context, files map[string][]byte, until time.Time) error {
	add := func(name string, data []byte, err error) error {
		if err == nil && len(data) > 0 {
			files[name] = data
		}
		if fail.KindOf(err) == fail.NotFound {
			return nil
		}
		return err
	}
	if o.CloudCA != nil {
		data, err := o.CloudCA(ctx)
		if err := add(handover.CloudCAFile, data, err); err != nil {
			return err
		}
	}
	if o.CloudsYAML == nil {
		return nil
	}
	data, err := o.CloudsYAML(ctx, until) // last: the credential is made by then
	return add(handover.CloudsFile, data, err)
}

// handOverSSH adds ssh's configuration, with paths that hold wherever the directory is moved to, and the cluster's key. Hosts
// given by address are logged in to with a key of the user's, which is not ours to hand on.
func (c *Cluster) handOverSSH(ctx context.Context, files map[string][]byte) error {
	hs, err := c.hosts(ctx)
	if err != nil {
		return err
	}
	files[handover.SSHConfigFile] = remote.SSHConfig(hs, handover.KeyFile, handover.KnownHostsFile)
	files[handover.KnownHostsFile] = remote.KnownHosts(hs)
	if c.prov.Traits().Given {
		return nil
	}
	if files[handover.KeyFile], err = c.pki.SSHKey(ctx); err != nil {
		return err
	}
	files[handover.KeyFile+".pub"] = []byte(strings.TrimSpace(c.publicKeys[0]) + "\n")
	return nil
}

func (c *Cluster) handoverText(ctx context.Context, files map[string][]byte, expiries []handover.Expiry, o HandoverOptions) ([]byte, error) {
	v := handover.Readme{
		Name: c.Name(), ID: c.rec.ID, Provider: c.doc.Spec.Provider.Name(), Kubernetes: c.doc.Spec.Kubernetes.Version, Made: o.Now,
		Expiries: expiries, Released: o.Release,
	}
	var err error
	if v.Endpoint, err = c.publicEndpoint(ctx); err != nil {
		return nil, err
	}
	if v.Machines, err = c.addresses(ctx); err != nil {
		return nil, err
	}
	if names := c.namesOf(provider.ControlPlane); len(names) > 0 {
		v.Example = names[0]
	}
	if w := c.doc.Spec.Access.WireGuard; w != nil {
		for _, p := range w.Peers {
			if p.PublicKey != "" {
				v.OwnKeys = append(v.OwnKeys, p.Name)
			}
		}
	}
	return v.Render(files)
}

// addPKI adds the authorities and keys that a cluster is, in kubeadm's names.
func (c *Cluster) addPKI(ctx context.Context, files map[string][]byte) error {
	for name, base := range map[string]string{pki.KubernetesCA: "ca", pki.FrontProxyCA: "front-proxy-ca", pki.EtcdCA: "etcd/ca"} {
		pair, err := c.pki.Authority(ctx, name)
		if err != nil {
			return err
		}
		files[path.Join(handover.PKIDir, base+".crt")], files[path.Join(handover.PKIDir, base+".key")] = pair.CertPEM, pair.KeyPEM
	}
	signing, public, err := c.pki.ServiceAccountKey(ctx)
	files[path.Join(handover.PKIDir, "sa.key")], files[path.Join(handover.PKIDir, "sa.pub")] = signing, public
	return err
}
