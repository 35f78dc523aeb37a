package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// well is a cluster of two machines without a fault.
func well() *report.Status {
	return &report.Status{Name: "demo", Healthy: true, API: "ready", Etcd: "1 of 1 voters healthy, 1 needed", Machines: []report.MachineStatus{
		{Name: "demo-cp-1", Role: "control-plane", State: "running", Config: "up to date", Node: "Ready", Etcd: "leader"},
		{Name: "demo-general-1", Role: "worker", Pool: "general", State: "running", Config: "up to date", Node: "Ready"},
	}}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what          string
		change        func(s *report.Status)
		err           error
		state, cause  string
		remedyMention string
	}{
		{"well", func(s *report.Status) { s.Healthy = true }, nil, Healthy, "", ""},
		{"cordoned", func(s *report.Status) { s.Healthy, s.Machines[1].Node = true, "Ready, cordoned" }, nil, Healthy, "", ""},
		{"no answer", nil, fail.New(fail.Unreachable, "no answer within 45s"), Unknown, "no answer", "naupegos status demo"},
		{"a file differs", func(s *report.Status) { s.Machines[1].Config = "1 change" }, nil, Drifted, "demo-general-1: 1 change", "apply"},
		{"two files differ", func(s *report.Status) { s.Machines[0].Config, s.Machines[1].Config = "1 change", "2 changes" }, nil, Drifted, "2 machines", "apply"},
		{"a machine too many", func(s *report.Status) {
			s.Machines = append(s.Machines, report.MachineStatus{Name: "demo-x-1", State: "unwanted"})
		}, nil, Drifted, "demo-x-1 is not in the document", "apply"},
		{"certificates", func(s *report.Status) { s.Due = []string{"a", "b"} }, nil, Drifted, "2 certificates", "naupegos renew demo"},
		{"off", func(s *report.Status) { s.Machines[1].State = "stopped" }, nil, Unhealthy, "demo-general-1 is stopped", "apply"},
		{"API", func(s *report.Status) { s.API = "Unauthorized\nmore" }, nil, Unhealthy, "the API does not answer: Unauthorized", ""},
		{"node", func(s *report.Status) { s.Machines[1].Node = "not Ready: x" }, nil, Unhealthy, "demo-general-1 is not Ready: x", "naupegos repair demo --machine demo-general-1"},
		{"etcd", func(s *report.Status) { s.Etcd = "0 of 1 voters healthy" }, nil, Unhealthy, "etcd: 0 of 1", ""},
		{"backup", func(s *report.Status) { s.Backups = &backups.Backups{Scheduled: &backups.Scheduled{Overdue: true}} }, nil, Unhealthy, "backup is overdue", "naupegos backup create demo"},
	} {
		s := well()
		s.Healthy = false
		if c.change != nil {
			c.change(s)
		}
		state, cause, remedy := Judge("demo", s, c.err)
		if state != c.state || !strings.Contains(cause, c.cause) || !strings.Contains(remedy, c.remedyMention) || c.cause == "" && cause+remedy != "" {
			t.Errorf("%s: %s, %q, %q", c.what, state, cause, remedy)
		}
	}
}

func TestSum(t *testing.T) {
	s := well()
	s.Machines = append(s.Machines, report.MachineStatus{Name: "demo-gw-1", Role: "gateway", State: "stopped"}, report.MachineStatus{Name: "demo-general-2", Role: "worker", State: "running", Node: "not Ready"},
		report.MachineStatus{Name: "demo-old-1", Role: "worker", State: "unwanted"})
	got := Sum(s)
	for what, c := range map[string][2]string{"control plane": {got.ControlPlane.String(), "1/1"}, "workers": {got.Workers.String(), "1/2"}, "gateways": {got.Gateways.String(), "0/1"},
		"nodes": {got.Nodes.String(), "2/3"}, "voters": {got.Voters.String(), "1/1"}} {
		if c[0] != c[1] {
			t.Errorf("%s: %s, want %s", what, c[0], c[1])
		}
	}
}

// TestWatchersShareClusters has two servers look at many clusters: each look is one server's, few at once, and a cluster that hangs delays no other.
func TestWatchersShareClusters(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	const n = 12
	ids := map[string]string{}
	for i := range n {
		c := testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: fmt.Sprint("c", i), Provider: "local", Document: []byte("kind: Cluster\n")}))(t)
		ids[c.Name] = c.ID
	}
	var now, highest, looks atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	look := func(ctx context.Context, name string) (*report.Status, error) {
		looks.Add(1)
		at := now.Add(1)
		defer now.Add(-1)
		for was := highest.Load(); at > was && !highest.CompareAndSwap(was, at); was = highest.Load() {
		}
		switch name {
		case "c3": // hangs
			<-ctx.Done()
			return nil, ctx.Err()
		case "c4":
			panic("a defect")
		}
		return well(), nil
	}
	ended := make(chan error, 2)
	for _, self := range []string{"a", "b"} {
		w := New(Config{Store: st, Look: look, Every: time.Hour, Self: self, Log: slog.New(slog.DiscardHandler), Tick: 20 * time.Millisecond})
		go func() { ended <- w.Run(ctx) }()
	}
	for end := time.Now().Add(30 * time.Second); ; {
		all := testkit.Value(All(t.Context(), st))(t)
		if len(all) == n-1 && looks.Load() >= n { // c3 hangs
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after 30 s the health of %d clusters is known", len(all))
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	testkit.Must(t, <-ended)
	testkit.Must(t, <-ended)
	if looks.Load() != n || highest.Load() > 2*most {
		t.Errorf("there were %d looks, %d at once", looks.Load(), highest.Load())
	}
	h := testkit.Value(Of(t.Context(), st, ids["c1"]))(t)
	if h.State != Healthy || h.Status == nil || len(h.Status.Machines) != 2 || h.Summary.Nodes.Well != 2 {
		t.Errorf("of a cluster that is well: %+v", h)
	}
	if h := testkit.Value(Of(t.Context(), st, ids["c4"]))(t); h.State != Unknown || h.Status != nil {
		t.Errorf("of a look that panicked: %+v", h)
	}
}
