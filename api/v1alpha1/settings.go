package v1alpha1

// Security is audit, encryption and hardening.
type Security struct {
	// Log of requests to the API.
	AuditLog AuditLog `json:"auditLog,omitzero" yaml:"auditLog,omitempty"`
	// Encrypt Secrets in etcd with a key that only the control-plane machines hold.
	EncryptionAtRest *bool `json:"encryptionAtRest,omitempty" yaml:"encryptionAtRest,omitempty" jsonschema:"default=true"`
	// Apply the API server and kubelet settings of the CIS Kubernetes benchmark.
	CISDefaults *bool `json:"cisDefaults,omitempty" yaml:"cisDefaults,omitempty" jsonschema:"default=true"`
	// What the machines of the cluster say only to each other (etcd, kubelets, VXLAN) is refused to everybody else. Only with providers hosts and
	// metal: the other ones keep strangers out by their networks.
	PacketFilter *PacketFilter `json:"packetFilter,omitempty" yaml:"packetFilter,omitempty"`
}

// PacketFilterWanted reports whether machines are to refuse to others what they say to each other.
func (s Security) PacketFilterWanted() bool {
	return s.PacketFilter != nil && (s.PacketFilter.Enabled == nil || *s.PacketFilter.Enabled)
}

// PacketFilter is an nftables table on each control-plane machine and worker.
type PacketFilter struct {
	// Filter. Set it to false where something else does, or where machines reach each other under other addresses than the document gives.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Networks in CIDR form that are let in, too: those of a monitoring system outside of the cluster, for example.
	Admit []string `json:"admit,omitempty" yaml:"admit,omitempty" jsonschema:"maxItems=100"`
}

// AuditLog is the API servers' log of requests, kept on each control-plane machine.
type AuditLog struct {
	// Keep the log.
	Enabled *bool `json:"enabled,omitempty" yaml:"enabled,omitempty" jsonschema:"default=true"`
	// Days after which a rotated file is removed.
	MaxAgeDays int `json:"maxAgeDays,omitempty" yaml:"maxAgeDays,omitempty" jsonschema:"default=30,minimum=1,maximum=3650"`
	// Rotated files that are kept.
	MaxBackups int `json:"maxBackups,omitempty" yaml:"maxBackups,omitempty" jsonschema:"default=10,minimum=1,maximum=1000"`
	// Size in MiB at which a file is rotated.
	MaxSizeMiB int `json:"maxSizeMiB,omitempty" yaml:"maxSizeMiB,omitempty" jsonschema:"default=100,minimum=1,maximum=10240"`
	// Audit policy (an audit.k8s.io/v1 Policy as YAML text). Left out, a built-in policy is used.
	Policy string `json:"policy,omitempty" yaml:"policy,omitempty"`
}

// Access is who may log in to the machines.
type Access struct {
	// Public SSH keys ("ssh-ed25519 AAAA… comment") that may log in, besides the cluster's own.
	SSHKeys []string `json:"sshKeys,omitempty" yaml:"sshKeys,omitempty" jsonschema:"maxItems=100" host:"none"`
	// Networks in CIDR form that may reach SSH from outside: on machines with a floating IP, or on all where none has one and there is no gateway. Only with provider openstack. Left out: all.
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
	// Private IPv4 network that peers' addresses are taken from, /16 to /28.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty" jsonschema:"default=172.30.153.0/24,pattern=^[0-9.]+/[0-9]+$"`
	// UDP port on the gateways.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=51820,minimum=1,maximum=65535" host:"none"`
	// Who may connect.
	Peers []WireGuardPeer `json:"peers" yaml:"peers" jsonschema:"required,minItems=1,maxItems=250"`
}

// WireGuardPeer is one person or machine that may connect.
type WireGuardPeer struct {
	// Name of the peer: lower-case letters, digits and dashes.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Public key of the peer, base64. Left out, Naupegos makes a key pair and puts the private key into the peer's client configuration.
	PublicKey string `json:"publicKey,omitempty" yaml:"publicKey,omitempty" host:"none"`
}

// Updates is how changes are rolled out.
type Updates struct {
	// Worker machines of a pool that may be away at the same time. Pools are changed one after another, control-plane machines always one by one.
	MaxUnavailable int `json:"maxUnavailable,omitempty" yaml:"maxUnavailable,omitempty" jsonschema:"default=1,minimum=1,maximum=100"`
	// Machines that a pool has beside its own while workers are drained or replaced in turn, by an upgrade or another change of the document: at most so many, and no more than are to be changed. They are made first and go last. Only with providers that make machines: local and openstack. Left out: none.
	MaxSurge *int `json:"maxSurge,omitempty" yaml:"maxSurge,omitempty" jsonschema:"minimum=0,maximum=100"`
	// How naupegos update brings the machines' operating system up to date.
	OS OSUpdates `json:"os,omitzero" yaml:"os,omitempty"`
	// How long an upgrade stays where there is a way back before the next apply finishes it: "24h", "168h". Default: until naupegos upgrade --finish.
	Soak Duration `json:"soak,omitzero" yaml:"soak,omitempty"`
	// What has to hold of objects in the cluster after each machine that was restarted or replaced, before the next one is.
	Checks []Check `json:"checks,omitempty" yaml:"checks,omitempty" jsonschema:"maxItems=50"`
}

// Surge returns how many machines a pool may have beside its own while these are changed.
func (u Updates) Surge() int {
	if u.MaxSurge == nil {
		return 0
	}
	return *u.MaxSurge
}

// OSUpdates is how the machines' operating system is brought up to date.
type OSUpdates struct {
	// When machines may be drained, updated and rebooted. Left out: at any time.
	Window *Window `json:"window,omitempty" yaml:"window,omitempty"`
	// Packages that stay as they are, besides those whose programs come from the bundle: kubelet, containerd and the like.
	Hold []string `json:"hold,omitempty" yaml:"hold,omitempty" jsonschema:"maxItems=100"`
}

// Window is a time of the day or of the week, in UTC.
type Window struct {
	// Days on which it opens: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Left out: every day.
	Days []string `json:"days,omitempty" yaml:"days,omitempty" jsonschema:"maxItems=7"`
	// When it opens, as "22:00".
	From string `json:"from" yaml:"from" jsonschema:"required,pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$"`
	// When it closes: on the next day where that is not after from.
	To string `json:"to" yaml:"to" jsonschema:"required,pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$"`
}

// Repair is how naupegos repair heals a machine whose node stays not Ready: by a reboot, a power cycle, another machine in its place.
type Repair struct {
	// How long a node is not Ready before its machine is repaired.
	After Duration `json:"after,omitzero" yaml:"after,omitempty" jsonschema:"default=5m"`
	// How long each remedy is given to work before the next one is tried. A machine that was Ready for as long has recovered: should it fail again, all are tried again.
	Patience Duration `json:"patience,omitzero" yaml:"patience,omitempty" jsonschema:"default=10m"`
	// Percent of the control-plane machines and workers that may be not Ready at the same time. Where more are, none is repaired: the cause is not in the machines then. One may always be.
	MaxUnhealthy int `json:"maxUnhealthy,omitempty" yaml:"maxUnhealthy,omitempty" jsonschema:"default=34,minimum=1,maximum=100"`
	// Put another machine in the place of one that nothing else has healed, without asking for consent then.
	Replace bool `json:"replace,omitempty" yaml:"replace,omitempty" jsonschema:"default=false"`
}

// Unattended is what a server does for the cluster without being asked, and only what is named: how often (10s to 168h), or that it does.
type Unattended struct {
	// Look whether naupegos apply would change something, and say so. Nothing is changed.
	Drift Duration `json:"drift,omitzero" yaml:"drift,omitempty"`
	// Look whether certificates are due, and do what naupegos renew does.
	Renew Duration `json:"renew,omitzero" yaml:"renew,omitempty"`
	// Look whether a node stays not Ready, and do what naupegos repair does.
	Repair Duration `json:"repair,omitzero" yaml:"repair,omitempty"`
	// Look whether the newest backup is proven, and do what naupegos backup rehearse does where it is not. That there is no backup is a failure.
	Rehearse Duration `json:"rehearse,omitzero" yaml:"rehearse,omitempty"`
	// Answer a cluster-autoscaler about pools that scale, and change them as it asks: what naupegos autoscale does, all the time. One server does at a time.
	Autoscale bool `json:"autoscale,omitempty" yaml:"autoscale,omitempty" jsonschema:"default=false"`
	// Port of the server for that, on the host of its HTTPS: another one for each cluster. Default: 8086.
	AutoscalePort int `json:"autoscalePort,omitempty" yaml:"autoscalePort,omitempty" jsonschema:"minimum=1,maximum=65535" host:"port"`
}

// defaultAutoscalePort is where a cluster's autoscaler is answered unless its document says otherwise.
const defaultAutoscalePort = 8086

// Check is a condition on objects in the cluster.
type Check struct {
	// Name of the check, for messages: unique, like a label.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63"`
	// Version of the API that the objects are asked of.
	APIVersion string `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty" jsonschema:"default=v1"`
	// Kind of the objects, as "Deployment".
	Kind string `json:"kind" yaml:"kind" jsonschema:"required"`
	// Namespace of the objects. Default: all namespaces.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	// CEL expression that must be true of each of them, as the variable object: "object.status.readyReplicas == object.spec.replicas". There must be at least one.
	Expression string `json:"expression" yaml:"expression" jsonschema:"required,maxLength=4096"`
}

// Timeouts bound waits. Each is between 10s and 24h.
type Timeouts struct {
	// From powering on a machine until it accepts logins. With provider openstack it also bounds, where it is longer than what is given to these anyway, root volumes (10m) and removals (5m), and the load balancer.
	MachineBoot Duration `json:"machineBoot,omitzero" yaml:"machineBoot,omitempty" jsonschema:"default=5m"`
	// From starting a node's kubelet until the node is Ready.
	NodeReady Duration `json:"nodeReady,omitzero" yaml:"nodeReady,omitempty" jsonschema:"default=5m"`
	// For evicting the pods of a node.
	Drain Duration `json:"drain,omitzero" yaml:"drain,omitempty" jsonschema:"default=5m"`
	// Until a machine accepts an SSH login: one that answers later counts as unreachable. It also bounds a request to etcd, if it exceeds 8s. Raise it for slow machines, and for networks that lose packets.
	Connect Duration `json:"connect,omitzero" yaml:"connect,omitempty" jsonschema:"default=10s"`
	// For one step of a plan with all its retries; at least as long as the others. Default: 10m, or the longest of the others.
	Step Duration `json:"step,omitzero" yaml:"step,omitempty" jsonschema:"default=10m"`
}
