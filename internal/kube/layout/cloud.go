package layout

import (
	"encoding/json"
	"path"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// CloudInstancePath is where a machine of a cloud says which server it is: JSON as the cloud's metadata service answers it, as far
// as the Cinder CSI driver of our bundles reads it. The driver then needs neither metadata service nor config drive.
const CloudInstancePath = "/etc/naupegos/instance.json"

// CloudInstance is what a machine is in a cloud.
type CloudInstance struct {
	ProviderID string // "openstack:///UUID": the node's spec.providerID
	Zone       string // availability zone
}

// knowsInstance reports whether a machine can be told which server of the cloud it is.
func (p Params) knowsInstance(n Node) bool { return p.ExternalCloud && n.Cloud.ProviderID != "" }

// addInstance writes down which server the machine is, where that is known.
func (p Params) addInstance(c *machine.Config, n Node) error {
	if !p.knowsInstance(n) {
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

// kubeletExtraArgs are those that kubeadm shall give n's kubelet, sorted by name as kubeadm writes them.
func (p Params) kubeletExtraArgs(n Node) []arg {
	args := []arg{{Name: "node-ip", Value: n.Address}}
	if p.ExternalCloud {
		args = append([]arg{{Name: "cloud-provider", Value: "external"}}, args...)
	}
	if p.knowsInstance(n) {
		args = append(args, arg{Name: "provider-id", Value: n.Cloud.ProviderID})
	}
	return args
}
