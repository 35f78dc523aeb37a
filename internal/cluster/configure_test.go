package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnfitMachines: what can't be a machine is refused before anything is changed on it.
func TestUnfitMachines(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	for _, c := range []struct {
		facts machine.Facts
		kind  fail.Kind
		says  string
	}{
		{machine.Facts{Hostname: "demo-cp-1", OS: "debian 12", Dpkg: true}, fail.Refused, "not systemd"},
		{machine.Facts{Hostname: "demo-cp-1", OS: "fedora 44", Systemd: true}, fail.Refused, "operating system (fedora 44) has no Debian packages"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, DiskFree: 2 << 30}, fail.Refused, "2048 MiB are free below /var/lib, 3072 MiB are needed"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, DiskFree: 4 << 30, Clock: time.Now().Add(-time.Hour)}, fail.Refused, "off from here"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, DiskFree: 4 << 30, Clock: time.Now().Add(-time.Minute)}, fail.Internal, ""},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, DiskFree: 1}, fail.Internal, ""}, // it serves: what is on it is ours
		{machine.Facts{Hostname: "other", OS: "debian 12", Systemd: true, Dpkg: true}, fail.Conflict, `calls itself "other"`},
	} {
		err := l.checkFacts(wanted.Slot{Name: "demo-cp-1", Role: provider.ControlPlane}, c.facts)
		if c.says == "" && err == nil {
			continue
		}
		if fail.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v (%s), want %q", err, fail.KindOf(err), c.says)
		}
	}
}

// hostsGiven is a cloud whose machines the document gives.
type hostsGiven struct{ *cloud }

func (hostsGiven) Traits() provider.Traits { return provider.Traits{Given: true, Keeps: true} }

// TestNeverReached: of hosts that were never in use, those that don't let us in keep an apply from beginning; what was in use may come back.
func TestNeverReached(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2))
	l.prov = hostsGiven{l.cloud}
	testkit.Must(t, l.facts.SetOf(t.Context(), memory.Host, "demo-a-1", "{}"))
	away := fail.New(fail.Unreachable, "no answer").At("demo-a-2")
	for name, want := range map[string]bool{"demo-a-1": false, "demo-a-2": true} {
		s := wanted.Slot{Name: name, Role: provider.Worker}
		o := &Observed{Want: []wanted.Slot{s}, Machines: map[string]*Seen{name: {Err: l.neverReached(s, away)}}}
		if all := o.unready(); (len(all) > 0) != want || want && fail.KindOf(all[0]) != fail.Unreachable || o.unfit() != nil {
			t.Errorf("%s: %v", name, all)
		}
		if !o.silent(name) {
			t.Errorf("%s does not count as silent", name)
		}
	}
	l.prov = l.cloud
	if err := l.neverReached(wanted.Slot{Name: "demo-a-2"}, away); !errors.Is(err, away) || errors.As(err, new(*unreadyError)) {
		t.Errorf("a machine that is ours: %v", err)
	}
}
