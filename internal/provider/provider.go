// Package provider says what every source of machines can do; the providers lie beside it.
//
// A provider knows machines, networks and disks. It knows nothing of Kubernetes, etcd or what runs on a machine.
package provider

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// Role says what a machine is for.
type Role string

// The roles.
const (
	ControlPlane Role = "control-plane"
	Worker       Role = "worker"
	Gateway      Role = "gateway"
)

// State is what a machine is found in.
type State string

// The states of a machine.
const (
	Running State = "running" // switched on; says nothing of what runs on it
	Stopped State = "stopped" // exists, switched off
	Partial State = "partial" // half-made: a create did not finish; its step adopts or removes it
	Failed  State = "failed"  // exists but can't run; Detail says why

	Unreachable State = "unreachable" // does not answer: switched off, or cut off from here. Only where nobody can tell which: see Traits.Switched
)

// MachineSpec is one wanted machine.
type MachineSpec struct {
	Name     string // unique in the cluster, a DNS label: "demo-cp-1"
	Role     Role
	Pool     string // the pool's name; empty for control plane and gateways
	Index    int    // 1-based, never reused while the machine exists
	Address  string // in the machines' network; empty: the provider chooses one. Only the local provider takes wishes
	UserData []byte // cloud-init or Ignition user-data, as the cloud is to hand it to the machine; holds no secret
}

// Machine is one machine as it was found.
type Machine struct {
	Name     string
	Role     Role
	Pool     string
	Index    int
	Address  string // where the other machines reach it
	Public   string // where the operator reaches it, if that is not Address (a floating IP); empty: there is none
	Zone     string // availability zone, where the provider knows zones
	ID       string // the provider's own ID of it: an OpenStack server's UUID; empty where the name is all there is
	State    State
	Detail   string   // more about the state, for people
	User     string   // to log in as by SSH: root, or one that may sudo without a password
	Port     int      // of SSH
	HostKeys []string // SSH host keys (authorized_keys form) from an out-of-band source; empty: none known
	Login    Login    // how the operator gets there by SSH, where that differs from what the fields above say
}

// Login is one machine's own way by SSH.
type Login struct {
	Address string `json:",omitempty"` // IP address or DNS name; empty: the machine's
	KeyFile string `json:",omitempty"` // of the private key that logs in; empty: that of most machines
	Sudo    string `json:",omitempty"` // names the password that sudo asks for: "file:PATH", "env:NAME" or "prompt"; empty: there is none
	Via     []Jump `json:",omitempty"` // jump hosts, one after another, the first reached from here
}

// Jump is a jump host.
type Jump struct {
	Address  string
	Port     int      `json:",omitempty"`
	User     string   `json:",omitempty"`
	KeyFile  string   `json:",omitempty"`
	HostKeys []string `json:",omitempty"`
}

// MayRun reports whether the machine runs, or may for all that is known.
func (m Machine) MayRun() bool { return m.State == Running || m.State == Unreachable }

// Wanted is what the cluster wants of its provider.
type Wanted struct {
	Machines []MachineSpec
	VIP      bool // a virtual address for gateways is wanted
}

// Inventory is what a provider found of one cluster.
type Inventory struct {
	Machines []Machine // as Sort has them
	Others   []string  // what else of this cluster exists (networks, half-made things), for people
	VIP      string    // the virtual address, where there is one
}

// Provider makes, finds and removes the machines of one cluster. Package providertest holds every provider to what is said here.
//
// A call, or a step, whose context is cancelled ends soon. Unless it was done by then, its error is fail.Interrupted. A step is
// idempotent: whoever is cut off anywhere makes a new provider, observes, and plans what is left.
type Provider interface {
	// Traits says what its machines are. It asks nobody, and always says the same.
	Traits() Traits
	// Preflight tells, before anything is created, whether want can be had: fail.Refused with what is missing. It changes nothing.
	Preflight(ctx context.Context, want Wanted) error
	// Observe finds everything of this cluster, and nothing of others. It changes nothing.
	Observe(ctx context.Context) (*Inventory, error)
	// Steps returns the steps that make the infrastructure and each wanted machine exist and run: none where nothing is to do. They take no
	// machine away, whether it is wanted or not. Nothing is made before they run.
	// The step that leaves machine NAME running has the ID MachineStep(NAME) and the Subject NAME. A machine that seen does not have, though
	// it exists, is destroyed before that step runs: the step makes again what is the machine's own, whatever was there when it was planned.
	Steps(ctx context.Context, want Wanted, seen *Inventory) ([]*plan.Step, error)
	// Machine reports what is now known of one machine (its address once it is assigned), as Observe would. fail.NotFound where it isn't.
	Machine(ctx context.Context, name string) (Machine, error)
	// VIP returns the virtual address for gateways; fail.NotFound where there is none (yet).
	VIP(ctx context.Context) (string, error)
	// DestroyMachine returns the step that removes one machine and all that is its own, from whatever state it is in; where machines outlive
	// the cluster (Traits.Keeps), it forgets that this one belonged to it. ID: DestroyStep(NAME).
	DestroyMachine(m Machine) *plan.Step
	// Destroy returns the steps that remove everything of the cluster, machines included unless they outlive it, and prove that nothing is
	// left. Where nothing is there they do nothing.
	Destroy(ctx context.Context, seen *Inventory) []*plan.Step
	// Power starts ("on"), stops ("off", cleanly) or kills ("kill", at once) one machine, and waits until that is so. A machine that is so
	// already is left alone. fail.NotFound where it isn't the cluster's, fail.Invalid for another state, fail.Refused for what Traits deny.
	Power(ctx context.Context, name, state string) error
}

// MachineStep is the ID of the step that leaves the named machine running.
func MachineStep(name string) string { return "machine/" + name }

// DestroyStep is the ID of the step that removes the named machine.
func DestroyStep(name string) string { return "destroy/" + name }

// ConsentAddresses is what the user must consent to before addresses are given back: nobody gets the same one again.
const ConsentAddresses = "give-up-addresses"

// ConsentLeave is what the user must consent to before a machine is let go that can neither be cleaned nor switched off: what was put on it goes
// on if it comes back.
const ConsentLeave = "leave-behind"

// Traits say what the machines of a provider are.
type Traits struct {
	SharedKernel    bool // they are containers, with the kernel of one host
	Given           bool // the document names them, and says where they are and how to log in; they call themselves what they like
	Keeps           bool // they outlive the cluster, and are cleaned, not destroyed
	ExternalCloud   bool // kubelets wait for a controller of the cloud that tells them their addresses and zones
	Outside         bool // they, and the API, can have addresses that the outside uses in place of their own
	HostKeysConsole bool // their SSH host keys are read from their console
	Stock           bool // they come from a stock and go back to it: where they answer, they are cleaned first
	Switched        bool // Power starts and kills them, and whether they are off is known; else they can only be shut down
}

// Warner is a provider that can tell more of what is wanted than whether it can be had.
type Warner interface {
	// Warnings says what the last Preflight found odd, one sentence each. Nothing is refused for it.
	Warnings() []string
}

// Balancer is a provider that can carry the API, and ingress traffic, with a load balancer of its own. Steps makes it, with
// the first control-plane machine as its only member; VIP is its address.
type Balancer interface {
	// Balance returns the steps that make every wanted machine a member of the pools that its role belongs to, to be run once
	// the API answers: none where that is so already. Their IDs begin with "balance/".
	Balance(want Wanted, seen *Inventory) []*plan.Step
}

// Fronted is a provider whose virtual address has another one outside of the machines' network.
type Fronted interface {
	// PublicVIP returns the address that the outside uses for VIP; fail.NotFound where there is none (yet).
	PublicVIP(ctx context.Context) (string, error)
}

// Drifter is a provider whose machines can differ from what the document says in ways that only a new machine mends.
type Drifter interface {
	// Drift tells for each machine, by name, what differs ("flavor is m1.small, m1.large is wanted"). It asks nobody: seen says all.
	Drift(want Wanted, seen *Inventory) map[string][]string
}

// Keeper is a provider whose machines keep some of what they were made by, whatever the document says later.
type Keeper interface {
	// Kept says, a sentence for each field, which machines that are there keep what the document says otherwise now, and what to do about it. Nothing
	// is done about it by itself, and nothing is refused for it.
	Kept(ctx context.Context, seen *Inventory) ([]string, error)
}

// Housed is a provider of several places (projects, regions) of which a cluster is in one.
type Housed interface {
	// Home says which place it is, in one line, to be remembered before anything is made.
	Home(ctx context.Context) (string, error)
}

// PartlySwitched is a provider some of whose machines have no power control, whatever Traits say: Power refuses to start and kill these.
type PartlySwitched interface {
	Switches(ctx context.Context, name string) bool
}

// Renewer is a provider whose machines can take another system while they stay what they are.
type Renewer interface {
	// Outdated tells for each machine that runs, by name, which system it is to have in place of its own. It changes nothing.
	Outdated(ctx context.Context) (map[string]Newer, error)
	// Renew has a machine take the system that it is to have, which restarts it, and waits until that runs. fail.Refused where it does not stay:
	// the machine has its former system then. It may be repeated.
	Renew(ctx context.Context, name string, progress plan.Progress) error
}

// Newer is a system that a machine is to have.
type Newer struct {
	Why    string        // it is to have it
	Within time.Duration // it should run by then
	Never  error         // why it can't have it
}

// Reinstaller is a provider whose machines can be made anew from nothing, and be the same ones.
type Reinstaller interface {
	// ReinstallMachine is DestroyMachine, and remembers with it that whatever fills the machine's place then is that machine again, if it still can be.
	ReinstallMachine(m Machine) *plan.Step
}
