package v1alpha1

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/naupegos/naupegos/api/strict"
)

// Provider says where machines come from: exactly one of its fields is set.
type Provider struct {
	// Machines are system containers on this Linux host.
	Local *Local `json:"local,omitempty" yaml:"local,omitempty"`
	// Machines exist already and are given by address.
	Hosts *Hosts `json:"hosts,omitempty" yaml:"hosts,omitempty"`
	// Machines are servers of an OpenStack cloud.
	OpenStack *OpenStack `json:"openstack,omitempty" yaml:"openstack,omitempty"`
	// Machines are physical ones that naupegos server has in stock.
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

// Name returns the name of the provider that is set, or "" if none or several are.
func (p Provider) Name() string {
	if set := p.Chosen(); len(set) == 1 {
		return set[0]
	}
	return ""
}

// Chosen lists the names of the providers that are set.
func (p Provider) Chosen() []string {
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

// Local creates machines as system containers on this Linux host.
type Local struct {
	// Network between the machines.
	Network LocalNetwork `json:"network,omitzero" yaml:"network,omitempty"`
	// Operating system of the machines.
	Image LocalImage `json:"image,omitzero" yaml:"image,omitempty"`
}

// LocalNetwork is the bridge that local machines are attached to.
type LocalNetwork struct {
	// Private IPv4 network, /16 to /24. Left out: a free /24 is chosen when the cluster is created.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty" jsonschema:"pattern=^([0-9.]+/[0-9]+)?$"`
}

// LocalImage is the operating system of local machines.
type LocalImage struct {
	// Debian release.
	Suite string `json:"suite,omitempty" yaml:"suite,omitempty" jsonschema:"default=bookworm,enum=bookworm"`
}

// Hosts uses existing machines: any Debian or Ubuntu host that can be reached by SSH.
type Hosts struct {
	// File with the private SSH key for logging in to the machines. A relative path starts at the working directory, "~/" at your home directory. Required, unless credential, sshAgent or sshConfig names keys.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is such a key, instead of sshKeyFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
	// Offer the keys of the SSH agent at SSH_AUTH_SOCK, or at IdentityAgent of sshConfig, after the key in sshKeyFile.
	SSHAgent bool `json:"sshAgent,omitempty" yaml:"sshAgent,omitempty" jsonschema:"default=false" host:"session"`
	// OpenSSH client configuration ("~/.ssh/config") with HostName, Port, User, IdentityFile, CertificateFile, IdentityAgent, ProxyJump, HostKeyAlias and UserKnownHostsFile of machines. Naupegos looks up each machine by its sshAddress, name and address. Fields of a machine take precedence over the configuration, and the configuration over fields for all machines.
	SSHConfig string `json:"sshConfig,omitempty" yaml:"sshConfig,omitempty" host:"file"`
	// Password that sudo asks for on the machines. Left out: sudo must not ask for one.
	SudoPassword *PasswordSource `json:"sudoPassword,omitempty" yaml:"sudoPassword,omitempty"`
	// Jump hosts on the way to all machines, in order: you connect to the first one, and the last one connects to the machines. Left out: Naupegos reaches machines through the gateways, if there are any.
	Bastions []Bastion `json:"bastions,omitempty" yaml:"bastions,omitempty" jsonschema:"maxItems=8"`
	// User to log in as: root, or a user who may use sudo.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"default=root,maxLength=64"`
	// SSH port.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=22,minimum=1,maximum=65535" host:"none"`
	// The machines.
	Machines []HostMachine `json:"machines" yaml:"machines" jsonschema:"required,minItems=1,maxItems=1000"`
	// Accept and remember the SSH host key that a machine without hostKey presents at the first contact. An attacker between you and the machine at that moment can impersonate it.
	TrustOnFirstUse bool `json:"trustOnFirstUse,omitempty" yaml:"trustOnFirstUse,omitempty" jsonschema:"default=false"`
}

// PasswordSource says where a password comes from. The document never contains the password itself. Set exactly one field. Servers accept none of
// them.
type PasswordSource struct {
	// File that contains only the password, and that only you can read.
	File string `json:"file,omitempty" yaml:"file,omitempty" host:"file"`
	// Environment variable that holds the password.
	Env string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"maxLength=128,pattern=^([A-Za-z_][A-Za-z0-9_]*)?$" host:"session"`
	// Ask for it on the terminal, once per command.
	Prompt bool `json:"prompt,omitempty" yaml:"prompt,omitempty" jsonschema:"default=false" host:"session"`
}

// Bastion is a jump host.
type Bastion struct {
	// IP address or DNS name, or a Host of sshConfig.
	Address string `json:"address" yaml:"address" jsonschema:"required,maxLength=253" host:"address"`
	// User to log in as. Left out: the user in sshConfig, else the machines' user.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=64"`
	// SSH port. Left out: the port in sshConfig, else 22.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// File with the private SSH key for logging in to it. Left out: the key in sshConfig, else the machines' key.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// SSH host key, as in /etc/ssh/ssh_host_ed25519_key.pub. Required unless trustOnFirstUse or sshConfig is set.
	HostKey string `json:"hostKey,omitempty" yaml:"hostKey,omitempty" host:"none"`
}

// HostMachine is one existing machine.
type HostMachine struct {
	// IPv4 address at which the other machines reach it and, without sshAddress, you do.
	Address string `json:"address" yaml:"address" jsonschema:"required,format=ipv4" host:"address"`
	// IP address or DNS name at which you reach it by SSH, or a Host of sshConfig, if that differs from address.
	SSHAddress string `json:"sshAddress,omitempty" yaml:"sshAddress,omitempty" jsonschema:"maxLength=253" host:"address"`
	// User to log in as. Left out: the user in sshConfig, else the user for all machines.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=64"`
	// SSH port. Left out: the port in sshConfig, else the port for all machines.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// File with the private SSH key for logging in. Left out: the key in sshConfig, else the key for all machines.
	SSHKeyFile string `json:"sshKeyFile,omitempty" yaml:"sshKeyFile,omitempty" host:"file"`
	// Password that sudo asks for, if it differs from the other machines'.
	SudoPassword *PasswordSource `json:"sudoPassword,omitempty" yaml:"sudoPassword,omitempty"`
	// Name of the machine and its node: a host name, with or without its domain. Left out: the name is derived from the cluster, the role or pool, and the machine's place in this list; name machines if you will remove some from the middle.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"`
	// Role of the machine.
	Role string `json:"role" yaml:"role" jsonschema:"required,enum=control-plane,enum=worker,enum=gateway"`
	// Pool of a worker. Left out: the only pool, or "general" if spec.workers lists none.
	Pool string `json:"pool,omitempty" yaml:"pool,omitempty" jsonschema:"maxLength=40,pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"`
	// SSH host key of the machine, as in /etc/ssh/ssh_host_ed25519_key.pub. Required unless trustOnFirstUse or sshConfig is set.
	HostKey string `json:"hostKey,omitempty" yaml:"hostKey,omitempty" host:"none"`
}

// Metal takes machines from the stock of naupegos server: physical machines that it has discovered and that an administrator has approved.
type Metal struct {
	// Label whose values name the failure domains of machines, such as racks or rooms. The machines of a role or pool are spread over them. Machines without the label are told apart by the switch to which they are connected.
	Spread string `json:"spread,omitempty" yaml:"spread,omitempty" jsonschema:"maxLength=253"`
	// ID of the system image with which machines are installed. Left out: the most recently made image for the Kubernetes release (naupegos image system).
	System string `json:"system,omitempty" yaml:"system,omitempty" jsonschema:"maxLength=128,pattern=^([a-z0-9]([-a-z0-9:.]*[a-z0-9])?)?$"`
	// Time limit from ordering the installation of a machine until the installed system answers. If its power can't be controlled remotely, an operator has to power it on within this time.
	InstallTimeout Duration `json:"installTimeout,omitzero" yaml:"installTimeout,omitempty" jsonschema:"default=45m"`
	// Which machines roles and pools take. A role or pool that is not listed takes any machine.
	Pools []MetalPool `json:"pools,omitempty" yaml:"pools,omitempty" jsonschema:"maxItems=102"`
}

// MetalPool says which machines of the stock a role or pool takes, and how they are installed.
type MetalPool struct {
	// Name of a pool in spec.workers, or "control-plane" or "gateway".
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Labels that machines must have.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// Facts that machines must report about themselves: uuid, mac, manufacturer, product, serial or chassis (the neighbouring switch), each with a pattern: "Dell*".
	Facts map[string]string `json:"facts,omitempty" yaml:"facts,omitempty"`
	// Minimum number of CPUs.
	MinCPUs int `json:"minCPUs,omitempty" yaml:"minCPUs,omitempty" jsonschema:"minimum=1,maximum=4096"`
	// Minimum memory, in GiB.
	MinMemoryGiB int `json:"minMemoryGiB,omitempty" yaml:"minMemoryGiB,omitempty" jsonschema:"minimum=1,maximum=65536"`
	// Take only these machines, given by name, MAC address or UUID.
	Machines []string `json:"machines,omitempty" yaml:"machines,omitempty" jsonschema:"maxItems=1000"`
	// Disk on which the system is installed.
	Disk MetalDisk `json:"disk,omitzero" yaml:"disk,omitempty"`
	// How machines switch to another system in naupegos update: reboot, kexec, poweroff (an operator powers them on again), live, or none (they keep the system with which they were installed).
	Strategy string `json:"strategy,omitempty" yaml:"strategy,omitempty" jsonschema:"default=reboot,enum=none,enum=live,enum=kexec,enum=reboot,enum=poweroff"`
}

// MetalDisk chooses the system disk. By default it is the smallest disk that fits and contains nothing that the machine's owner may miss.
type MetalDisk struct {
	// Serial number of the disk.
	Serial string `json:"serial,omitempty" yaml:"serial,omitempty" jsonschema:"maxLength=256"`
	// Minimum size, in GiB.
	MinGiB int `json:"minGiB,omitempty" yaml:"minGiB,omitempty" jsonschema:"default=20,minimum=8,maximum=1048576"`
	// Serial numbers of disks that are never touched.
	Data []string `json:"data,omitempty" yaml:"data,omitempty" jsonschema:"maxItems=1000"`
	// Serial numbers of disks that may be overwritten although they contain data.
	Overwrite []string `json:"overwrite,omitempty" yaml:"overwrite,omitempty" jsonschema:"maxItems=1000"`
}

// Names in spec.provider.metal.pools for machines that are in no pool.
const (
	MetalControlPlane = RoleControlPlane
	MetalGateway      = RoleGateway
)

// Pool returns the settings of the machines of a role or pool, or defaults if there are none.
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

// MetalPoolName returns the name of a role's or pool's machines in spec.provider.metal.pools and in the stock.
func MetalPoolName(role, pool string) string {
	if role == RoleWorker {
		return pool
	}
	return role
}

// JSONSchemaExtend requires exactly one provider.
func (Provider) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, name := range Providers() {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{name}})
	}
}

// MetalFacts lists the facts of machines that pools can select by.
func MetalFacts() []string {
	return []string{"chassis", "mac", "manufacturer", "product", "serial", "uuid"}
}

// PortOf returns the SSH port for an address, given the path of the address field as in errors.
func (h *Hosts) PortOf(field string) int {
	for i, b := range h.Bastions {
		if strings.HasPrefix(field, strict.Item("spec.provider.hosts.bastions", i)+".") {
			return cmp.Or(b.Port, 22)
		}
	}
	for i, m := range h.Machines {
		if strings.HasPrefix(field, strict.Item("spec.provider.hosts.machines", i)+".") {
			return cmp.Or(m.Port, h.Port)
		}
	}
	return h.Port
}
