package v1alpha1

import "reflect"

// Provider says where machines come from: exactly one of its fields is set.
type Provider struct {
	// Machines are system containers on this Linux host.
	Local *Local `json:"local,omitempty" yaml:"local,omitempty"`
	// Machines exist already and are given by address.
	Hosts *Hosts `json:"hosts,omitempty" yaml:"hosts,omitempty"`
	// Machines are servers of an OpenStack cloud.
	OpenStack *OpenStack `json:"openstack,omitempty" yaml:"openstack,omitempty"`
	// Machines are physical ones that naupegos server knows.
	Metal *Metal `json:"metal,omitempty" yaml:"metal,omitempty"`
}

// The providers' names as Provider.Name returns them.
const (
	ProviderLocal     = "local"
	ProviderHosts     = "hosts"
	ProviderOpenStack = "openstack"
	ProviderMetal     = "metal"
)

// Providers lists the providers' names.
func Providers() []string {
	return []string{ProviderLocal, ProviderHosts, ProviderOpenStack, ProviderMetal}
}

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
	}{{ProviderLocal, p.Local != nil}, {ProviderHosts, p.Hosts != nil}, {ProviderOpenStack, p.OpenStack != nil}, {ProviderMetal, p.Metal != nil}} {
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
	// File with the private SSH key that logs in to the machines. A relative path starts at the working directory, "~/" at your home directory. Required, unless credential, sshAgent or sshConfig names keys.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is such a key, in place of sshKeyFile. A server takes nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
	// Offer the keys of the SSH agent that SSH_AUTH_SOCK names, after that of sshKeyFile.
	SSHAgent bool `json:"sshAgent,omitempty" yaml:"sshAgent,omitempty" jsonschema:"default=false" host:"session"`
	// OpenSSH client configuration ("~/.ssh/config") with HostName, Port, User, IdentityFile, ProxyJump, HostKeyAlias and UserKnownHostsFile of machines. Naupegos looks each machine up by its sshAddress, name and address. Fields of a machine win over the configuration, and the configuration wins over fields of all machines.
	SSHConfig string `json:"sshConfig,omitempty" yaml:"sshConfig,omitempty" host:"file"`
	// Password that sudo asks for on the machines. Left out, sudo must ask for none.
	SudoPassword *PasswordSource `json:"sudoPassword,omitempty" yaml:"sudoPassword,omitempty"`
	// Jump hosts on the way to all machines, in their order: you reach the first, the last reaches the machines. Left out, Naupegos reaches machines through the gateways, if there are any.
	Bastions []Bastion `json:"bastions,omitempty" yaml:"bastions,omitempty" jsonschema:"maxItems=8"`
	// User to log in as: root, or one who may use sudo.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"default=root,maxLength=64"`
	// Port of SSH.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=22,minimum=1,maximum=65535" host:"none"`
	// The machines.
	Machines []HostMachine `json:"machines" yaml:"machines" jsonschema:"required,minItems=1,maxItems=1000"`
	// Accept and remember the SSH host key that a machine without hostKey shows at the first contact. Somebody between you and the machine at that moment can impersonate it.
	TrustOnFirstUse bool `json:"trustOnFirstUse,omitempty" yaml:"trustOnFirstUse,omitempty" jsonschema:"default=false"`
}

// PasswordSource names where a password comes from. The document never holds the password itself. Set exactly one field. Servers allow none of them.
type PasswordSource struct {
	// File that holds nothing but the password, and that only you can read.
	File string `json:"file,omitempty" yaml:"file,omitempty" host:"file"`
	// Environment variable of the command that holds the password.
	Env string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"maxLength=128,pattern=^([A-Za-z_][A-Za-z0-9_]*)?$" host:"session"`
	// Ask for it on the terminal, once per command.
	Prompt bool `json:"prompt,omitempty" yaml:"prompt,omitempty" jsonschema:"default=false" host:"session"`
}

// Bastion is a jump host.
type Bastion struct {
	// IP address or DNS name, or a Host of sshConfig.
	Address string `json:"address" yaml:"address" jsonschema:"required,maxLength=253" host:"address"`
	// User to log in as. Left out, that of sshConfig, else that of the machines.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=64"`
	// Port of SSH. Left out, that of sshConfig, else 22.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// File with the private SSH key that logs in to it. Left out, that of sshConfig, else that of the machines.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// SSH host key as in /etc/ssh/ssh_host_ed25519_key.pub. Needed unless trustOnFirstUse or sshConfig is set.
	HostKey string `json:"hostKey,omitempty" yaml:"hostKey,omitempty" host:"none"`
}

// HostMachine is one machine that exists already.
type HostMachine struct {
	// IPv4 address by which the other machines reach it and, without sshAddress, you do.
	Address string `json:"address" yaml:"address" jsonschema:"required,format=ipv4" host:"address"`
	// IP address or DNS name by which you reach it by SSH, or a Host of sshConfig, where that differs from address.
	SSHAddress string `json:"sshAddress,omitempty" yaml:"sshAddress,omitempty" jsonschema:"maxLength=253" host:"address"`
	// User to log in as. Left out, that of sshConfig, else that of all machines.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=64"`
	// Port of SSH. Left out, that of sshConfig, else that of all machines.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// File with the private SSH key that logs in. Left out, that of sshConfig, else that of all machines.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// Password that sudo asks for, if it differs from the other machines'.
	SudoPassword *PasswordSource `json:"sudoPassword,omitempty" yaml:"sudoPassword,omitempty"`
	// Name of the machine and its node: a host name, short or with its domain. Left out, it is made from the cluster, the role or pool, and the machine's place in this list; name machines if you will remove some from the middle.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"`
	// What the machine is for.
	Role string `json:"role" yaml:"role" jsonschema:"required,enum=control-plane,enum=worker,enum=gateway"`
	// Pool of a worker. Left out, it is the only pool, or "general" where spec.workers lists none.
	Pool string `json:"pool,omitempty" yaml:"pool,omitempty" jsonschema:"maxLength=40,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
	// SSH host key of the machine as in /etc/ssh/ssh_host_ed25519_key.pub. Needed unless trustOnFirstUse or sshConfig is set.
	HostKey string `json:"hostKey,omitempty" yaml:"hostKey,omitempty" host:"none"`
}

// Metal takes machines out of the stock of naupegos server: physical ones that it has discovered and somebody has approved.
type Metal struct {
	// Label of machines whose values name what fails as one: racks, rooms. The machines of a role or pool are spread over them. Machines without it are told apart by the switch that they are connected to.
	Spread string `json:"spread,omitempty" yaml:"spread,omitempty" jsonschema:"maxLength=253"`
	// ID of the system image that machines are installed with. Left out: the one of the Kubernetes release that was made last (naupegos image system).
	System string `json:"system,omitempty" yaml:"system,omitempty" jsonschema:"maxLength=128,pattern=^([a-z0-9]([-a-z0-9:.]*[a-z0-9])?)?$"`
	// From ordering the installation of a machine until the installed system answers. If its power can't be controlled from here, somebody has to power on the machine meanwhile.
	InstallTimeout Duration `json:"installTimeout,omitzero" yaml:"installTimeout,omitempty" jsonschema:"default=45m"`
	// Which machines roles and pools take. A role or pool that is not listed takes any.
	Pools []MetalPool `json:"pools,omitempty" yaml:"pools,omitempty" jsonschema:"maxItems=102"`
}

// MetalPool says which machines of the stock a role or pool takes, and how they are installed.
type MetalPool struct {
	// The pool of spec.workers that this is about, or "control-plane" or "gateway".
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Labels that machines must have.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// What machines must say of themselves: uuid, mac, manufacturer, product, serial or chassis (the switch beside it), each with a pattern: "Dell*".
	Facts map[string]string `json:"facts,omitempty" yaml:"facts,omitempty"`
	// Fewest CPUs.
	MinCPUs int `json:"minCPUs,omitempty" yaml:"minCPUs,omitempty" jsonschema:"minimum=1,maximum=4096"`
	// Least memory, in GiB.
	MinMemoryGiB int `json:"minMemoryGiB,omitempty" yaml:"minMemoryGiB,omitempty" jsonschema:"minimum=1,maximum=65536"`
	// These machines and no others, by name, MAC address or UUID.
	Machines []string `json:"machines,omitempty" yaml:"machines,omitempty" jsonschema:"maxItems=1000"`
	// Where the system goes.
	Disk MetalDisk `json:"disk,omitzero" yaml:"disk,omitempty"`
	// How machines take another system in naupegos update: reboot, kexec, poweroff (somebody powers them on again), live and none (they keep the system that they were installed with).
	Strategy string `json:"strategy,omitempty" yaml:"strategy,omitempty" jsonschema:"default=reboot,enum=none,enum=live,enum=kexec,enum=reboot,enum=poweroff"`
}

// MetalDisk chooses the system disk. By itself it is the smallest that fits and has nothing on it that the machine's owner may miss.
type MetalDisk struct {
	// Serial number of the disk.
	Serial string `json:"serial,omitempty" yaml:"serial,omitempty" jsonschema:"maxLength=256"`
	// Smallest size, in GiB.
	MinGiB int `json:"minGiB,omitempty" yaml:"minGiB,omitempty" jsonschema:"default=20,minimum=8,maximum=1048576"`
	// Serial numbers of disks that are never touched.
	Data []string `json:"data,omitempty" yaml:"data,omitempty" jsonschema:"maxItems=1000"`
	// Serial numbers of disks that may be overwritten though something is on them.
	Overwrite []string `json:"overwrite,omitempty" yaml:"overwrite,omitempty" jsonschema:"maxItems=1000"`
}

// The names of what is in no pool, in spec.provider.metal.pools.
const (
	MetalControlPlane = RoleControlPlane
	MetalGateway      = RoleGateway
)

// Pool returns what is said of the machines of a role or pool; defaults where nothing is.
func (m *Metal) Pool(role, pool string) MetalPool {
	name := MetalPoolName(role, pool)
	for _, p := range m.Pools {
		if p.Name == name {
			return p
		}
	}
	p := MetalPool{Name: name}
	applyDefaults(reflect.ValueOf(&p).Elem())
	return p
}

// MetalPoolName is the name of a role's or pool's machines among spec.provider.metal.pools, and in the stock.
func MetalPoolName(role, pool string) string {
	if role == RoleWorker {
		return pool
	}
	return role
}
