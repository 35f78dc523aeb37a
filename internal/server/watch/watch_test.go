package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// well returns the status of a healthy cluster of two machines.
func well() *report.Status {
	return &report.Status{Name: "demo", State: report.Healthy, Healthy: true, API: "ready", Etcd: "1 of 1 voters healthy, 1 needed", Quorum: &report.Quorum{Voters: 1, Healthy: 1, Needed: 1}, Machines: []report.MachineStatus{
		{Name: "demo-cp-1", Role: "control-plane", State: "running", Config: "up to date", Node: "Ready", Etcd: "leader"},
		{Name: "demo-general-1", Role: "worker", Pool: "general", State: "running", Config: "up to date", Node: "Ready"},
	}}
}

// TestJudge: a cluster that did not answer is unknown; otherwise the status determines the state.
func TestJudge(t *testing.T) {
	if state, cause, remedy := Judge("demo", well(), nil); state != Healthy || cause+remedy != "" {
		t.Errorf("well: %s, %q, %q", state, cause, remedy)
	}
	s := well()
	s.State, s.Cause, s.Remedy = report.Drifted, "a file differs\nin its second line, too", "naupegos plan demo"
	if state, cause, remedy := Judge("demo", s, nil); state != Drifted || cause != "a file differs" || remedy != "naupegos plan demo" {
		t.Errorf("drifted: %s, %q, %q", state, cause, remedy)
	}
	if state, cause, remedy := Judge("demo", nil, fail.New(fail.Unreachable, "no answer within 45s")); state != Unknown || !strings.Contains(cause, "no answer") || remedy != "naupegos status demo" {
		t.Errorf("no answer: %s, %q, %q", state, cause, remedy)
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

// TestWatchersShareClusters: of two servers only one makes each look, looks at once are few, and a cluster that hangs delays no other.
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
	testkit.Until(t, 30*time.Second, 20*time.Millisecond, func() error {
		if all := testkit.Value(All(t.Context(), st))(t); len(all) != n-1 || looks.Load() < n { // c3 hangs
			return fmt.Errorf("after %d looks, the health of %d clusters is known", looks.Load(), len(all))
		}
		return nil
	})
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
