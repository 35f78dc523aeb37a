package watch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Frame is one look at all clusters.
type Frame struct {
	At       time.Time     `json:"at"`
	Clusters []TopCluster  `json:"clusters"`
	Problem  string        `json:"problem,omitempty"` // why the list of clusters is out of date
	States   map[State]int `json:"states"`            // how many clusters are in each state
}

// State is a cluster's state, or "unknown".
type State = string

// TopCluster is one cluster of a frame.
type TopCluster struct {
	Name       string         `json:"name"`
	Provider   string         `json:"provider"`
	Kubernetes string         `json:"kubernetes,omitempty"`
	State      State          `json:"state"`
	Cause      string         `json:"cause,omitempty"`
	Remedy     string         `json:"remedy,omitempty"`
	Seen       time.Time      `json:"seen,omitzero"`     // when it was last seen; zero: never
	Problem    string         `json:"problem,omitempty"` // why no later look succeeded
	Job        string         `json:"job,omitempty"`     // verb of the job that works on it, and its holder
	Quorum     *report.Quorum `json:"quorum,omitempty"`
	Leader     string         `json:"leader,omitempty"` // of etcd
	DB         int64          `json:"etcdBytes,omitempty"`
	Lag        uint64         `json:"etcdLag"`
	Nodes      int            `json:"nodes"`
	Ready      int            `json:"nodesReady"`
	Machines   []TopMachine   `json:"machines"`
}

// TopMachine is one machine of a frame.
type TopMachine struct {
	Name        string `json:"name"`
	Role        string `json:"role"`
	State       string `json:"state"`
	Node        string `json:"node,omitempty"`
	Etcd        string `json:"etcd,omitempty"`
	CPU         int64  `json:"cpuMilli"`
	Memory      int64  `json:"memoryBytes"`
	MemoryTotal int64  `json:"memoryTotalBytes"`
	Disk        int64  `json:"diskBytes"`
	DiskTotal   int64  `json:"diskTotalBytes"`
	Measured    bool   `json:"measured"` // whether its kubelet reported its usage
}

// known is the last known state of a cluster.
type known struct {
	row     operate.Row
	status  *report.Status // nil: never seen
	usage   map[string]usage
	seen    time.Time
	problem string // of the last look; empty: it succeeded
}

// usage is a node's measured resource usage.
type usage struct{ cpu, memory, memoryTotal, disk, diskTotal int64 }

// usages indexes a list by node.
func usages(list *operate.UsageList) map[string]usage {
	out := map[string]usage{}
	if list != nil {
		for _, u := range list.Items {
			out[u.Node] = usage{u.CPU, u.Memory, u.MemoryTotal, u.Disk, u.DiskTotal}
		}
	}
	return out
}

// frameOf renders the known clusters as a frame.
func frameOf(all []*known, problem string, now time.Time) *Frame {
	f := &Frame{At: now, Clusters: []TopCluster{}, Problem: problem, States: map[State]int{}}
	for _, k := range all {
		c := k.cluster()
		f.States[c.State]++
		f.Clusters = append(f.Clusters, c)
	}
	return f
}

func (k *known) cluster() TopCluster {
	c := TopCluster{Name: k.row.Name, Provider: k.row.Provider, Kubernetes: k.row.Kubernetes, State: "unknown", Seen: k.seen, Problem: k.problem, Job: k.row.Lease, Machines: []TopMachine{}}
	st := k.status
	if st == nil {
		return c
	}
	c.State, c.Cause, c.Remedy, c.Quorum = string(st.StateWord()), st.Cause, st.Remedy, st.Quorum
	for _, m := range st.Machines {
		t := TopMachine{Name: m.Name, Role: m.Role, State: m.State, Node: m.Node, Etcd: m.Etcd}
		if u, ok := k.usage[m.Name]; ok {
			t.CPU, t.Memory, t.MemoryTotal, t.Disk, t.DiskTotal, t.Measured = u.cpu, u.memory, u.memoryTotal, u.disk, u.diskTotal, true
		}
		if m.Node != "" {
			c.Nodes++
			if strings.HasPrefix(m.Node, "Ready") {
				c.Ready++
			}
		}
		if e := m.Member; e != nil {
			if e.Leader {
				c.Leader = m.Name
			}
			c.DB, c.Lag = max(c.DB, e.DB), max(c.Lag, e.Lag)
		}
		c.Machines = append(c.Machines, t)
	}
	return c
}

// headline summarizes a frame.
func (f *Frame) headline() string {
	var parts []string
	for _, state := range []State{"unhealthy", "drifted", "healthy", "unknown"} {
		if n := f.States[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return words.Count(len(f.Clusters), "cluster", "clusters") + ": " + cmp.Or(strings.Join(parts, ", "), "none")
}

// Frame writes a frame as text.
func (s Screen) Frame(w io.Writer, f *Frame) error {
	if _, err := fmt.Fprintf(w, "%s  %s\n\n", f.At.Local().Format(time.TimeOnly), f.headline()); err != nil {
		return err
	}
	if f.Problem != "" {
		if err := s.paragraph(w, "", "  ", words.Line(f.Problem)); err != nil {
			return err
		}
	}
	rows := [][]string{}
	for _, c := range f.Clusters {
		rows = append(rows, c.cells(f.At))
	}
	if err := s.table(w, clusterColumns(), rows); err != nil {
		return err
	}
	rows = [][]string{}
	for _, c := range f.Clusters {
		for _, m := range c.Machines {
			rows = append(rows, m.cells(c.Name))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return s.table(w, machineColumns(), rows)
}

func clusterColumns() []column {
	return []column{{head: "CLUSTER"}, {head: "STATE", tint: stateColor}, {head: "KUBERNETES", keep: 2}, {head: "NODES"}, {head: "ETCD"}, {head: "LEADER", keep: 3}, {head: "DB", keep: 4}, {head: "LAG", keep: 1}, {head: "SEEN"}, {head: "IN PROGRESS", keep: 6}, {head: "CAUSE", keep: 5}}
}

// cells are the cluster's cells of clusterColumns.
func (c TopCluster) cells(now time.Time) []string {
	etcd, db, lag, nodes := "", "", "", ""
	if q := c.Quorum; q != nil {
		etcd, db, lag = fmt.Sprintf("%d/%d", q.Healthy, q.Voters), size(c.DB), fmt.Sprint(c.Lag)
	}
	if c.Nodes > 0 {
		nodes = fmt.Sprintf("%d/%d", c.Ready, c.Nodes)
	}
	seen := "asking"
	switch {
	case !c.Seen.IsZero():
		seen = ago(now, c.Seen) + " ago"
	case c.Problem != "":
		seen = "never"
	}
	cause := c.Cause
	if c.Problem != "" {
		cause = "not seen: " + c.Problem
	}
	return []string{c.Name, c.State, c.Kubernetes, nodes, etcd, c.Leader, db, lag, seen, job(c.Job), shorten(cause)}
}

// job shortens a lease to its verb.
func job(lease string) string {
	verb, _, _ := strings.Cut(lease, " by ")
	return verb
}

func shorten(text string) string {
	line := []rune(words.Line(text))
	const most = 60
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most-1]) + "…"
}

func machineColumns() []column {
	return []column{{head: "CLUSTER", keep: 1}, {head: "MACHINE"}, {head: "ROLE", keep: 2}, {head: "STATE", tint: stateColor}, {head: "NODE", tint: stateColor}, {head: "ETCD", keep: 3, tint: stateColor}, {head: "CPU", keep: 6}, {head: "MEMORY", keep: 5}, {head: "DISK", keep: 4}}
}

// cells are the machine's cells of machineColumns.
func (m TopMachine) cells(cluster string) []string {
	cpu, memory, disk := "", "", ""
	if m.Measured {
		cpu = cores(m.CPU)
		memory = share(m.Memory, m.MemoryTotal)
		disk = share(m.Disk, m.DiskTotal)
	}
	return []string{cluster, m.Name, m.Role, m.State, shorten(m.Node), shorten(m.Etcd), cpu, memory, disk}
}

// share renders a part of a whole, with its percentage.
func share(part, whole int64) string {
	if whole <= 0 {
		return size(part)
	}
	return fmt.Sprintf("%s/%s %d%%", size(part), size(whole), 100*part/whole)
}

// merge returns the known clusters of a new list. Clusters that stay keep their last known state.
func merge(all []*known, rows []operate.Row, only string) []*known {
	var out []*known
	for _, r := range rows {
		if only != "" && r.Name != only {
			continue
		}
		i := slices.IndexFunc(all, func(k *known) bool { return k.row.Name == r.Name && k.row.ID == r.ID })
		if i < 0 {
			out = append(out, &known{row: r})
			continue
		}
		all[i].row = r
		out = append(out, all[i])
	}
	slices.SortStableFunc(out, func(a, b *known) int { return strings.Compare(a.row.Name, b.row.Name) })
	return out
}
