package v1alpha1

// Provider says where machines come from: exactly one of its fields is set.
type Provider struct {
	// Machines are system containers on this Linux host.
	Local *Local `json:"local,omitempty" yaml:"local,omitempty"`
	// Machines exist already and are given by address.
	Hosts *Hosts `json:"hosts,omitempty" yaml:"hosts,omitempty"`
	// Machines are servers of an OpenStack cloud.
	OpenStack *OpenStack `json:"openstack,omitempty" yaml:"openstack,omitempty"`
}

// The providers' names as Provider.Name returns them.
const (
	ProviderLocal     = "local"
	ProviderHosts     = "hosts"
	ProviderOpenStack = "openstack"
)

// Name returns the name of the provider that is set, or "" where none or several are.
func (p Provider) Name() string {
	if set := p.set(); len(set) == 1 {
		return set[0]
	}
	return ""
}

// set lists the names of the providers that are given.
func (p Provider) set() []string {
	var names []string
	for _, o := range []struct {
		name  string
		given bool
	}{{ProviderLocal, p.Local != nil}, {ProviderHosts, p.Hosts != nil}, {ProviderOpenStack, p.OpenStack != nil}} {
		if o.given {
			names = append(names, o.name)
		}
	}
	return names
}

// Local makes machines as system containers on this Linux host.
type Local struct {
	// Network between the machines.
	Network LocalNetwork `json:"network,omitzero" yaml:"network,omitempty"`
	// What the machines run.
	Image LocalImage `json:"image,omitzero" yaml:"image,omitempty"`
}

// LocalNetwork is the bridge that local machines are attached to.
type LocalNetwork struct {
	// Private IPv4 network, /16 to /24. Left out, a free /24 is chosen when the cluster is made.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty" jsonschema:"pattern=^([0-9.]+/[0-9]+)?$"`
}

// LocalImage is the operating system of local machines.
type LocalImage struct {
	// Debian release.
	Suite string `json:"suite,omitempty" yaml:"suite,omitempty" jsonschema:"default=bookworm,enum=bookworm"`
}

// Hosts takes machines that exist already: any Debian or Ubuntu host that is reached by SSH.
type Hosts struct {
	// File with the private SSH key that logs in to the machines. A relative path starts at the document's directory, "~/" at your home directory.
	SSHKeyFile string `json:"sshKeyFile" yaml:"sshKeyFile" jsonschema:"required"`
	// User to log in as: root, or one who may use sudo without a password.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"default=root,maxLength=32,pattern=^[a-z_][-a-z0-9_.]*$"`
	// Port of SSH.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=22,minimum=1,maximum=65535"`
	// The machines.
	Machines []HostMachine `json:"machines" yaml:"machines" jsonschema:"required,minItems=1,maxItems=1000"`
	// Accept and remember the SSH host key that a machine without hostKey shows at the first contact. Somebody between you and the machine at that moment can impersonate it.
	TrustOnFirstUse bool `json:"trustOnFirstUse,omitempty" yaml:"trustOnFirstUse,omitempty" jsonschema:"default=false"`
}

// HostMachine is one machine that exists already.
type HostMachine struct {
	// IPv4 address by which you and the other machines reach it.
	Address string `json:"address" yaml:"address" jsonschema:"required,format=ipv4"`
	// Name of the machine and its node. Left out, it is made from the cluster, the role or pool, and the machine's place in this list; name machines if you will remove some from the middle.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
	// What the machine is for.
	Role string `json:"role" yaml:"role" jsonschema:"required,enum=control-plane,enum=worker,enum=gateway"`
	// Pool of a worker. Left out, it is the only pool, or "general" where spec.workers lists none.
	Pool string `json:"pool,omitempty" yaml:"pool,omitempty" jsonschema:"maxLength=40,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
	// SSH host key of the machine as in /etc/ssh/ssh_host_ed25519_key.pub. Needed unless trustOnFirstUse is set.
	HostKey string `json:"hostKey,omitempty" yaml:"hostKey,omitempty"`
}
