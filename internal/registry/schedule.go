package registry

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// The older system's names of the roles that a pool's machines get.
const (
	RoleEtcd         = "etcd-member"
	RoleControlPlane = "kubernetes-control-plane"
	RoleNode         = "kubernetes-node"
)

// ControlPlanePool is the pool of a cluster's control plane.
const ControlPlanePool = "control-plane"

// Wanted is a cluster's request for machines.
type Wanted struct {
	Cluster      string `json:"cluster"`
	ControlPlane Pool   `json:"controlPlane"`
	Workers      []Pool `json:"workers,omitempty"`
	// Spread is the label with the failure domain, such as the rack. Machines without it are grouped by the switch that they are connected to.
	Spread string `json:"spread,omitempty"`
}

// Pool is the request of one pool.
type Pool struct {
	Name     string            `json:"name,omitempty"` // ignored for the control plane, which is ControlPlanePool
	Replicas int               `json:"replicas"`       // -1: all available machines, for workers
	Selector map[string]string `json:"selector,omitempty"`
}

// Decision is the result of Schedule.
type Decision struct {
	Given   []Given  `json:"given"`
	Waiting []string `json:"waiting"` // missing machines, in words
}

// Given is a machine for a pool.
type Given struct {
	UUID    string `json:"uuid"`
	Machine string `json:"machine"` // its name, or MAC address
	Pool    string `json:"pool"`
	Seat    int    `json:"seat"`
	Domain  string `json:"domain"` // rack or switch; empty: unknown
	control bool
}

// Roles returns the roles that the machine gets.
func (g Given) Roles() []string { return rolesOf(g.control) }

func rolesOf(control bool) []string {
	if control {
		return []string{RoleEtcd, RoleControlPlane}
	}
	return []string{RoleNode}
}

// Schedule decides which machines a cluster gets. It is deterministic: the same machines lead to the same decision.
//
// A control plane starts only when its whole odd number of machines is available; until then no machine that could be part of it becomes a
// worker. Later it gets only the machines that it lacks: a lost member costs one machine, and workers don't wait for it.
func Schedule(w Wanted, all []Machine) (*Decision, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	d := &Decision{Given: []Given{}, Waiting: []string{}}
	s := &scheduler{w: w, out: d, all: slices.SortedFunc(slices.Values(all), func(a, b Machine) int { return cmp.Compare(a.UUID, b.UUID) }), taken: map[string]bool{}}
	if waits := s.fill(w.ControlPlane, true); waits {
		for _, m := range s.all { // kept for the control plane
			if usable(m) && matches(m, w.ControlPlane.Selector) {
				s.taken[m.UUID] = true
			}
		}
	}
	for _, p := range w.Workers {
		s.fill(p, false)
	}
	return d, nil
}

// check refuses impossible requests with fail.Invalid.
func (w *Wanted) check() error {
	w.ControlPlane.Name = ControlPlanePool
	if !nameForm.MatchString(w.Cluster) {
		return fail.New(fail.Invalid, "%q is not a name of a cluster", w.Cluster)
	}
	if n := w.ControlPlane.Replicas; n < 1 || n%2 == 0 || n > 9 {
		return fail.New(fail.Invalid, "a control plane of %d machines is not wanted: their number has to be odd", n).At(w.Cluster).Do("take 1, 3, 5, 7 or 9")
	}
	seen := []string{ControlPlanePool}
	for _, p := range w.Workers {
		if !nameForm.MatchString(p.Name) || slices.Contains(seen, p.Name) || p.Replicas < -1 {
			return fail.New(fail.Invalid, "the pool %q can't be: pools need names of their own and a number of machines, or -1 for all", p.Name).At(w.Cluster)
		}
		seen = append(seen, p.Name)
	}
	return nil
}

// scheduler is the state of one decision.
type scheduler struct {
	w     Wanted
	all   []Machine
	taken map[string]bool // given, or kept
	out   *Decision
}

// fill gives a pool its missing machines, and reports whether a control plane can't start yet.
func (s *scheduler) fill(p Pool, control bool) (waits bool) {
	var seats []int
	domains := map[string]int{}
	for _, m := range s.all {
		if m.Claim.Cluster == s.w.Cluster && m.Claim.Pool == p.Name {
			seats = append(seats, m.Claim.Seat)
			domains[s.domain(m)]++
		}
	}
	var free []Machine
	for _, m := range s.all {
		if usable(m) && !s.taken[m.UUID] && matches(m, p.Selector) {
			free = append(free, m)
		}
	}
	lacks := p.Replicas - len(seats)
	if p.Replicas < 0 {
		lacks = len(free)
	}
	if lacks <= 0 {
		return false
	}
	if short := lacks - len(free); short > 0 {
		s.out.Waiting = append(s.out.Waiting, fmt.Sprintf("%s lacks %d of %d machines", p.Name, short, p.Replicas))
		if control && len(seats) == 0 {
			return true
		}
	}
	for range min(lacks, len(free)) {
		i := s.best(free, domains)
		m := free[i]
		free = slices.Delete(free, i, i+1)
		seat := lowest(seats)
		seats = append(seats, seat)
		domains[s.domain(m)]++
		s.taken[m.UUID] = true
		s.out.Given = append(s.out.Given, Given{UUID: m.UUID, Machine: m.Title(), Pool: p.Name, Seat: seat, Domain: s.domain(m), control: control})
	}
	return false
}

// best returns the index of the first free machine in the domain with the fewest machines of the pool.
func (s *scheduler) best(free []Machine, domains map[string]int) int {
	best := 0
	for i := range free {
		if domains[s.domain(free[i])] < domains[s.domain(free[best])] {
			best = i
		}
	}
	return best
}

// domain returns the failure domain of a machine: the value of the label Spread, or else its switch.
func (s *scheduler) domain(m Machine) string {
	if v := m.Labels[s.w.Spread]; s.w.Spread != "" && v != "" {
		return v
	}
	if m.Record.Chassis != nil {
		return *m.Record.Chassis
	}
	if m.Facts == nil {
		return ""
	}
	return chassisOf(m.Facts)
}

// chassisOf returns the ID of the switch on a machine's boot interface, or else of the first switch that it sees.
func chassisOf(d *facts.Discovery) string {
	name := ""
	if n := d.BootInterface(); n != nil {
		name = n.Name
	}
	return d.ChassisOf(name)
}

// lowest returns the lowest free seat.
func lowest(taken []int) int {
	for n := 1; ; n++ {
		if !slices.Contains(taken, n) {
			return n
		}
	}
}

// usable reports whether a machine is approved, free, not in maintenance, not failed, and has a disk.
func usable(m Machine) bool {
	return Approval(m.Approval) == Approved && m.Claim.Cluster == "" && len(m.Roles) == 0 && m.Record.Maintenance == "" &&
		State(m.State) != Failed && hasDisk(m)
}

// hasDisk uses the summary of the facts if the facts are not loaded.
func hasDisk(m Machine) bool {
	if m.Facts == nil {
		return m.Record.Disks != ""
	}
	return slices.ContainsFunc(m.Facts.Disks, fixed)
}

// The reasons why a free machine can't be used.
const (
	Unapproved  = "unapproved"
	Maintenance = "maintenance"
	Broken      = "failed" // its installation failed
	Diskless    = "diskless"
)

// Obstacles lists these reasons.
func Obstacles() []string { return []string{Unapproved, Maintenance, Broken, Diskless} }

// unusable returns the reason why a free machine can't be used, for searches; empty if it can. It agrees with Unusable, but works without the
// machine's facts.
func unusable(a Approval, s State, rec *Record) string {
	switch {
	case a != Approved:
		return Unapproved
	case rec.Maintenance != "":
		return Maintenance
	case s == Failed:
		return Broken
	case rec.Disks == "":
		return Diskless
	}
	return ""
}

// Unusable says why a machine can't be given to a cluster; empty if it can.
func Unusable(m Machine) string {
	switch {
	case Approval(m.Approval) != Approved:
		return "it is not approved"
	case m.Claim.Cluster != "":
		return "it is " + m.Claim.Cluster + "'s"
	case len(m.Roles) > 0:
		return "it has a role"
	case m.Record.Maintenance != "":
		return "it is in maintenance: " + m.Record.Maintenance
	case State(m.State) == Failed:
		return "its installation failed"
	case !usable(m):
		return "it has no disk"
	}
	return ""
}

// kindOf is Unusable without names and without an operator's words, for counts.
func kindOf(m Machine) string {
	switch {
	case Approval(m.Approval) != Approved:
		return "not approved"
	case m.Claim.Cluster != "" || len(m.Roles) > 0:
		return "in use"
	case m.Record.Maintenance != "":
		return "in maintenance"
	case State(m.State) == Failed:
		return "with a failed installation"
	case !usable(m):
		return "without a disk"
	}
	return ""
}

func matches(m Machine, selector map[string]string) bool {
	for k, v := range selector {
		if have, ok := m.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
