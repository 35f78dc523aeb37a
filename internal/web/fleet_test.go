package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// crowded fills the store with clusters of 200 machines each.
func (s *site) crowded(clusters int) {
	s.t.Helper()
	for i := range clusters {
		name := fmt.Sprintf("cluster-%03d", i)
		c := testkit.Value(s.store.CreateCluster(s.t.Context(), store.Cluster{Name: name, Provider: "openstack", Document: []byte(strings.ReplaceAll(harbour, "harbour", name)), Facts: store.Facts{{Kind: "bundle"}: "v1.37.2 0123abcd"}}))(s.t)
		now := time.Now()
		status := &report.Status{Name: name, State: map[bool]report.State{true: report.Healthy, false: report.Drifted}[i%7 != 0], Healthy: i%7 != 0, API: "ready", Etcd: "3 of 3 voters healthy, 2 needed", Kubernetes: "v1.37.2", Endpoint: "10.0.0.1:6443", Expires: now.AddDate(0, 1, 0), ExpiresOf: name + "-cp-1/kubelet",
			Backups: &backups.Backups{Last: now.Add(-time.Hour), LastID: "a", Proven: now.Add(-30 * time.Hour), ProvenID: "a"}}
		for m := range 200 {
			is := report.MachineStatus{Name: fmt.Sprintf("%s-general-%03d", name, m), Role: "worker", Pool: "general", Address: fmt.Sprintf("10.1.%d.%d", i, m), State: "running", Config: "up to date", Node: "Ready", Version: "v1.37.2"}
			if m < 3 {
				is.Name, is.Role, is.Pool, is.Etcd = fmt.Sprintf("%s-cp-%d", name, m+1), "control-plane", "", "voter"
			}
			if i%7 == 0 && m == 9 {
				is.Config = "3 changes"
			}
			status.Machines = append(status.Machines, is)
		}
		s.saw(c.ID, status)
		if i%10 == 0 {
			testkit.Must(s.t, s.ran(c.ID))
		}
	}
}

// TestPagesAreSmall: pages about many clusters and machines have at most 100 KB, for slow links.
func TestPagesAreSmall(t *testing.T) {
	s := newSite(t)
	s.crowded(60)
	for _, path := range []string{"/ui/", "/ui/clusters", "/ui/clusters?page=2", "/ui/clusters/cluster-007", "/ui/clusters/cluster-007/nodes", "/ui/clusters/cluster-007/nodes?page=2", "/ui/clusters/cluster-007/actions",
		"/ui/clusters/cluster-007/runs", "/ui/clusters/cluster-007/document", "/ui/clusters/cluster-007/machines/cluster-007-cp-1", "/ui/backups", "/ui/new", "/ui/audit"} {
		best := time.Hour
		var a answer
		for range 3 {
			began := time.Now()
			a = s.ask("GET", path, s.admin, nil)
			best = min(best, time.Since(began))
		}
		if a.code != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
		t.Logf("FIGURE of 60 clusters and 12,000 machines %s has %d KB, in %d ms", path, len(a.body)/1000, best.Milliseconds())
		if len(a.body) > 100_000 {
			t.Errorf("%s has %d bytes", path, len(a.body))
		}
	}
	if a := s.ask("GET", "/ui/clusters?state=drifted", s.admin, nil); strings.Count(a.body, `<tr tabindex="0">`) != 9 {
		t.Errorf("%d clusters are drifted", strings.Count(a.body, `<tr tabindex="0">`))
	}
	if a := s.ask("GET", "/ui/clusters/cluster-007", s.admin, nil); !strings.Contains(a.body, "cluster-007-general-009") {
		t.Error("the machine that needs an operator is not drawn")
	}
}
