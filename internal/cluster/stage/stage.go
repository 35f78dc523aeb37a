// Package stage names the stages of all plans and defines their order.
package stage

import "github.com/naupegos/naupegos/internal/plan"

// The stages of an apply.
const (
	Prepare          plan.Stage = "prepare"            // requirements of all changes
	Machines         plan.Stage = "machines"           // the provider's steps
	Admit            plan.Stage = "admit"              // packet filters let new machines in
	Repair           plan.Stage = "repair"             // lost members and nodes go, control-plane machines are replaced
	Bootstrap        plan.Stage = "bootstrap"          // gateways and control-plane machines that don't serve yet
	Join             plan.Stage = "join"               // new members of the control plane, one after another
	Balance          plan.Stage = "balance"            // a load balancer of the cloud learns of them
	RollGateways     plan.Stage = "roll-gateways"      // one after another
	RollControlPlane plan.Stage = "roll-control-plane" // one after another
	Serve            plan.Stage = "serve"              // the API answers
	Record           plan.Stage = "record"             // kubeadm's records and addons
	Network          plan.Stage = "network"            // the document's sets, if one of them is the pod network
	Workers          plan.Stage = "workers"            // workers that don't serve yet
	Nodes            plan.Stage = "nodes"              // nodes are registered, labelled and Ready
	RollWorkers      plan.Stage = "roll-workers"       // in as many lanes as may be unavailable
	Advance          plan.Stage = "advance"            // an upgrade or a rotation continues
	Retire           plan.Stage = "retire"             // machines that are no longer wanted go
	Sets             plan.Stage = "sets"               // the document's manifests and charts
	Prove            plan.Stage = "prove"              // smoke tests
	Forget           plan.Stage = "forget"             // facts about removed machines
	Lay              plan.Stage = "lay"                // the store's data is copied to machines that make backups
)

// The stages of a destruction.
const (
	Clean  plan.Stage = "clean"  // machines that stay are cleaned
	Free   plan.Stage = "free"   // the cluster gives its resources back to its cloud
	Remove plan.Stage = "remove" // the provider's steps
)

// ApplyRules order the changes of a cluster: repairs first, then new machines, then restarts, and removals last. Gateways learn the addresses of replaced
// machines, and know new API servers, before an old API server restarts; no kubelet gets ahead of an API server. Only removals and smoke tests wait for new
// workers: a worker that never comes does not keep the others from being changed.
var ApplyRules = []plan.Rule{
	{Stage: Prepare},
	{Stage: Machines},
	{Stage: Admit},
	{Stage: Repair, Waits: []plan.Stage{Prepare, Admit}},
	{Stage: Bootstrap, Waits: []plan.Stage{Machines}, Per: plan.SameSubject},
	{Stage: Join, Waits: []plan.Stage{Repair}},
	{Stage: Join, Waits: []plan.Stage{Machines}, Per: plan.SameSubject},
	{Stage: Balance, Waits: []plan.Stage{Bootstrap, Join}},
	{Stage: RollGateways, Waits: []plan.Stage{Repair}},
	{Stage: RollGateways, Waits: []plan.Stage{Machines}, Per: plan.SameSubject},
	{Stage: RollControlPlane, Waits: []plan.Stage{Prepare, Bootstrap, Join, RollGateways}},
	{Stage: Serve, Waits: []plan.Stage{Bootstrap, RollGateways, RollControlPlane}},
	{Stage: Record, Waits: []plan.Stage{Serve, RollControlPlane}},
	{Stage: Network, Waits: []plan.Stage{Record}},
	{Stage: Workers, Waits: []plan.Stage{Admit}},
	{Stage: Workers, Waits: []plan.Stage{Machines, Repair}, Per: plan.SameSubject},
	{Stage: Nodes, Waits: []plan.Stage{Machines, Bootstrap, Join, RollControlPlane, Workers}, Per: plan.SameSubject},
	{Stage: RollWorkers, Waits: []plan.Stage{RollControlPlane}},
	{Stage: RollWorkers, Waits: []plan.Stage{Machines}, Per: plan.SameSubject},
	{Stage: Retire, Waits: []plan.Stage{Bootstrap, Join, Balance, RollControlPlane, Workers, Nodes, RollWorkers}},
	{Stage: Prove, Waits: []plan.Stage{Record, Balance, Nodes, RollWorkers, Retire}},
	{Stage: Sets, Waits: []plan.Stage{Record, Balance, Nodes, RollWorkers, Retire}},
	{Stage: Advance, Waits: []plan.Stage{Record, Balance, Workers, Nodes, RollWorkers, Retire, Prove}},
	{Stage: Forget, Waits: []plan.Stage{Retire}},
	{Stage: Lay, Waits: []plan.Stage{Advance, Forget}},
}

// RepairRules order the steps that heal a machine by a reboot or a power cycle. A replacement follows ApplyRules.
var RepairRules = []plan.Rule{
	{Stage: Repair},
	{Stage: Nodes, Waits: []plan.Stage{Repair}},
}

// UpdateRules order the steps that update machines' operating systems: one machine after another, in the order of a roll.
var UpdateRules = []plan.Rule{
	{Stage: Prepare},
	{Stage: RollGateways, Waits: []plan.Stage{Prepare}},
	{Stage: RollControlPlane, Waits: []plan.Stage{Prepare, RollGateways}},
	{Stage: RollWorkers, Waits: []plan.Stage{RollControlPlane}},
}

// RotateRules order the renewal of the cloud's credential.
var RotateRules = []plan.Rule{
	{Stage: Prepare}, {Stage: Record, Waits: []plan.Stage{Prepare}}, {Stage: Forget, Waits: []plan.Stage{Record}},
}

// RecoverRules order the recovery of etcd from a survivor.
var RecoverRules = []plan.Rule{
	{Stage: Prepare},
	{Stage: Clean, Waits: []plan.Stage{Prepare}},
	{Stage: Bootstrap, Waits: []plan.Stage{Clean}},
	{Stage: Serve, Waits: []plan.Stage{Bootstrap}},
	{Stage: Forget, Waits: []plan.Stage{Serve}},
}

// RestoreLivingRules order the restore of a cluster that is up.
var RestoreLivingRules = []plan.Rule{
	{Stage: Prepare},
	{Stage: Clean, Waits: []plan.Stage{Prepare}},
	{Stage: Bootstrap, Waits: []plan.Stage{Clean}},
	{Stage: Serve, Waits: []plan.Stage{Bootstrap}},
	{Stage: RollWorkers, Waits: []plan.Stage{Serve}},
	{Stage: Forget, Waits: []plan.Stage{RollWorkers}},
}

// ReleaseRules order the release of a cluster.
var ReleaseRules = []plan.Rule{
	{Stage: Prepare},
	{Stage: Workers, Waits: []plan.Stage{Prepare}},
	{Stage: Record, Waits: []plan.Stage{Workers}},
	{Stage: Clean, Waits: []plan.Stage{Record}},
	{Stage: Forget, Waits: []plan.Stage{Clean}},
}

// ImportRules order the import of a foreign cluster.
var ImportRules = []plan.Rule{
	{Stage: Workers},
	{Stage: Prove, Waits: []plan.Stage{Workers}},
	{Stage: Record, Waits: []plan.Stage{Prove}},
}

// ResetRules order the reset of a cluster.
var ResetRules = []plan.Rule{
	{Stage: Prepare}, {Stage: Free},
	{Stage: Clean, Waits: []plan.Stage{Prepare, Free}},
	{Stage: Remove, Waits: []plan.Stage{Clean}},
	{Stage: Forget, Waits: []plan.Stage{Remove, Clean, Free}},
}

// DestroyRules order the destruction of a cluster.
var DestroyRules = []plan.Rule{
	{Stage: Clean}, {Stage: Free},
	{Stage: Remove, Waits: []plan.Stage{Clean, Free}}, {Stage: Forget, Waits: []plan.Stage{Remove}},
}
