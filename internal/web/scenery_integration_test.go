//go:build integration

package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// scenery is a site as it looks after some use: racks of machines in all states; a cluster on some of them, quay, with a paused upgrade; and a
// cluster of hosts, harbour, for plans and jobs.
type scenery struct {
	*given
	runs map[string]string // IDs of quay's runs, by verb
}

// Typical machines.
const (
	serves   = 1 // a member of quay's control plane
	installs = 9 // is being installed
)

func newScenery(t *testing.T) *scenery {
	t.Helper()
	s := &scenery{newGivenOf(t, "endpoint: {vip: 10.254.77.100}",
		"harbour-gw-1", "harbour-gw-2", "harbour-cp-1", "harbour-cp-2", "harbour-cp-3", "harbour-general-1", "harbour-general-2"), map[string]string{}}
	owned(t, "10.254.77.100") // without a server
	s.racks()
	s.quay()
	s.saw(testkit.Value(s.store.Cluster(t.Context(), "quay"))(t).ID, quayStatus())
	return s
}

// enrolled makes a machine of a rack report its facts, signed with a key.
func (s *scenery) enrolled(n int) (uuid, key string) {
	s.t.Helper()
	uuid = fmt.Sprintf("4c4c4544-0042-3510-8052-b4c04f5931%02x", n)
	mac := func(port int) string { return fmt.Sprintf("b4:96:91:0e:%02x:%02x", n, port) }
	link := func(name string, port int) facts.Neighbour {
		leaf := 1 + port%2
		return facts.Neighbour{Name: name, Port: facts.Port{ID: fmt.Sprint("Ethernet", n)}, Chassis: facts.Chassis{ID: fmt.Sprintf("44:38:39:00:0a:%02x", leaf), Name: fmt.Sprintf("leaf%d.rack%d", leaf, 1+n%3)}}
	}
	private := testkit.Value(facts.NewKey())(s.t)
	d := facts.Discovery{
		Boot: facts.BootInfo{UUID: uuid, MAC: mac(0), RandomID: fmt.Sprintf("5b1f0a52-7c31-4d55-9a6e-0000000000%02x", n)},
		Interfaces: []facts.Interface{
			{Name: "eno1", MAC: mac(0), IPv4: fmt.Sprint("10.20.0.", 10+n), CIDRv4: fmt.Sprintf("10.20.0.%d/24", 10+n), Netmask: 24, Gateway: "10.20.0.1",
				FQDN: []string{fmt.Sprintf("m%02d.rack%d.example.org", n, 1+n%3)}, Link: true, Speed: 25000, Driver: "mlx5_core", Addresses: []string{fmt.Sprintf("10.20.0.%d/24", 10+n), fmt.Sprintf("fd20::%x/64", 10+n)}},
			{Name: "eno2", MAC: mac(1), Link: true, Speed: 25000, Driver: "mlx5_core"},
			{Name: "eno3", MAC: mac(2), Driver: "igb"},
		},
		Disks: []facts.Disk{
			{Path: "/dev/nvme0n1", SizeBytes: 480103981056, Serial: fmt.Sprintf("S64FNE0R8%05d", n), Model: "SAMSUNG MZQL2480HCJR", Type: "nvme", Holds: []string{"gpt"}},
			{Path: "/dev/sda", SizeBytes: 7681501126656, Serial: fmt.Sprintf("ZHZ4%04dKT", n), Model: "ST8000NM000A", Type: "sas", Rotates: true},
		},
		LLDP:    facts.LLDP{IsFile: true, Data: facts.LLDPData{Interfaces: []facts.Neighbour{link("eno1", 0), link("eno2", 1)}}},
		Journal: []string{"systemd[1]: Started naupegos-agent.service.", "naupegos-agent[611]: 3 interfaces, 2 disks, LLDP of 2 switches", "naupegos-agent[611]: clock set from the server: it was 2.1s slow"},
		System: &facts.System{Manufacturer: "Dell Inc.", Product: "PowerEdge R6615", Serial: fmt.Sprintf("B5RY1%02d", n), Firmware: "efi", CPU: "AMD EPYC 9354P 32-Core Processor", CPUs: 64,
			MemoryBytes: 270e9, BMC: fmt.Sprint("10.20.1.", 10+n), Kernel: "6.12.48+deb13-amd64", Architecture: "amd64"},
		Enrolment: &facts.Enrolment{Request: testkit.Value(facts.NewRequest(private, uuid))(s.t), Sequence: 1},
	}
	body := testkit.Value(json.Marshal(d))(s.t)
	got := testkit.Value(s.pages.c.Machines.Discover(s.t.Context(), body, testkit.Value(facts.Sign(private, body))(s.t)))(s.t)
	return uuid, got.Key
}

// rackUUID returns the UUID of the nth machine.
func rackUUID(n int) string { return fmt.Sprintf("4c4c4544-0042-3510-8052-b4c04f5931%02x", n) }

// racks adds twelve machines: six that run for quay, one each that is free, failed, in maintenance and being installed, and two that wait for approval.
func (s *scenery) racks() {
	s.t.Helper()
	ctx, m, t := s.t.Context(), s.pages.c.Machines, s.t
	is := func(_ *registry.Machine, err error) { t.Helper(); testkit.Must(t, err) }
	for n := 1; n <= 12; n++ {
		uuid, key := s.enrolled(n)
		if n > 10 {
			continue
		}
		is(m.Approve(ctx, uuid, key, "ada"))
		is(m.Rename(ctx, uuid, fmt.Sprintf("rack%d-u%02d", 1+n%3, 2*n)))
		is(m.Label(ctx, uuid, map[string]string{"rack": fmt.Sprint("r", 1+n%3)}, nil))
		now := func() *registry.Machine { return testkit.Value(m.Machine(ctx, uuid))(t) }
		switch n {
		case 7: // stays free
		case 8:
			testkit.Value(m.Authorize(ctx, now()))(t)
			testkit.Must(t, m.Finish(ctx, now(), false, []string{"write root to /dev/nvme0n1", "/dev/nvme0n1: I/O error at sector 8261632", "gave up after 3 tries"}))
		case installs:
			testkit.Value(m.Authorize(ctx, now()))(t)
			testkit.Value(m.Renew(ctx, now(), registry.Progress{Stage: "write root", Done: 410e6, Total: 1250e6}))(t)
		case 10:
			is(m.Maintain(ctx, uuid, "a fan is loud, ticket 4711"))
		default:
			pool := "general"
			if n <= 3 {
				pool = registry.ControlPlanePool
			}
			testkit.Must(t, m.Assign(ctx, uuid, "quay", pool))
			testkit.Value(m.Authorize(ctx, now()))(t)
			testkit.Must(t, m.Finish(ctx, now(), true, []string{"the smallest disk that fits is /dev/nvme0n1 (480 GB)", "wrote the boot loaders", "wrote root to slot a: 1.25 GB in 9.3s, its checksum is right", "the next boot is from disk"}))
			is(m.SetStrategy(ctx, uuid, "reboot"))
			is(m.SetBMC(ctx, uuid, registry.BMC{Address: fmt.Sprint("10.20.1.", 10+n), User: "naupegos"}, []byte("s3cret")))
			is(m.Want(ctx, uuid, "sha256:9d1c"))
			digest := "sha256:9d1c"
			if n == 6 {
				digest = "sha256:77f0"
			}
			testkit.Value(m.Report(ctx, now(), fmt.Sprintf("c2a1d6de-11e5-4ef4-8c6a-0000000000%02x", n), digest, 1))(t)
		}
	}
	_, _, err := m.Groups().Lock(ctx, "quay", rackUUID(6))
	testkit.Must(t, err)
}

// quay adds the cluster of physical machines, with its runs.
func (s *scenery) quay() {
	s.t.Helper()
	t := s.t
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "quay", Provider: metalProvider, Document: []byte(quay),
		Facts: store.Facts{{Kind: string(memory.Bundle)}: "v1.37.2 " + strings.Repeat("a", 64)}}))(t)
	nodes := []string{"quay-cp-1", "quay-cp-2", "quay-cp-3", "quay-general-1", "quay-general-2", "quay-general-3"}
	var all, upgraded []plan.Step
	for _, n := range nodes {
		all = append(all, plan.Step{ID: "machine/" + n, Title: "install machine " + n, Subject: n},
			plan.Step{ID: "configure/" + n, Title: "configure " + n, Subject: n, Needs: []string{"machine/" + n}})
	}
	all = append(all, plan.Step{ID: "api", Title: "wait for the Kubernetes API", Subject: "cluster", Needs: []string{"configure/quay-cp-1", "configure/quay-cp-2", "configure/quay-cp-3"}})
	for _, n := range nodes {
		all = append(all, plan.Step{ID: "node/" + n, Title: "wait for node " + n, Subject: n, Needs: []string{"api", "configure/" + n}})
	}
	before := ""
	for _, n := range nodes {
		var needs []string
		if before != "" {
			needs = []string{before}
		}
		before = "upgrade/" + n
		upgraded = append(upgraded, plan.Step{ID: before, Title: "upgrade " + n + " to v1.37.2", Subject: n, Needs: needs})
	}
	ran := func(verb string, outcome plan.Outcome, meta map[string]string, last plan.StepState, steps ...plan.Step) {
		t.Helper()
		p := &plan.Plan{Verb: verb, Cluster: "quay"}
		for i := range steps {
			steps[i].Action, steps[i].Reason = plan.Change, "it is wanted"
			p.Steps = append(p.Steps, &steps[i])
		}
		j := s.store.Journal(c.ID)
		id := testkit.Value(j.Begin(t.Context(), p, meta))(t)
		at := time.Now()
		for i, step := range steps {
			begun := at.Add(time.Duration(i*i%17) * time.Second)
			testkit.Must(t, j.Step(t.Context(), id, step.ID, plan.Running, begun, ""))
			state, why := plan.Succeeded, ""
			if i == len(steps)-1 {
				if state = last; last == plan.Failed {
					why = "quay-general-3 is not Ready: kubelet has stopped posting node status"
				}
			}
			testkit.Must(t, j.Step(t.Context(), id, step.ID, state, begun.Add(time.Duration(3+i%5)*7*time.Second), why))
		}
		testkit.Must(t, j.End(t.Context(), id, outcome, nil))
		s.runs[verb] = id
	}
	ran("apply", plan.OutcomeSucceeded, nil, plan.Succeeded, all...)
	ran("update", plan.OutcomeFailed, nil, plan.Failed, plan.Step{ID: "update/quay-general-3", Title: "quay-general-3 is ready again", Subject: "quay-general-3"})
	ran("backup create", plan.OutcomeSucceeded, nil, plan.Succeeded, plan.Step{ID: backups.BackupStep, Title: "create a backup", Subject: "cluster"})
	ran(operate.Rehearse, plan.OutcomeSucceeded, nil, plan.Succeeded, plan.Step{ID: operate.RehearseStep + "20261126T031500Z-4f2a", Title: "rehearse backup 20261126T031500Z-4f2a", Subject: "cluster"})
	ran(upgrade, plan.OutcomeSucceeded, map[string]string{operate.MetaPause: "quay-cp-1"}, plan.Succeeded, upgraded[:1]...)
	for kind, message := range map[string]string{"drift": "everything is as the document wants it", "certificates": "none is due before 2027-05-26", "backup": "quay has no newer one than of 03:15"} {
		d := testkit.Value(s.store.TakeDuty(t.Context(), "quay", kind, time.Hour))(t)
		d.Outcome, d.Message = store.DutyDone, message
		testkit.Must(t, s.store.EndDuty(t.Context(), d, time.Hour))
	}
}

const quay = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata:
  name: quay
spec:
  kubernetes:
    version: v1.37.2
  provider:
    metal: {}
  controlPlane:
    replicas: 3
  workers:
    - name: general
      replicas: 3
  endpoint:
    vip: 10.20.0.100
`

// quayStatus returns quay's status.
func quayStatus() *report.Status {
	s := &report.Status{Name: "quay", State: report.Healthy, Quorum: &report.Quorum{Voters: 3, Healthy: 3, Needed: 2, Tolerates: 1}, Provider: metalProvider, Kubernetes: "v1.37.2", Endpoint: "10.20.0.100:6443", API: "ready", Etcd: "3 of 3 voters healthy, tolerates 1",
		Upgrade: "v1.37.1 to v1.37.2, 1 of 6 machines", Expires: time.Now().AddDate(0, 6, 0), ExpiresOf: "quay-cp-2 kubelet",
		Backups: &backups.Backups{Last: time.Now().Add(-5 * time.Hour), LastID: "20261126T211500Z-91be", Proven: time.Now().Add(-23 * time.Hour), ProvenID: "20261126T031500Z-4f2a"}}
	for i, name := range []string{"quay-gw-1", "quay-gw-2", "quay-cp-1", "quay-cp-2", "quay-cp-3", "quay-general-1", "quay-general-2", "quay-general-3"} {
		m := report.MachineStatus{Name: name, Role: "worker", Pool: "general", Address: fmt.Sprint("10.20.0.", 8+i), State: "running", Config: "up to date", Node: "Ready", Version: "v1.37.1"}
		switch {
		case i < 2:
			m.Role, m.Pool, m.Node, m.Version = "gateway", "", "", ""
		case i < 5:
			m.Role, m.Pool, m.Etcd = "control-plane", "", "voter"
		}
		switch name {
		case "quay-cp-1":
			m.Version = "v1.37.2"
		case "quay-cp-2":
			m.Etcd = "leader"
		case "quay-general-3":
			m.Config, m.Node = "3 changes", "not Ready: kubelet has stopped posting node status"
		}
		s.Machines = append(s.Machines, m)
	}
	return s
}
