package watch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/testkit"
)

const long = "cut off: dial tcp 10.77.0.22:22: i/o timeout\n  tried 3 times\n  since 2026-11-22 21:00:00, by way of the bridge nau0badc0de of this host"

// drifting is a cluster with content in every column.
func drifting() *report.Status {
	return &report.Status{Name: "demo", Provider: "local", Kubernetes: "v1.37.2", Endpoint: "10.77.0.100:6443", API: "ready", Etcd: "2 of 3 voters healthy, 2 needed", State: report.Unhealthy,
		Causes: []report.Cause{
			{State: report.Unhealthy, Text: "demo-cp-2 is off", Remedy: "naupegos apply -f cluster.yaml", Does: "starts it"},
			{State: report.Unhealthy, Text: "etcd tolerates no further failure: 2 of 3 voters healthy, 2 needed"},
			{State: report.Drifted, Text: "file /etc/hosts of demo-general-1 was changed on the machine", Remedy: "naupegos plan -f cluster.yaml", Does: "shows what apply puts back"},
			{State: report.Healthy, Text: "demo-general-1 takes no new pods (cordoned)", Remedy: "naupegos node uncordon demo demo-general-1", Does: "lets pods onto it again"}},
		BundleNote: "bundle aaaaaaaaaaaa, with which the cluster was built, is not available here",
		Machines: []report.MachineStatus{
			{Name: "demo-cp-1", Role: "control-plane", Address: "10.77.0.21", State: "running", Config: "up to date", Node: "Ready", Version: "v1.37.2", Etcd: "leader"},
			{Name: "demo-cp-2", Role: "control-plane", Address: "10.77.0.22", State: "stopped", Config: "-", Node: "not ready: its machine is stopped", Version: "v1.37.2", Etcd: "unreachable"},
			{Name: "demo-cp-3", Role: "control-plane", Address: "10.77.0.23", State: "running", Config: long, Node: "Ready", Version: "v1.37.2", Etcd: "voter"},
			{Name: "demo-general-1", Role: "worker", Address: "10.77.0.31", State: "running", Config: "1 change", Node: "Ready, cordoned", Version: "v1.37.2"},
			{Name: "demo-gw-1", Role: "gateway", Address: "10.77.0.11", State: "running", Config: "up to date"},
		}}
}

// TestStatusFits: at any width no word is broken, lines fit, and a multi-line error stands below the table, once.
func TestStatusFits(t *testing.T) {
	for _, width := range []int{60, 100, 200} {
		var out bytes.Buffer
		testkit.Must(t, Screen{Width: width}.Status(&out, drifting(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)))
		testkit.Golden(t, fmt.Sprintf("status-%d.txt", width), out.String())
		checkFits(t, out.String(), width)
		if n := strings.Count(out.String(), "tried 3 times"); n != 1 {
			t.Errorf("the error is shown %d times in full", n)
		}
	}
}

// TestClustersFit is TestStatusFits for the list of clusters.
func TestClustersFit(t *testing.T) {
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.Local)
	rows := []operate.Row{
		{Name: "demo", ID: "nau0badc0de", Provider: "local", Kubernetes: "v1.37.2", State: "healthy", Health: "healthy", Created: at},
		{Name: "harbour", ID: "nau1badc0de", Provider: "openstack", Kubernetes: "v1.37.2", State: "drifted", Health: "not healthy", Cause: "label tier of harbour-general-1 differs", Created: at},
		{Name: "quay", ID: "nau2badc0de", Provider: "metal", Health: "unknown: no answer within 15s", Created: at, Lease: "upgrade by root@vm, pid 1 (alive: yes, expires 12:00:00)"},
	}
	for _, width := range []int{60, 100, 200} {
		var out bytes.Buffer
		testkit.Must(t, Screen{Width: width}.Clusters(&out, rows))
		testkit.Golden(t, fmt.Sprintf("clusters-%d.txt", width), out.String())
		checkFits(t, out.String(), width)
	}
}

// checkFits fails if a line above the footnotes is wider than the screen or a word of the table's head is broken.
func checkFits(t *testing.T, text string, width int) {
	t.Helper()
	above, _, _ := strings.Cut(text, "\n  demo-cp-3: ")
	for line := range strings.Lines(above) {
		if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("at %d columns a line has %d: %s", width, n, line)
		}
	}
	for _, broken := range []string{"CONFI\n", "up to\n"} {
		if strings.Contains(text, broken) {
			t.Errorf("at %d columns %q is broken", width, broken)
		}
	}
}

// TestStatusColours: the state is coloured on a terminal, and other output has no escape sequences.
func TestStatusColours(t *testing.T) {
	var plain, color bytes.Buffer
	testkit.Must(t, Screen{Width: 100}.Status(&plain, drifting(), time.Time{}))
	testkit.Must(t, Screen{Width: 100, Color: true}.Status(&color, drifting(), time.Time{}))
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("plain output has escape sequences")
	}
	if !strings.Contains(color.String(), "is "+red+"unhealthy"+reset) {
		t.Errorf("the state has no colour: %q", color.String()[:120])
	}
	if ansi.Strip(color.String()) != plain.String() {
		t.Error("colours change the text")
	}
}

// TestForeignTextIsInert: text from a machine or a cluster can't control the terminal.
func TestForeignTextIsInert(t *testing.T) {
	st := drifting()
	st.API, st.Machines[0].Node, st.Causes[0].Text = "\x1b]0;x\a", "\x1b[2Jgone", "\x1b[31mred\nFAKE"
	var out bytes.Buffer
	testkit.Must(t, Screen{Width: 100}.Status(&out, st, time.Time{}))
	if strings.ContainsAny(out.String(), "\x1b\a") || strings.Contains(out.String(), "\nFAKE") {
		t.Errorf("%q", out.String())
	}
}
