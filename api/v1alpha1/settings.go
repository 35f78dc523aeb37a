package v1alpha1

// Security covers audit, encryption and hardening.
type Security struct {
	// Log of requests to the API.
	AuditLog AuditLog `json:"auditLog,omitzero" yaml:"auditLog,omitempty"`
	// Encrypt Secrets in etcd with a key that only the control-plane machines hold.
	EncryptionAtRest *bool `json:"encryptionAtRest,omitempty" yaml:"encryptionAtRest,omitempty" jsonschema:"default=true"`
	// Apply the API server and kubelet settings of the CIS Kubernetes benchmark.
	CISDefaults *bool `json:"cisDefaults,omitempty" yaml:"cisDefaults,omitempty" jsonschema:"default=true"`
	// Refuse connections from others to ports that only the cluster's machines use among themselves (etcd, kubelets, VXLAN). Only with providers hosts and metal; the networks of the other providers keep others out.
	PacketFilter *PacketFilter `json:"packetFilter,omitempty" yaml:"packetFilter,omitempty"`
}

// PacketFilterWanted reports whether machines are to refuse connections from others to their internal ports.
func (s Security) PacketFilterWanted() bool {
	return s.PacketFilter != nil && (s.PacketFilter.Enabled == nil || *s.PacketFilter.Enabled)
}

// PacketFilter is an nftables table on each control-plane machine and worker.
type PacketFilter struct {
	// Enable the filter. Set it to false if something else filters, or if machines reach each other at other addresses than those in the document.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Further networks in CIDR form that are admitted, such as the network of a monitoring system outside the cluster.
	Admit []string `json:"admit,omitempty" yaml:"admit,omitempty" jsonschema:"maxItems=100"`
}

// AuditLog is the API servers' log of requests, kept on each control-plane machine.
type AuditLog struct {
	// Keep the log.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Number of days after which a rotated file is removed.
	MaxAgeDays int `json:"maxAgeDays,omitempty" yaml:"maxAgeDays,omitempty" jsonschema:"default=30,minimum=1,maximum=3650"`
	// Number of rotated files to keep.
	MaxBackups int `json:"maxBackups,omitempty" yaml:"maxBackups,omitempty" jsonschema:"default=10,minimum=1,maximum=1000"`
	// Size in MiB at which a file is rotated.
	MaxSizeMiB int `json:"maxSizeMiB,omitempty" yaml:"maxSizeMiB,omitempty" jsonschema:"default=100,minimum=1,maximum=10240"`
	// Audit policy (an audit.k8s.io/v1 Policy as YAML text). Left out: a built-in policy.
	Policy string `json:"policy,omitempty" yaml:"policy,omitempty"`
}

// Access says who may log in to the machines.
type Access struct {
	// Public SSH keys ("ssh-ed25519 AAAA… comment") that may log in, in addition to the cluster's own.
	SSHKeys []string `json:"sshKeys,omitempty" yaml:"sshKeys,omitempty" jsonschema:"maxItems=100" host:"none"`
	// Networks in CIDR form that may reach SSH from outside: on machines with a floating IP, or on all machines if none has one and there is no gateway. Only with provider openstack. Left out: all.
	SSHCIDRs []string `json:"sshCIDRs,omitempty" yaml:"sshCIDRs,omitempty" jsonschema:"maxItems=100"`
	// Networks in CIDR form that may reach the API on the gateways or, with endpoint kinds direct and address, on the control plane, whether or not it has a floating IP. Only with provider openstack; kind octavia has allowedCIDRs. Left out: all.
	APICIDRs []string `json:"apiCIDRs,omitempty" yaml:"apiCIDRs,omitempty" jsonschema:"maxItems=100"`
	// Networks in CIDR form that may reach NodePorts of the workers. Only with provider openstack. Left out: the machines' own network.
	NodePortCIDRs []string `json:"nodePortCIDRs,omitempty" yaml:"nodePortCIDRs,omitempty" jsonschema:"maxItems=100"`
	// Private network through the gateways. Only with endpoint kind gateways.
	WireGuard *WireGuard `json:"wireguard,omitempty" yaml:"wireguard,omitempty"`
}

// WireGuard lets peers into the machines' network through the gateways.
type WireGuard struct {
	// Private IPv4 network from which peers get their addresses, /16 to /28.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty" jsonschema:"default=172.30.153.0/24,pattern=^[0-9.]+/[0-9]+$"`
	// UDP port on the gateways.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=51820,minimum=1,maximum=65535" host:"none"`
	// The peers that may connect.
	Peers []WireGuardPeer `json:"peers" yaml:"peers" jsonschema:"required,minItems=1,maxItems=250"`
}

// WireGuardPeer is one person or machine that may connect.
type WireGuardPeer struct {
	// Name of the peer: lower-case letters, digits and dashes.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Public key of the peer, base64. Left out: Naupegos creates a key pair and puts the private key into the peer's client configuration.
	PublicKey string `json:"publicKey,omitempty" yaml:"publicKey,omitempty" host:"none"`
}

// Updates says how changes are rolled out.
type Updates struct {
	// Number of worker machines of a pool that may be unavailable at the same time. Pools are changed one after another, control-plane machines always one by one.
	MaxUnavailable int `json:"maxUnavailable,omitempty" yaml:"maxUnavailable,omitempty" jsonschema:"default=1,minimum=1,maximum=100"`
	// Number of extra machines that a pool gets while its workers are drained or replaced in turn, by an upgrade or another change of the document: at most this many, and no more than machines that change. They are created first and removed last. Only with providers that create machines: local and openstack. Left out: none.
	MaxSurge *int `json:"maxSurge,omitempty" yaml:"maxSurge,omitempty" jsonschema:"minimum=0,maximum=100"`
	// How naupegos update updates the machines' operating system.
	OS OSUpdates `json:"os,omitzero" yaml:"os,omitempty"`
	// How long an upgrade stays in the phase in which it can be reverted before the next apply finishes it: "24h", "168h". Default: until naupegos upgrade --finish.
	Soak Duration `json:"soak,omitzero" yaml:"soak,omitempty"`
	// Conditions that objects in the cluster must meet after each restart or replacement of a machine, before the next machine is changed.
	Checks []Check `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"maxItems=50"`
}

// Surge returns how many extra machines a pool may have while its machines are changed.
func (u Updates) Surge() int {
	if u.MaxSurge == nil {
		return 0
	}
	return *u.MaxSurge
}

// OSUpdates says how the machines' operating system is updated.
type OSUpdates struct {
	// When machines may be drained, updated and rebooted. Left out: at any time.
	Window *Window `json:"window,omitempty" yaml:"window,omitempty"`
	// Packages that are not updated, in addition to those whose programs come from the bundle, such as kubelet and containerd.
	Hold []string `json:"hold,omitempty" yaml:"hold,omitempty" jsonschema:"maxItems=100"`
}

// Window is a daily or weekly time window, in UTC.
type Window struct {
	// Days on which it opens: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Left out: every day.
	Days []string `json:"days,omitempty" yaml:"days,omitempty" jsonschema:"maxItems=7"`
	// Time at which it opens, such as "22:00".
	From string `json:"from" yaml:"from" jsonschema:"required,pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$"`
	// Time at which it closes; on the next day if it is not after from.
	To string `json:"to" yaml:"to" jsonschema:"required,pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$"`
}

// Repair says how naupegos repair repairs a machine whose node stays NotReady: by a reboot, a power cycle, or a replacement of the machine.
type Repair struct {
	// How long a node must be NotReady before its machine is repaired.
	After Duration `json:"after,omitzero" yaml:"after,omitempty" jsonschema:"default=5m"`
	// How long to wait for each remedy to work before the next one is tried. A machine that has been Ready for this long has recovered: if it fails again, all remedies are tried again.
	Patience Duration `json:"patience,omitzero" yaml:"patience,omitempty" jsonschema:"default=10m"`
	// Maximum percentage of the control-plane machines and workers that may be NotReady at the same time. If more are, no machine is repaired, because the cause is then not in the machines. One machine is always allowed.
	MaxUnhealthy int `json:"maxUnhealthy,omitempty" yaml:"maxUnhealthy,omitempty" jsonschema:"default=34,minimum=1,maximum=100"`
	// Replace a machine that no other remedy has repaired, without asking for consent.
	Replace bool `json:"replace,omitempty" yaml:"replace,omitempty" jsonschema:"default=false"`
}

// Unattended lists what a server does for the cluster on its own: how often (10s to 168h), or whether. It does nothing that is not listed.
type Unattended struct {
	// Check whether naupegos apply would change something, and report it. Nothing is changed.
	Drift Duration `json:"drift,omitzero" yaml:"drift,omitempty"`
	// Check whether certificates are due for renewal, and do what naupegos renew does.
	Renew Duration `json:"renew,omitzero" yaml:"renew,omitempty"`
	// Check whether a node stays NotReady, and do what naupegos repair does.
	Repair Duration `json:"repair,omitzero" yaml:"repair,omitempty"`
	// Check whether the newest backup is proven; if it is not, do what naupegos backup rehearse does. It is a failure if there is no backup.
	Rehearse Duration `json:"rehearse,omitzero" yaml:"rehearse,omitempty"`
	// Serve a cluster-autoscaler for the pools that scale, and change them as it requests, like naupegos autoscale, all the time. Only one server does so at a time.
	Autoscale bool `json:"autoscale,omitempty" yaml:"autoscale,omitempty" jsonschema:"default=false"`
	// Port on which the server does so, on the host of its HTTPS address. Each cluster needs a port of its own. Default: 8086.
	AutoscalePort int `json:"autoscalePort,omitempty" yaml:"autoscalePort,omitempty" jsonschema:"minimum=1,maximum=65535" host:"port"`
}

// defaultAutoscalePort is the default of spec.unattended.autoscalePort.
const defaultAutoscalePort = 8086

// Check is a condition on objects in the cluster.
type Check struct {
	// Name of the check, for messages: unique, and in the form of a label.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63"`
	// API version of the objects.
	APIVersion string `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty" jsonschema:"default=v1"`
	// Kind of the objects, such as "Deployment".
	Kind string `json:"kind" yaml:"kind" jsonschema:"required"`
	// Namespace of the objects. Default: all namespaces.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	// CEL expression that must be true for each object, which it refers to as object: "object.status.readyReplicas == object.spec.replicas". There must be at least one object.
	Expression string `json:"expression" yaml:"expression" jsonschema:"required,maxLength=4096"`
}

// Timeouts limit waits. Each is between 10s and 24h.
type Timeouts struct {
	// From powering on a machine until it accepts logins. With provider openstack it also limits the load balancer, and root volumes and removals if it is longer than their own limits (10m and 5m).
	MachineBoot Duration `json:"machineBoot,omitzero" yaml:"machineBoot,omitempty" jsonschema:"default=5m"`
	// From starting a node's kubelet until the node is Ready. It also limits the smoke tests and the proof that an addon works, if it is longer than their own limits (3m, 15m for a cloud, and 5m).
	NodeReady Duration `json:"nodeReady,omitzero" yaml:"nodeReady,omitempty" jsonschema:"default=5m"`
	// For evicting the pods of a node.
	Drain Duration `json:"drain,omitzero" yaml:"drain,omitempty" jsonschema:"default=5m"`
	// For connecting to a machine by SSH. A machine that takes longer counts as unreachable. It also limits a request to etcd, if it is longer than 8s. Raise it for slow machines and for networks that lose packets.
	Connect Duration `json:"connect,omitzero" yaml:"connect,omitempty" jsonschema:"default=10s"`
	// For one step of a plan with all its retries; at least as long as the others. Default: 10m, or the longest of the others.
	Step Duration `json:"step,omitzero" yaml:"step,omitempty" jsonschema:"default=10m"`
}
