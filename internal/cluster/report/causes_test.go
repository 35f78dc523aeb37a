package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/fail"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// sound returns a healthy cluster of three control-plane machines, a worker and a gateway, and its signs.
func sound() (*Status, *signs) {
	s := &Status{Name: "demo", Provider: "local", Kubernetes: "v1.37.2", API: "ready", DocumentFile: "cluster.yaml",
		Quorum: &Quorum{Voters: 3, Healthy: 3, Needed: 2, Tolerates: 1}, Expires: noon.Add(300 * 24 * time.Hour), ExpiresOf: "demo-cp-1/apiserver"}
	for _, name := range []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"} {
		s.Machines = append(s.Machines, MachineStatus{Name: name, Role: "control-plane", State: "running", Config: upToDate, Changes: new(int), Node: "Ready", Etcd: "voter"})
	}
	s.Machines[0].Etcd = "leader"
	s.Machines = append(s.Machines,
		MachineStatus{Name: "demo-general-1", Role: "worker", Pool: "general", State: "running", Config: upToDate, Changes: new(int), Node: "Ready"},
		MachineStatus{Name: "demo-gw-1", Role: "gateway", State: "running", Config: upToDate, Changes: new(int)})
	return s, &signs{now: noon, built: true, unpacked: true}
}

// down makes the provider report a machine as off, with the usual consequences.
func down(s *Status, name string) {
	m := machineOf(s, name)
	m.State, m.Config, m.Changes = "stopped", "-", nil
	if m.Role != "gateway" {
		m.Node = "not ready: its machine is stopped"
	}
	if m.Role == "control-plane" {
		m.Etcd = unreachable
		s.Quorum.Healthy--
		s.Quorum.Tolerates = max(0, s.Quorum.Healthy-s.Quorum.Needed)
	}
}

func machineOf(s *Status, name string) *MachineStatus {
	return &s.Machines[slices.IndexFunc(s.Machines, func(m MachineStatus) bool { return m.Name == name })]
}

func changed(s *Status, name string, all ...Difference) {
	m, n := machineOf(s, name), len(all)
	m.Config, m.Changes, m.Differs = "changes", &n, all
}

// TestCauses: each kind of cause leads to its state, and the summary names the cause and the command that fixes it.
func TestCauses(t *testing.T) {
	file := func(name string) Difference {
		return Difference{Kind: "file", Name: name, Action: "update", Why: "content differs"}
	}
	for name, c := range map[string]struct {
		with  func(*Status, *signs)
		state State
		line  string // of the summary: the text after "Cluster demo (local, Kubernetes v1.37.2) is healthy"; from ": " on
		kinds string // of all causes, in order
	}{
		"healthy": {func(*Status, *signs) {}, Healthy, "", ""},
		"worker off": {func(s *Status, _ *signs) { down(s, "demo-general-1") }, Unhealthy,
			": demo-general-1 is off: naupegos apply -f cluster.yaml starts it", "machine-off"},
		"gateway off": {func(s *Status, _ *signs) { down(s, "demo-gw-1") }, Unhealthy,
			": demo-gw-1 is off: naupegos apply -f cluster.yaml starts it", "machine-off"},
		"control plane off": {func(s *Status, _ *signs) { down(s, "demo-cp-2") }, Unhealthy,
			": demo-cp-2 is off: naupegos apply -f cluster.yaml starts it (and 1 more)", "machine-off quorum-margin"},
		"an API server ends": {func(s *Status, _ *signs) { machineOf(s, "demo-cp-2").Ended = []string{"kube-apiserver"} }, Unhealthy,
			": demo-cp-2: kube-apiserver does not run: naupegos logs demo demo-cp-2 -c kube-apiserver shows why", "program-ended"},
		"two off": {func(s *Status, _ *signs) { down(s, "demo-general-1"); down(s, "demo-gw-1") }, Unhealthy,
			": demo-general-1 and demo-gw-1 are off: naupegos apply -f cluster.yaml starts them", "machine-off"},
		"quorum lost, machines off": {func(s *Status, g *signs) {
			down(s, "demo-cp-2")
			down(s, "demo-cp-3")
			g.apiErr = fail.New(fail.Unreachable, "list nodes")
		}, Unhealthy, ": etcd has lost its quorum: 1 of 3 voters healthy, 2 needed, and demo-cp-2 and demo-cp-3 are off: naupegos apply -f cluster.yaml starts demo-cp-2 and demo-cp-3 (and 2 more)",
			"quorum-lost api-silent machine-off"},
		"quorum lost, machines destroyed": {func(s *Status, g *signs) {
			for _, n := range []string{"demo-cp-2", "demo-cp-3"} {
				down(s, n)
				machineOf(s, n).State = missing
			}
		}, Unhealthy, ": etcd has lost its quorum: 1 of 3 voters healthy, 2 needed: naupegos etcd recover demo --from demo-cp-1 continues with its data, if the others can't come back (and 1 more)",
			"quorum-lost machine-missing"},
		"etcd silent": {func(s *Status, g *signs) {
			s.Quorum, g.etcdErr, g.apiErr = nil, fail.New(fail.Unreachable, "x"), fail.New(fail.Unreachable, "y")
		}, Unhealthy, ": etcd does not answer: naupegos doctor demo says which part does not answer (and 1 more)", "etcd-silent api-silent"},
		"API silent": {func(s *Status, g *signs) {
			g.apiErr = fail.New(fail.Unreachable, "dial")
			for i := range s.Machines[:4] {
				s.Machines[i].Node = unknown
			}
		}, Unhealthy, ": the Kubernetes API does not answer: naupegos doctor demo says which part does not answer", "api-silent"},
		"API refuses us": {func(_ *Status, g *signs) { g.apiErr = fail.New(fail.Unauthorized, "list nodes") }, Unhealthy,
			": the Kubernetes API does not accept Naupegos' certificate: naupegos doctor demo checks it", "api-silent"},
		"not built": {func(s *Status, g *signs) {
			g.built, s.Quorum = false, nil
			for i := range s.Machines {
				s.Machines[i].State, s.Machines[i].Config = missing, "-"
			}
		}, Unhealthy, ": it is not up yet: naupegos apply -f cluster.yaml builds it", "not-built"},
		"not built, file unknown": {func(s *Status, g *signs) { g.built, s.DocumentFile = false, "" }, Unhealthy, ": it is not up yet: naupegos apply -f FILE builds it", "not-built"},
		"reset underway": {func(_ *Status, g *signs) {
			g.built = false
			g.underway = &Cause{Text: "a reset is not finished", Remedy: "naupegos reset demo", Does: "continues it"}
		}, Unhealthy, ": a reset is not finished: naupegos reset demo continues it", "underway"},
		"missing": {func(s *Status, _ *signs) { m := machineOf(s, "demo-general-1"); m.State, m.Config = missing, "-" }, Unhealthy,
			": demo-general-1 does not exist: naupegos apply -f cluster.yaml creates it", "machine-missing"},
		"unreachable host": {func(s *Status, _ *signs) {
			m := machineOf(s, "demo-general-1")
			m.State, m.Config = unreachable, "no answer"
		}, Unhealthy,
			": demo-general-1 does not answer: naupegos doctor demo says why", "machine-unreachable"},
		"failed": {func(s *Status, _ *signs) { m := machineOf(s, "demo-general-1"); m.State, m.Config = "failed", "-" }, Unhealthy,
			": demo-general-1 is failed: naupegos node replace demo demo-general-1 puts another machine in its place", "machine-failed"},
		"agent silent": {func(s *Status, _ *signs) { m := machineOf(s, "demo-gw-1"); m.Problem, m.Changes = "dial tcp", nil }, Unhealthy,
			": demo-gw-1 runs, but can't be asked for its configuration: naupegos doctor demo says why", "machine-silent"},
		"node not ready": {func(s *Status, _ *signs) {
			machineOf(s, "demo-general-1").Node = "not ready: kubelet.service is inactive"
		}, Unhealthy,
			": node demo-general-1 is not ready: kubelet.service is inactive: naupegos repair demo --machine demo-general-1 repairs it", "node-not-ready"},
		"not registered": {func(s *Status, _ *signs) { machineOf(s, "demo-general-1").Node = notRegistered }, Unhealthy,
			": node demo-general-1 is not registered: naupegos apply -f cluster.yaml waits for it, and says what keeps it away", "node-missing"},
		"member lost": {func(s *Status, _ *signs) {
			machineOf(s, "demo-cp-3").Etcd = notAMember
			s.Quorum = &Quorum{Voters: 2, Healthy: 2, Needed: 2}
		}, Unhealthy, ": demo-cp-3 is not a member of etcd: naupegos apply -f cluster.yaml joins it", "etcd-member"},
		"member silent": {func(s *Status, _ *signs) {
			machineOf(s, "demo-cp-3").Etcd = unreachable
			s.Quorum = &Quorum{Voters: 3, Healthy: 2, Needed: 2}
		}, Unhealthy, ": the etcd member of demo-cp-3 does not answer: naupegos ssh demo demo-cp-3 -- journalctl -n 50 -u kubelet -u containerd shows why (and 1 more)", "etcd-member quorum-margin"},
		"member full": {func(s *Status, _ *signs) {
			machineOf(s, "demo-cp-3").Etcd = "NOSPACE"
			s.Quorum = &Quorum{Voters: 3, Healthy: 2, Needed: 2}
		}, Unhealthy, ": the etcd member of demo-cp-3 raises an alarm: NOSPACE: naupegos ssh demo demo-cp-3 -- journalctl -n 50 -u kubelet -u containerd shows why (and 1 more)", "etcd-member quorum-margin"},
		"margin of five": {func(s *Status, _ *signs) { s.Quorum = &Quorum{Voters: 5, Healthy: 4, Needed: 3, Tolerates: 1} }, Unhealthy,
			": etcd tolerates only 1 further failure: 4 of 5 voters healthy, 3 needed", "quorum-margin"},
		"one control plane": {func(s *Status, _ *signs) { s.Quorum = &Quorum{Voters: 1, Healthy: 1, Needed: 1} }, Healthy, "", ""},
		"certificate due": {func(s *Status, _ *signs) { s.Due = []string{"a"} }, Drifted,
			": certificate a is due for renewal: naupegos renew demo renews it", "certificate-due"},
		"certificates due": {func(s *Status, _ *signs) { s.Due = []string{"a", "b"} }, Drifted,
			": 2 certificates are due for renewal, the first is a: naupegos renew demo renews them", "certificate-due"},
		"certificate expired": {func(s *Status, _ *signs) { s.Due, s.Expires = []string{"demo-cp-1/apiserver"}, noon.Add(-time.Second) }, Unhealthy,
			": certificate demo-cp-1/apiserver has expired: naupegos renew demo renews it", "certificate-expired"},
		"backup overdue": {func(s *Status, _ *signs) { s.Backups = &backups.Backups{Scheduled: &backups.Scheduled{Overdue: true}} }, Unhealthy,
			": the backup on schedule is overdue: naupegos backup create demo makes one now", "backup-overdue"},
		"restored": {func(_ *Status, g *signs) { g.restored = "2026-11-28 09:00:00" }, Drifted,
			": the store was restored from a backup made 2026-11-28 09:00:00: naupegos apply -f cluster.yaml brings the cluster to the document again", "restored"},
		"upgrade unfinished": {func(s *Status, g *signs) {
			g.moving, g.pending = true, true
			changed(s, "demo-cp-1", file("/a"), file("/b"))
		}, Drifted,
			": the upgrade to v1.37.2 is not finished: naupegos apply -f cluster.yaml continues it (and 1 more)", "upgrade machine-pending"},
		"upgrade soaks": {func(_ *Status, g *signs) { g.soaking = "the upgrade to v1.37.2 soaks: machines still run v1.36.4" }, Healthy,
			": the upgrade to v1.37.2 soaks: machines still run v1.36.4: naupegos upgrade demo --finish finishes the upgrade; --back goes back", "soaking"},
		"rotation unfinished": {func(_ *Status, g *signs) { g.rotating = true }, Drifted, ": the rotation of keys is not finished: naupegos apply -f cluster.yaml continues it", "rotation"},
		"rotation held": {func(_ *Status, g *signs) { g.held = "the old kubernetes-ca stay trusted" }, Healthy,
			": the old kubernetes-ca stay trusted: naupegos certs rotate demo --finish ends the trust in the old ones", "rotation-held"},
		"document not applied": {func(_ *Status, g *signs) { g.pending = true }, Drifted,
			": the stored document has not been applied: naupegos apply -f cluster.yaml applies it", "document"},
		"files of a machine": {func(s *Status, _ *signs) { changed(s, "demo-general-1", file("/etc/hosts"), file("/etc/motd")) }, Drifted,
			": 2 files of demo-general-1 were changed on the machine: naupegos plan -f cluster.yaml shows what apply puts back", "machine-changed"},
		"one file": {func(s *Status, _ *signs) { changed(s, "demo-general-1", file("/etc/hosts")) }, Drifted,
			": file /etc/hosts of demo-general-1 was changed on the machine: naupegos plan -f cluster.yaml shows what apply puts back", "machine-changed"},
		"file and unit": {func(s *Status, _ *signs) {
			changed(s, "demo-general-1", file("/etc/x"), Difference{Kind: "unit", Name: "kubelet.service", Action: "restart"})
		}, Drifted, ": 2 settings of demo-general-1 were changed on the machine: naupegos plan -f cluster.yaml shows what apply puts back", "machine-changed"},
		"unit of a gateway is down": {func(s *Status, _ *signs) {
			changed(s, "demo-gw-1", Difference{Kind: "unit", Name: "haproxy.service", Action: "start"})
		}, Unhealthy, ": demo-gw-1: haproxy.service does not run: naupegos apply -f cluster.yaml starts it", "unit-down"},
		"configured for the first time": {func(s *Status, g *signs) {
			g.pending = true
			changed(s, "demo-gw-1", Difference{Kind: "file", Name: "/x", Action: "create"}, Difference{Kind: "unit", Name: "haproxy.service", Action: "start"})
		}, Drifted, ": the stored document has not been applied: naupegos apply -f cluster.yaml applies it (and 1 more)", "document machine-pending"},
		"label": {func(s *Status, _ *signs) {
			machineOf(s, "demo-general-1").NodeDiffers = []string{"label tier: (none) -> web"}
		}, Drifted,
			": label tier of demo-general-1 differs: naupegos apply -f cluster.yaml corrects it", "node-marks"},
		"taint": {func(s *Status, _ *signs) {
			machineOf(s, "demo-general-1").NodeDiffers = []string{"taint gpu:NoSchedule: (none) -> a"}
		}, Drifted, ": taint gpu:NoSchedule of demo-general-1 differs: naupegos apply -f cluster.yaml corrects it", "node-marks"},
		"label of three": {func(s *Status, _ *signs) {
			for i := range s.Machines[:4] {
				s.Machines[i].NodeDiffers = []string{"label tier: (none) -> web"}
			}
		}, Drifted, ": label tier of demo-cp-1, demo-cp-2, demo-cp-3 and 1 more differs: naupegos apply -f cluster.yaml corrects it", "node-marks"},
		"replacement": {func(s *Status, _ *signs) {
			m := machineOf(s, "demo-general-1")
			m.Config, m.Changes = toBeReplaced, nil
		}, Drifted,
			": demo-general-1 is to be replaced: naupegos apply -f cluster.yaml replaces it", "replacement"},
		"addon": {func(_ *Status, g *signs) { g.addons = []string{"addon flannel"} }, Drifted, ": addon flannel differs: naupegos apply -f cluster.yaml corrects it", "addon"},
		"records": {func(_ *Status, g *signs) { g.records = true }, Drifted,
			": kubeadm's records in the cluster differ: naupegos apply -f cluster.yaml writes them again", "records"},
		"other bundle": {func(_ *Status, g *signs) { g.bundle = "other-bundle" }, Drifted,
			": the bundle at hand is not the one that the cluster was built with: naupegos apply -f cluster.yaml --consent other-bundle takes it", "bundle"},
		"newer bundle": {func(_ *Status, g *signs) { g.newer = true }, Healthy,
			": a newer bundle of Kubernetes v1.37.2 is here: naupegos apply -f cluster.yaml --consent other-bundle takes it", "newer-bundle"},
		"unwanted": {func(s *Status, _ *signs) {
			s.Machines = append(s.Machines, MachineStatus{Name: "demo-general-2", Role: "worker", State: unwanted})
		}, Drifted, ": demo-general-2 is not in the document: naupegos apply -f cluster.yaml removes it", "unwanted"},
		"no bundle": {func(s *Status, _ *signs) {
			for i := range s.Machines {
				s.Machines[i].Config, s.Machines[i].Changes = unknown, nil
			}
		}, Drifted, ": the configuration of demo-cp-1, demo-cp-2, demo-cp-3 and 2 more was not checked: naupegos bundle build --kubernetes v1.37.2 makes the bundle available that the check needs", "unchecked"},
		"cordoned": {func(s *Status, _ *signs) { machineOf(s, "demo-general-1").Node = "Ready, cordoned" }, Healthy,
			": demo-general-1 takes no new pods (cordoned): naupegos node uncordon demo demo-general-1 lets pods onto it again", "cordoned"},
		"the most severe first": {func(s *Status, g *signs) {
			machineOf(s, "demo-general-1").Node = "Ready, cordoned"
			changed(s, "demo-cp-1", file("/etc/hosts"))
			down(s, "demo-gw-1")
			s.Due = []string{"a"}
		}, Unhealthy, ": demo-gw-1 is off: naupegos apply -f cluster.yaml starts it (and 3 more)", "machine-off machine-changed certificate-due cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			s, g := sound()
			c.with(s, g)
			s.setState(*g)
			if want := "Cluster demo (local, Kubernetes v1.37.2) is " + string(c.state) + c.line; s.Summary() != want {
				t.Errorf("the first line is\n%s\nwant\n%s", s.Summary(), want)
			}
			var kinds []string
			for _, cause := range s.Causes {
				kinds = append(kinds, cause.Kind)
			}
			if got := strings.Join(kinds, " "); got != c.kinds {
				t.Errorf("the causes are %q, want %q", got, c.kinds)
			}
			if s.Healthy != (c.state == Healthy) || (s.Cause == "") != s.Healthy {
				t.Errorf("healthy: %t, cause %q in state %s", s.Healthy, s.Cause, s.State)
			}
		})
	}
}

// TestKindsAreRanked: every kind is in the ranking; a kind outside of it would sort last and count as unhealthy.
func TestKindsAreRanked(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range kinds {
		for _, name := range k.kinds {
			if seen[name] {
				t.Errorf("%s is ranked twice", name)
			}
			seen[name] = true
			if stateOf(name) != k.state {
				t.Errorf("%s leads to %s", name, stateOf(name))
			}
		}
	}
}

// TestStateOfOlderServers: a server that sends no state still says whether the cluster is healthy.
func TestStateOfOlderServers(t *testing.T) {
	for want, s := range map[State]*Status{Healthy: {Healthy: true}, Unhealthy: {}, Drifted: {State: Drifted}} {
		if got := s.StateWord(); got != want {
			t.Errorf("%+v: %s", s, got)
		}
	}
}
