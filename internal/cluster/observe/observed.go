package observe

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Member returns the etcd member of a machine.
func (o *Observed) Member(name string) (etcd.Member, bool) {
	for _, m := range o.Members {
		if m.Name == name {
			return m, true
		}
	}
	return etcd.Member{}, false
}

// Machine returns a machine of the inventory by name; nil if it is not there.
func (o *Observed) Machine(name string) *provider.Machine {
	i := slices.IndexFunc(o.Inventory.Machines, func(m provider.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Inventory.Machines[i]
}

// Serves reports whether a control-plane machine may run and its etcd member answers: its restarts must be coordinated with the others'.
func (o *Observed) Serves(name string) bool {
	s := o.Machines[name]
	if s == nil || !s.Machine.MayRun() || o.EtcdErr != nil {
		return false
	}
	return !o.Mute(name)
}

// Mute reports whether a machine's etcd member was asked and does not answer.
func (o *Observed) Mute(name string) bool {
	return slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return h.Name == name && !h.Reachable })
}

// Running reports whether the machine exists and runs, or may.
func (o *Observed) Running(name string) bool {
	s := o.Machines[name]
	if s == nil {
		s = o.Replaced[name]
	}
	return s != nil && s.Machine.MayRun()
}

// Behind describes the programs of an up-to-date control-plane machine that do not run, or still run as before their manifests were changed, because an
// earlier apply failed or was interrupted before it had waited for them; empty: none.
func (o *Observed) Behind(name string) string {
	s := o.Machines[name]
	if !s.UpToDate() {
		return ""
	}
	list := slices.Clone(s.Report.Behind)
	for _, program := range s.Report.Ended {
		list = append(list, program+" does not run")
	}
	return strings.Join(list, "; ")
}

// Silent reports whether a machine was asked and did not answer.
func (o *Observed) Silent(name string) bool {
	s := o.Machines[name]
	if s == nil {
		s = o.Replaced[name]
	}
	return s != nil && fail.KindOf(s.Err) == fail.Unreachable
}

// Dead reports whether a machine's kubelet would not confirm that pods have ended.
func (o *Observed) Dead(m provider.Machine) bool {
	if m.State != provider.Running {
		return true
	}
	if n, ok := o.Nodes[m.Name]; ok && !n.Ready {
		return true
	}
	return o.Silent(m.Name)
}

// Restarts reports whether configuring a machine restarts a server that others depend on.
func (o *Observed) Restarts(name string) bool {
	s := o.Machines[name]
	return s == nil || Disruptive(s.Report)
}

// Starts reports whether configuring a machine starts a server that others depend on and that does not run yet: this disturbs no client, but needs waiting.
func (o *Observed) Starts(name string) bool {
	s := o.Machines[name]
	return s != nil && s.Report != nil && slices.ContainsFunc(s.Report.Changes, func(ch machine.Change) bool {
		return ch.Kind == "unit" && servers[ch.Name] && ch.Action == "start"
	})
}

// RestartsKubelet reports whether the changes of a machine restart its kubelet.
func RestartsKubelet(r *machine.Report) bool {
	return r != nil && slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "unit" && ch.Name == "kubelet.service" && ch.Action == "restart"
	})
}

// Stale returns why the API's view of a node is out of date: its machine or kubelet is down, or started later; "" if it is not, or if that is unknown.
func (o *Observed) Stale(n kube.NodeInfo) string {
	s := o.Machines[n.Name]
	switch {
	case s == nil:
		return ""
	case !s.Machine.MayRun():
		return "its machine is " + string(s.Machine.State)
	case s.Report == nil:
		return ""
	}
	return n.Stale(s.Report.Life)
}

// LeaderLast returns the wanted machines with the one of etcd's leader last, because each change of the leader delays writes.
func (o *Observed) LeaderLast() []wanted.Slot {
	leads := func(s wanted.Slot) bool {
		return slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return h.Leader && h.Name == s.Name })
	}
	var leader []wanted.Slot
	others := slices.DeleteFunc(slices.Clone(o.Want), func(s wanted.Slot) bool {
		if leads(s) {
			leader = append(leader, s)
		}
		return leads(s)
	})
	return append(others, leader...)
}

// TakesPods reports whether a machine that will be removed serves until then.
func (o *Observed) TakesPods(m provider.Machine) bool {
	n := o.Nodes[m.Name]
	return !o.Dead(m) && n.Ready && !n.Unschedulable
}

// Expected lists the wanted machines without the extra machines of a roll that were not created.
func (o *Observed) Expected() []wanted.Slot {
	return slices.DeleteFunc(slices.Clone(o.Want), func(s wanted.Slot) bool { return s.Surge && o.Machine(s.Name) == nil })
}

// Things lists the observations, one a line, sorted: machines with states and addresses, nodes, members of etcd, and servers that did not answer. Two plans
// from the same lines were made from the same observed state.
func (o *Observed) Things() []string {
	var out []string
	add := func(words ...string) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		out = append(out, strings.Join(words, " "))
	}
	for _, m := range o.Inventory.Machines {
		add("machine", m.Name, string(m.State), m.Address, m.Public, m.ID)
	}
	for _, other := range o.Inventory.Others {
		add("other", other)
	}
	if o.Inventory.VIP != "" {
		add("virtual address", o.Inventory.VIP)
	}
	for name, n := range o.Nodes {
		add("node", name, n.Version)
	}
	for _, m := range o.Members {
		add("etcd member", m.Name)
	}
	if o.APIErr != nil {
		add("the API does not answer")
	}
	if o.EtcdErr != nil {
		add("etcd does not answer")
	}
	slices.Sort(out)
	return out
}

// NodeWords describes a node's readiness in words, such as "Ready, cordoned".
func (o *Observed) NodeWords(n kube.NodeInfo) string {
	w, stale := "Ready", o.Stale(n)
	switch {
	case !n.Ready:
		w = "not ready: " + n.Reason
	case stale != "":
		w = "not ready: " + stale
	}
	if n.Unschedulable {
		w += ", cordoned"
	}
	return w
}
