package layout

import (
	"encoding/json"
	"path"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release/flags"
)

// CloudInstancePath is a file that identifies a machine's server in its cloud. It contains the fields of the metadata service's JSON that the Cinder
// CSI driver of our bundles reads. With it, the driver needs neither metadata service nor config drive.
const CloudInstancePath = "/etc/naupegos/instance.json"

// CloudInstance identifies a machine in its cloud.
type CloudInstance struct {
	ProviderID string // "openstack:///UUID": the node's spec.providerID
	Zone       string // availability zone
}

// knowsInstance reports whether the cluster has an external cloud and the machine's server there is known.
func knowsInstance(p Params, n Node) bool { return p.ExternalCloud && n.Cloud.ProviderID != "" }

// addInstance adds the file CloudInstancePath if the machine's server is known.
func addInstance(p Params, c *machine.Config, n Node) error {
	if !knowsInstance(p, n) {
		return nil
	}
	data, err := json.MarshalIndent(struct {
		UUID string `json:"uuid"`
		Name string `json:"name"`
		Zone string `json:"availability_zone"`
	}{path.Base(n.Cloud.ProviderID), n.Name, n.Cloud.Zone}, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "say which server the machine is").At(n.Name)
	}
	c.Files = append(c.Files, text(CloudInstancePath, string(data)+"\n"))
	return nil
}

// kubeletExtraArgs returns the extra arguments of n's kubelet for kubeadm's configuration, sorted by name as kubeadm writes them.
func kubeletExtraArgs(p Params, n Node) []arg {
	args := []arg{{Name: "node-ip", Value: n.Address}}
	if p.ExternalCloud {
		args = append([]arg{{Name: "cloud-provider", Value: "external"}}, args...)
	}
	if knowsInstance(p, n) {
		args = append(args, arg{Name: "provider-id", Value: n.Cloud.ProviderID})
	}
	return p.Settings.kubelet(n).extend(args, flags.Kubelet, tables(p.of(n).Version))
}
