package v1alpha1

import "strconv"

// The roles of machines.
const (
	RoleControlPlane = "control-plane"
	RoleWorker       = "worker"
	RoleGateway      = "gateway"
)

// The middle part of the names of machines that are in no pool. Pools may not have these names.
const (
	GroupControlPlane = "cp"
	GroupGateway      = "gw"
)

// Machine is one machine that the document wants.
type Machine struct {
	Name  string       // unique in the cluster, a DNS label
	Role  string       // RoleControlPlane, RoleWorker or RoleGateway
	Pool  string       // of a worker; otherwise empty
	Index int          // 1-based within role and pool
	Host  *HostMachine // with provider hosts: the machine's entry in the document
}

// MachineName returns the name of a machine: "demo-cp-1", "demo-gw-1", "demo-general-1".
func MachineName(cluster, role, pool string, index int) string {
	group := pool
	switch role {
	case RoleControlPlane:
		group = GroupControlPlane
	case RoleGateway:
		group = GroupGateway
	}
	return cluster + "-" + group + "-" + strconv.Itoa(index)
}

// Machines returns every machine of a defaulted document: gateways, control plane, then workers in the order of their pools. With provider hosts
// these are the listed machines, in their order within each role and pool.
func (c *Cluster) Machines() []Machine {
	if c.Spec.Provider.Hosts != nil {
		return c.hostMachines()
	}
	var ms []Machine
	add := func(role, pool string, n int) {
		for i := 1; i <= n; i++ {
			ms = append(ms, Machine{Name: MachineName(c.Metadata.Name, role, pool, i), Role: role, Pool: pool, Index: i})
		}
	}
	add(RoleGateway, "", c.GatewayCount())
	add(RoleControlPlane, "", c.Spec.ControlPlane.Replicas)
	for i := range c.Spec.Workers {
		add(RoleWorker, c.Spec.Workers[i].Name, c.Spec.Workers[i].Count())
	}
	return ms
}

func (c *Cluster) hostMachines() []Machine {
	var ms []Machine
	add := func(role, pool string) {
		index := 0
		for i := range c.Spec.Provider.Hosts.Machines {
			h := &c.Spec.Provider.Hosts.Machines[i]
			if h.Role == role && h.Pool == pool {
				index++
				ms = append(ms, Machine{Name: h.Name, Role: role, Pool: pool, Index: index, Host: h})
			}
		}
	}
	add(RoleGateway, "")
	add(RoleControlPlane, "")
	for i := range c.Spec.Workers {
		add(RoleWorker, c.Spec.Workers[i].Name)
	}
	return ms
}

// GatewayCount returns the number of gateways of a defaulted document; 0 if the endpoint is of another kind.
func (c *Cluster) GatewayCount() int {
	if c.Spec.Endpoint.Gateways == nil {
		return 0
	}
	return c.Spec.Endpoint.Gateways.Replicas
}

// WorkerCount returns the number of workers of all pools of a defaulted document.
func (c *Cluster) WorkerCount() int {
	n := 0
	for i := range c.Spec.Workers {
		n += c.Spec.Workers[i].Count()
	}
	return n
}

// MostWorkers returns the number of workers of all pools of a defaulted document when pools that scale have their maximum size.
func (c *Cluster) MostWorkers() int {
	n := 0
	for i := range c.Spec.Workers {
		n += c.Spec.Workers[i].Most()
	}
	return n
}

// Scales reports whether a cluster-autoscaler decides, within the document's bounds, how many machines the pool has.
func (p Pool) Scales() bool { return p.MaxReplicas > 0 }

// Least returns the minimum number of machines of a pool that scales.
func (p Pool) Least() int {
	if p.MinReplicas == nil {
		return 0
	}
	return *p.MinReplicas
}

// Most returns the maximum number of machines of the pool.
func (p Pool) Most() int { return max(p.Count(), p.MaxReplicas) }

// Count returns the pool's number of machines; 0 if the document is not defaulted yet and gives no number.
func (p Pool) Count() int {
	if p.Replicas == nil {
		return 0
	}
	return *p.Replicas
}
