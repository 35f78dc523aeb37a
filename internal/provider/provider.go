// Package provider says what every source of machines can do; the providers lie beside it.
//
// A provider knows machines, networks and disks. It knows nothing of Kubernetes, etcd or what runs on a machine.
package provider

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// Role is the purpose of a machine.
type Role string

// The roles.
const (
	ControlPlane Role = "control-plane"
	Worker       Role = "worker"
	Gateway      Role = "gateway"
)

// State is the observed state of a machine.
type State string

// The states of a machine.
const (
	Running State = "running" // switched on; its software may be down
	Stopped State = "stopped" // exists, switched off
	Partial State = "partial" // half-made by an interrupted create; its step adopts or removes it
	Failed  State = "failed"  // exists but can't run; Detail says why

	Unreachable State = "unreachable" // does not answer: switched off, or disconnected. Only for machines without power control: see Traits.Switched
)

// MachineSpec is one wanted machine.
type MachineSpec struct {
	Name     string // unique in the cluster, a DNS label: "demo-cp-1"
	Role     Role
	Pool     string // the pool's name; empty for control plane and gateways
	Index    int    // 1-based, never reused while the machine exists
	Address  string // in the machines' network; empty: the provider chooses one. Only the local provider accepts a given address
	UserData []byte // cloud-init or Ignition user-data as the machine receives it; holds no secret
}

// Machine is one observed machine.
type Machine struct {
	Name     string
	Role     Role
	Pool     string
	Index    int
	Address  string // for the other machines
	Public   string // for the operator, if different from Address (a floating IP); otherwise empty
	Zone     string // availability zone, if the provider has zones
	ID       string // the provider's own ID: an OpenStack server's UUID; empty if the provider knows only names
	State    State
	Detail   string   // more about the state, for people
	User     string   // SSH user: root, or one that may sudo without a password
	Port     int      // of SSH
	HostKeys []string // SSH host keys (authorized_keys form) from an out-of-band source; empty: none known
	Login    Login    // SSH login of the operator, if it differs from the fields above
}

// Login is one machine's own way by SSH.
type Login struct {
	Address   string   `json:",omitempty"` // IP address or DNS name; empty: the machine's
	KeyFile   string   `json:",omitempty"` // of the private key that logs in; empty: that of most machines
	MoreKeys  []string `json:",omitempty"` // files of further keys, which are offered after it
	CertFiles []string `json:",omitempty"` // certificates of keys
	Agent     string   `json:",omitempty"` // the SSH agent, as IdentityAgent of ssh_config names it; empty: that of SSH_AUTH_SOCK
	Sudo      string   `json:",omitempty"` // names the password that sudo asks for: "file:PATH", "env:NAME", "prompt" or "prompt:MACHINE"; empty: there is none
	Via       []Jump   `json:",omitempty"` // jump hosts, one after another, the first reached from here
}

// Jump is a jump host.
type Jump struct {
	Address   string
	Port      int      `json:",omitempty"`
	User      string   `json:",omitempty"`
	KeyFile   string   `json:",omitempty"`
	MoreKeys  []string `json:",omitempty"`
	CertFiles []string `json:",omitempty"`
	Agent     string   `json:",omitempty"`
	HostKeys  []string `json:",omitempty"`
}

// MayRun reports whether the machine runs, or may for all that is known.
func (m Machine) MayRun() bool { return m.State == Running || m.State == Unreachable }

// Wanted is the wanted state of a cluster's infrastructure.
type Wanted struct {
	Machines []MachineSpec
	VIP      bool // a virtual address for gateways is wanted
}

// Inventory is a provider's observation of one cluster.
type Inventory struct {
	Machines []Machine // in the order of Sort
	Others   []string  // other existing resources of this cluster (networks, half-made resources), for display
	VIP      string    // the virtual address; empty if there is none
}

// Provider makes, finds and removes the machines of one cluster. Package providertest tests every provider against this contract.
//
// A call or step ends soon after its context is cancelled; unless it was done by then, it returns fail.Interrupted. Steps are idempotent:
// after an interruption at any point, the caller makes a new provider, observes, and plans the remaining steps.
type Provider interface {
	// Traits returns the properties of the machines. It makes no call, and always returns the same.
	Traits() Traits
	// Preflight returns fail.Refused with everything that the place lacks for want, before anything is created. It changes nothing.
	Preflight(ctx context.Context, want Wanted) error
	// Observe finds all resources of this cluster, and none of others. It changes nothing.
	Observe(ctx context.Context) (*Inventory, error)
	// Steps returns the steps that create and start the infrastructure and each wanted machine; none if nothing is to do. They remove no machine,
	// wanted or not. Nothing is made before they run. The step for machine NAME has the ID MachineStep(NAME) and the Subject NAME. The caller
	// destroys an existing machine that is missing from seen before its step runs: the step recreates the machine's own resources, whatever
	// existed at planning time.
	Steps(ctx context.Context, want Wanted, seen *Inventory) ([]*plan.Step, error)
	// Machine returns the known state of one machine (its address once it is assigned), as Observe would; fail.NotFound if it does not exist.
	Machine(ctx context.Context, name string) (Machine, error)
	// VIP returns the virtual address for gateways; fail.NotFound if there is none (yet).
	VIP(ctx context.Context) (string, error)
	// DestroyMachine returns the step that removes one machine in any state, with its own resources. If machines outlive the cluster
	// (Traits.Keeps), the step only ends the machine's membership. ID: DestroyStep(NAME).
	DestroyMachine(m Machine) *plan.Step
	// Destroy returns the steps that remove all resources of the cluster, including machines unless they outlive it, and verify that nothing
	// is left. If nothing exists, they do nothing.
	Destroy(ctx context.Context, seen *Inventory) []*plan.Step
	// Power starts ("on"), stops ("off", cleanly) or kills ("kill", at once) one machine, and waits for that state. It leaves a machine alone
	// that is in that state already. It returns fail.NotFound if the machine is not the cluster's, fail.Invalid for another state, and
	// fail.Refused if Traits rule it out.
	Power(ctx context.Context, name, state string) error
}

// MachineStep returns the ID of the step that brings the named machine up.
func MachineStep(name string) string { return "machine/" + name }

// DestroyStep returns the ID of the step that removes the named machine.
func DestroyStep(name string) string { return "destroy/" + name }

// ConsentAddresses is the consent that the release of addresses requires: a released address cannot be had again.
const ConsentAddresses = "give-up-addresses"

// ConsentVolumes is the consent that the removal of volumes requires: what is on them is lost.
const ConsentVolumes = "volumes"

// ConsentLeave is the consent to abandon a machine that can be neither cleaned nor switched off: its software continues if the machine comes
// back.
const ConsentLeave = "leave-behind"

// Traits are properties of a provider's machines.
type Traits struct {
	SharedKernel    bool // containers that share one host's kernel
	Given           bool // the document gives their names, addresses and logins; their hostnames may differ
	Keeps           bool // they outlive the cluster, and are cleaned, not destroyed
	ExternalCloud   bool // kubelets wait for the cloud's controller to set their addresses and zones
	Outside         bool // machines and the API can have separate addresses for access from outside
	HostKeysConsole bool // their SSH host keys are read from their console
	Stock           bool // taken from a stock and returned to it; machines that answer are cleaned first
	Switched        bool // Power can start and kill them, and their power state is known; otherwise they can only be shut down
}

// Warner is a provider whose Preflight also finds oddities.
type Warner interface {
	// Warnings returns the warnings of the last Preflight, one sentence each. They refuse nothing.
	Warnings() []string
}

// Balancer is a provider with its own load balancer for the API and ingress traffic. Steps makes it, with the first control-plane machine as
// its only member; VIP returns its address.
type Balancer interface {
	// Balance returns the steps that add every wanted machine to the pools of its role, to be run once the API answers; none if nothing
	// differs. Their IDs begin with "balance/".
	Balance(want Wanted, seen *Inventory) []*plan.Step
}

// Fronted is a provider whose virtual address also has an address outside of the machines' network.
type Fronted interface {
	// PublicVIP returns the outside address of VIP; fail.NotFound if there is none (yet).
	PublicVIP(ctx context.Context) (string, error)
}

// Drifter is a provider whose machines can differ from the document in ways that only a new machine corrects.
type Drifter interface {
	// Drift lists each machine's differences by machine name ("flavor is m1.small, m1.large is wanted"). It makes no call: it uses seen or the
	// last observation.
	Drift(want Wanted, seen *Inventory) map[string][]string
}

// Keeper is a provider whose machines retain creation-time settings that later document changes cannot alter.
type Keeper interface {
	// Kept returns a sentence for each field whose document value some existing machines don't follow, with a remedy. These differences are
	// neither corrected nor refused.
	Kept(ctx context.Context, seen *Inventory) ([]string, error)
}

// Housed is a provider with several places (projects, regions), one of which contains the cluster.
type Housed interface {
	// Home returns the place on one line. The caller stores it before anything is made.
	Home(ctx context.Context) (string, error)
}

// PartlySwitched is a provider some of whose machines lack power control, despite Traits: Power refuses to start and kill these.
type PartlySwitched interface {
	Switches(ctx context.Context, name string) bool
}

// Renewer is a provider that can replace the system of a machine, which keeps its identity.
type Renewer interface {
	// Outdated returns, by machine name, the new system of each running machine that needs one. It changes nothing.
	Outdated(ctx context.Context) (map[string]Newer, error)
	// Renew installs the new system on a machine, which restarts it, and waits until it runs. It returns fail.Refused if the new system fails
	// and the machine has returned to its former one. It may be repeated.
	Renew(ctx context.Context, name string, progress plan.Progress) error
}

// Newer is a machine's new system.
type Newer struct {
	Why    string        // reason for the new system
	Within time.Duration // time limit until it runs
	Never  error         // why the machine can't have it
}

// Reinstaller is a provider that can reinstall a machine from scratch with its identity.
type Reinstaller interface {
	// ReinstallMachine is like DestroyMachine, but also remembers that the next machine in its place is this machine again, if that is still
	// possible.
	ReinstallMachine(m Machine) *plan.Step
}
