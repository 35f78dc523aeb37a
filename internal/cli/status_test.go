package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStatusKeepsItsColumns: an error of several lines stands below the table, not in it.
func TestStatusKeepsItsColumns(t *testing.T) {
	const long = "cut off: dial tcp 10.77.0.22:22: i/o timeout\n  tried 3 times\n  since 2026-11-22 21:00:00, by way of the bridge nau0badc0de of this host"
	s := &report.Status{BundleNote: "bundle aaaaaaaaaaaa, with which the cluster was built, is not available here", Machines: []report.MachineStatus{
		{Name: "demo-cp-1", Role: "control-plane", Address: "10.77.0.21", State: "running", Config: "as wanted", Node: "Ready", Version: "v1.36.3", Etcd: "healthy"},
		{Name: "demo-cp-2", Role: "control-plane", Address: "10.77.0.22", State: "running", Config: long, Node: "NotReady", Version: "v1.36.3", Etcd: long},
	}}
	var out bytes.Buffer
	testkit.Must(t, statusTable(&out, s))
	testkit.Golden(t, "status.txt", out.String())
	table, _, _ := strings.Cut(out.String()[strings.Index(out.String(), "MACHINE"):], "\n\n")
	for line := range strings.Lines(table) {
		if n := len([]rune(line)); n > 180 {
			t.Errorf("a line of the table has %d characters: %s", n, line)
		}
	}
	if n := strings.Count(out.String(), "tried 3 times"); n != 1 {
		t.Errorf("the error is told %d times in full:\n%s", n, out.String())
	}
}
