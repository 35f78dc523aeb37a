package v1alpha1

// OpenStack creates machines as servers of an OpenStack cloud.
type OpenStack struct {
	// Name of the cloud in clouds.yaml. Left out: $OS_CLOUD, or the OS_* variables.
	Cloud string `json:"cloud,omitempty" yaml:"cloud,omitempty" jsonschema:"maxLength=255" host:"none"`
	// Name of a credential (naupegos server credential add) whose value is a clouds.yaml. The field cloud names the cloud in it, and may be left out if it contains only one. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
	// Region. Left out: the region of the credentials.
	Region string `json:"region,omitempty" yaml:"region,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the external network that provides floating IPs and to which the router connects. Left out: the cloud's only one.
	ExternalNetwork string `json:"externalNetwork,omitempty" yaml:"externalNetwork,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the external network's subnet that provides floating IPs, also those of Services. Left out: the cloud chooses.
	FloatingSubnet string `json:"floatingSubnet,omitempty" yaml:"floatingSubnet,omitempty" jsonschema:"maxLength=255"`
	// Network of the machines: created for the cluster, or an existing one.
	Network OpenStackNetwork `json:"network,omitzero" yaml:"network,omitempty"`
	// Accept and remember the SSH host key that a machine presents at the first contact if the cloud provides no console log from which to read it. An attacker between you and the machine at that moment can impersonate it.
	TrustOnFirstUse bool `json:"trustOnFirstUse,omitempty" yaml:"trustOnFirstUse,omitempty" jsonschema:"default=false"`
	// Size, image and placement of machines. Roles and pools can override each field.
	Machine MachineShape `json:"machine,omitzero" yaml:"machine,omitempty"`
	// Tags of networks, subnets, routers, security groups, ports, floating IPs, servers and the load balancer, beside Naupegos' own, which begin with "naupegos-". Tags that others set stay.
	Tags []string `json:"tags,omitempty" yaml:"tags,omitempty" jsonschema:"maxItems=10"`
	// Metadata of servers and of their volumes, beside Naupegos' own, whose keys begin with "naupegos_". Metadata that others set stay.
	Metadata map[string]string `json:"metadata,omitempty" yaml:"metadata,omitempty"`
	// Classes of load balancers that Services can choose with the annotation loadbalancer.openstack.org/class.
	LoadBalancerClasses []LoadBalancerClass `json:"loadBalancerClasses,omitempty" yaml:"loadBalancerClasses,omitempty" jsonschema:"maxItems=50"`
	// Record of the API's name in the cloud's Designate: Naupegos creates it, moves it with the API's address, and removes it with the cluster.
	DNS *OpenStackDNS `json:"dns,omitempty" yaml:"dns,omitempty"`
}

// LoadBalancerClass says where load balancers of Services get their addresses. A field that is left out has the value for all Services.
type LoadBalancerClass struct {
	// Name of the class, in lower case.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Name or ID of the external network of the floating IPs.
	FloatingNetwork string `json:"floatingNetwork,omitempty" yaml:"floatingNetwork,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the external network's subnet that provides the floating IPs. Left out: the cloud chooses.
	FloatingSubnet string `json:"floatingSubnet,omitempty" yaml:"floatingSubnet,omitempty" jsonschema:"maxLength=255"`
	// Tags of the external network's subnets that provide the floating IPs, instead of a single subnet.
	FloatingSubnetTags []string `json:"floatingSubnetTags,omitempty" yaml:"floatingSubnetTags,omitempty" jsonschema:"maxItems=10"`
	// Name or ID of the network in which the load balancers get their own addresses, if it is not the machines'.
	Network string `json:"network,omitempty" yaml:"network,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the subnet of that network.
	Subnet string `json:"subnet,omitempty" yaml:"subnet,omitempty" jsonschema:"maxLength=255"`
}

// OpenStackNetwork is the network of the machines.
type OpenStackNetwork struct {
	// Private IPv4 network of the machines, /16 to /28. With an existing subnet, it is taken from the subnet.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty" jsonschema:"pattern=^([0-9.]+/[0-9]+)?$"`
	// Name servers of the machines. Left out: the cloud's own.
	DNSServers []string `json:"dnsServers,omitempty" yaml:"dnsServers,omitempty" jsonschema:"maxItems=5" host:"none"`
	// Name or ID of an existing network to use instead of one created for the cluster. It is never changed or removed.
	Existing string `json:"existing,omitempty" yaml:"existing,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the subnet of the existing network to use. Left out: its only IPv4 subnet.
	Subnet string `json:"subnet,omitempty" yaml:"subnet,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of an existing router to which the cluster's network is attached, instead of one created for the cluster.
	Router string `json:"router,omitempty" yaml:"router,omitempty" jsonschema:"maxLength=255"`
}

// MachineShape describes the machines of a role or pool. Only with provider openstack; with any other provider it is an error.
type MachineShape struct {
	// Name or ID of the flavor.
	Flavor string `json:"flavor,omitempty" yaml:"flavor,omitempty" jsonschema:"maxLength=255"`
	// Name or ID of the image: Debian or Ubuntu with cloud-init, or one that "naupegos image build" made.
	Image string `json:"image,omitempty" yaml:"image,omitempty" jsonschema:"maxLength=255" host:"none"`
	// Size in GiB of a root volume created from the image. 0, or left out everywhere: no root volume; the flavor's own disk is used.
	RootVolumeGiB *int `json:"rootVolumeGiB,omitempty" yaml:"rootVolumeGiB,omitempty" jsonschema:"minimum=0,maximum=16384"`
	// Type of the root volume. Left out: the cloud's default.
	RootVolumeType string `json:"rootVolumeType,omitempty" yaml:"rootVolumeType,omitempty" jsonschema:"maxLength=255"`
	// Availability zones over which the machines are spread in turn. Left out: the cloud chooses.
	Zones []string `json:"zones,omitempty" yaml:"zones,omitempty" jsonschema:"maxItems=20"`
	// Whether machines of one role or pool are kept on different hypervisors: soft (if possible), hard (a machine that can't be is not created), none. Left out everywhere: soft.
	AntiAffinity string `json:"antiAffinity,omitempty" yaml:"antiAffinity,omitempty" jsonschema:"enum=soft,enum=hard,enum=none"`
	// Give each machine a floating IP. Gateways always have one.
	FloatingIP *bool `json:"floatingIP,omitempty" yaml:"floatingIP,omitempty" host:"none"`
	// Program in the image that reads user-data: cloud-init, or ignition in a Debian or Ubuntu image that has it. Left out everywhere: cloud-init. Fedora CoreOS and Flatcar are not supported, because they have no Debian packages.
	UserData string `json:"userData,omitempty" yaml:"userData,omitempty" jsonschema:"enum=cloud-init,enum=ignition"`
	// Pass user-data on a config drive instead of through the metadata service.
	ConfigDrive *bool `json:"configDrive,omitempty" yaml:"configDrive,omitempty"`
	// Names or IDs of existing security groups of the machines' ports, beside the cluster's own. They are never changed or removed.
	SecurityGroups []string `json:"securityGroups,omitempty" yaml:"securityGroups,omitempty" jsonschema:"maxItems=20"`
	// Whether Neutron filters the traffic of the machines' ports. With false, they have no security groups, and nothing but the machines' own firewall protects them. Left out everywhere: true.
	PortSecurity *bool `json:"portSecurity,omitempty" yaml:"portSecurity,omitempty" host:"none"`
	// Further existing networks in which the machines get a port, in the order of their interfaces after the first. Not for gateways. Naupegos and Kubernetes use the first interface alone.
	Networks []MachineNetwork `json:"networks,omitempty" yaml:"networks,omitempty" jsonschema:"maxItems=10"`
	// Empty volumes of each machine, beside its root volume. They are made and removed with the machine.
	Volumes []MachineVolume `json:"volumes,omitempty" yaml:"volumes,omitempty" jsonschema:"maxItems=20"`
}

// MachineNetwork is an existing network in which machines get another port.
type MachineNetwork struct {
	// Name or ID of the network. It is never changed or removed.
	Network string `json:"network" yaml:"network" jsonschema:"required,maxLength=255"`
	// Name or ID of the subnet from which the port gets its address. Left out: Neutron chooses among the network's subnets.
	Subnet string `json:"subnet,omitempty" yaml:"subnet,omitempty" jsonschema:"maxLength=255"`
}

// MachineVolume is an empty volume that is attached to a machine. Nothing on the machine formats or mounts it.
type MachineVolume struct {
	// Name of the volume, unique within the machine.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=30,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Size in GiB. It can grow, but not shrink.
	SizeGiB int `json:"sizeGiB" yaml:"sizeGiB" jsonschema:"required,minimum=1,maximum=65536"`
	// Type of the volume. Left out: the cloud's default.
	Type string `json:"type,omitempty" yaml:"type,omitempty" jsonschema:"maxLength=255"`
}

// defaultOpenStackCIDR is the network of the machines if the document names none.
const defaultOpenStackCIDR = "10.1.0.0/24"

// Kinds of anti-affinity and of user-data.
const (
	AntiAffinitySoft  = "soft"
	AntiAffinityHard  = "hard"
	AntiAffinityNone  = "none"
	UserDataCloudInit = "cloud-init"
	UserDataIgnition  = "ignition"
)

// RootVolume returns the size of the root volume in GiB; 0 means no root volume.
func (s MachineShape) RootVolume() int {
	if s.RootVolumeGiB == nil {
		return 0
	}
	return *s.RootVolumeGiB
}

// WantsFloatingIP reports whether the machine gets its own floating IP.
func (s MachineShape) WantsFloatingIP() bool { return s.FloatingIP != nil && *s.FloatingIP }

// Over returns s with unset fields taken from base.
func (s MachineShape) Over(base MachineShape) MachineShape {
	def := func(v *string, b string) {
		if *v == "" {
			*v = b
		}
	}
	def(&s.Flavor, base.Flavor)
	def(&s.Image, base.Image)
	if s.RootVolumeGiB == nil {
		s.RootVolumeGiB = base.RootVolumeGiB
	}
	def(&s.RootVolumeType, base.RootVolumeType)
	if len(s.Zones) == 0 {
		s.Zones = base.Zones
	}
	def(&s.AntiAffinity, base.AntiAffinity)
	def(&s.AntiAffinity, AntiAffinitySoft)
	def(&s.UserData, base.UserData)
	def(&s.UserData, UserDataCloudInit)
	if s.FloatingIP == nil {
		s.FloatingIP = base.FloatingIP
	}
	if s.ConfigDrive == nil {
		s.ConfigDrive = base.ConfigDrive
	}
	return s.overPorts(base)
}

// overPorts returns s with unset fields of ports and volumes taken from base.
func (s MachineShape) overPorts(base MachineShape) MachineShape {
	if len(s.SecurityGroups) == 0 {
		s.SecurityGroups = base.SecurityGroups
	}
	if s.PortSecurity == nil {
		s.PortSecurity = base.PortSecurity
	}
	if len(s.Networks) == 0 {
		s.Networks = base.Networks
	}
	if len(s.Volumes) == 0 {
		s.Volumes = base.Volumes
	}
	return s
}

// Unfiltered reports whether Neutron lets all traffic of the machine through.
func (s MachineShape) Unfiltered() bool { return s.PortSecurity != nil && !*s.PortSecurity }

// Shape returns the machine shape of a role and pool in a defaulted document with provider openstack.
func (c *Cluster) Shape(role, pool string) MachineShape {
	var s MachineShape
	switch role {
	case RoleControlPlane:
		s = c.Spec.ControlPlane.Machine
	case RoleGateway:
		if g := c.Spec.Endpoint.Gateways; g != nil {
			s = g.Machine
		}
	default:
		for i := range c.Spec.Workers {
			if c.Spec.Workers[i].Name == pool {
				s = c.Spec.Workers[i].Machine
			}
		}
	}
	if os := c.Spec.Provider.OpenStack; os != nil {
		s = s.Over(os.Machine)
	}
	if role == RoleGateway {
		yes := true
		s.FloatingIP, s.Networks = &yes, nil
	}
	return s
}
