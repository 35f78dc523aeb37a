package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// night is a Monday.
var night = time.Date(2026, 1, 5, 3, 4, 5, 0, time.UTC)

// says returns the reports of all machines about their packages, with those in other as exceptions.
func (l *lab) says(o *observe.Observed, all machine.Updates, other map[string]look) map[string]look {
	seen := map[string]look{}
	for _, s := range o.Want {
		seen[s.Name] = look{Updates: all}
		if one, ok := other[s.Name]; ok {
			seen[s.Name] = one
		}
	}
	return seen
}

func booted(id string, u machine.Updates) machine.Updates {
	u.BootID = id
	return u
}

var newer = booted("1", machine.Updates{Packages: []machine.PackageUpdate{{Name: "libc6", From: "2.36-9", To: "2.36-10"}, {Name: "linux-image-6.1.0-21-amd64", To: "6.1.90-1"}}})

func (l *lab) updatePlan(o *observe.Observed, seen map[string]look, opts UpdateOptions) (*Updating, error) {
	l.t.Helper()
	return l.planUpdate(o, testkit.Value(l.chosen(o, opts))(l.t), seen, opts, night)
}

// TestUpdatePlans has machines brought up to date: all of them, one pool, one that needs a reboot alone, and on after a crash.
func TestUpdatePlans(t *testing.T) {
	needs := look{Updates: booted("1", machine.Updates{Reboot: []string{"packages require it: libc6"}})}
	for name, c := range map[string]struct {
		opts   UpdateOptions
		all    machine.Updates
		other  map[string]look
		facts  map[string]string // reboots that were begun
		ours   []string          // nodes that an update that was cut off has left cordoned
		stated map[string]provider.State
	}{
		"update":                    {all: newer},
		"update-pool":               {opts: UpdateOptions{Pool: "a"}, all: newer, other: map[string]look{"demo-a-2": {Updates: booted("1", machine.Updates{})}}},
		"update-needed-reboot-only": {all: booted("1", machine.Updates{}), other: map[string]look{"demo-a-2": needs, "demo-cp-1": needs}},
		"update-reboot-only":        {opts: UpdateOptions{RebootOnly: true, Pool: "a"}, all: booted("1", machine.Updates{})},
		"update-resumed": {opts: UpdateOptions{RebootOnly: true}, all: booted("1", machine.Updates{}), facts: map[string]string{"demo-cp-2": "1", "demo-a-1": "0", "demo-a-2": "1"},
			ours: []string{"demo-a-1", "demo-a-2"}, other: map[string]look{"demo-a-2": {err: fail.New(fail.NotReady, "it is stopped")}}, stated: map[string]provider.State{"demo-a-2": provider.Stopped}},
		"update-nothing": {all: booted("1", machine.Updates{})},
	} {
		t.Run(name, func(t *testing.T) {
			doc := document(t, 3, 2, 2)
			l := newLab(t, doc).Running(doc)
			for m, boot := range c.facts {
				testkit.Must(t, l.Facts.SetOf(t.Context(), memory.Rebooting, m, boot))
			}
			for m, s := range c.stated {
				l.state(m, s)
			}
			o := l.observed(nil, controlPlanes(3)...)
			o.Health[1].Leader = true
			for _, m := range c.ours {
				n := o.Nodes[m]
				n.Unschedulable = true
				n.Annotations[kube.OwnedCordon] = "true"
				o.Nodes[m] = n
			}
			u, err := l.updatePlan(o, l.says(o, c.all, c.other), c.opts)
			testkit.Must(t, err)
			var details []string
			for _, s := range u.Plan.Steps {
				if s.ID == "update/demo-a-1" {
					details = s.Details
				}
			}
			golden(t, name, strings.Join([]string{l.printed(u.Plan.Steps), strings.Join(details, "\n"), strings.Join(u.Plan.Warnings, "\n")}, "\n"))
		})
	}
}

// TestUpdateWindow: outside of its window nothing begins unless requested; a roll ends when the window closes, and machines in progress come
// back.
func TestUpdateWindow(t *testing.T) {
	doc := document(t, 1, 0, 2)
	doc.Spec.Updates.OS.Window = &v1alpha1.Window{Days: []string{"Sat", "Sun"}, From: "22:00", To: "02:00"}
	l := newLab(t, doc).Running(doc)
	o := l.observed(nil, "demo-cp-1")
	u, err := l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{})
	testkit.Must(t, err)
	if fail.KindOf(u.Closed) != fail.Refused || !strings.Contains(u.Closed.Error(), "wait until 2026-01-10 22:00:00 UTC, or give --now") || u.Plan.Empty() {
		t.Errorf("%v", u.Closed)
	}
	if u, err = l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{Now: true}); err != nil || u.Closed != nil {
		t.Errorf("with Now: %v, %v", u, err)
	}
	never := &updating{applying: l.applying(o, nil)}
	open := time.Now().UTC().Add(12 * time.Hour)
	doc.Spec.Updates.OS.Window = &v1alpha1.Window{From: open.Format("15:04"), To: open.Add(time.Minute).Format("15:04")}
	if _, err = l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{Pool: "a"}); err != nil {
		t.Fatal(err)
	}
	w := doc.Spec.Updates.OS.Window
	never.window = testkit.Value(upkeep.ParseWindow(w.Days, w.From, w.To))(t)
	worker := o.Want[slices.IndexFunc(o.Want, func(s wanted.Slot) bool { return s.Name == "demo-a-1" })]
	if err := never.mayBegin(t.Context(), worker, false, silent{}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "the window has closed") {
		t.Errorf("a machine goes after the window has closed: %v", err)
	}
	if err := never.mayBegin(t.Context(), worker, true, silent{}); err != nil {
		t.Errorf("a machine that is begun does not come back: %v", err)
	}
}

// TestUpdateRefusedWhileSick: no machine is taken away while another one is away, nor one that etcd needs for its quorum.
func TestUpdateRefusedWhileSick(t *testing.T) {
	doc := document(t, 3, 2, 2)
	l := newLab(t, doc).Running(doc)
	o := l.ill(l.observed(nil, controlPlanes(3)...), night, "demo-a-2")
	if _, err := l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{Machine: "demo-a-1"}); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "node demo-a-2 is not Ready") {
		t.Error(err)
	}
	o = l.observed(nil, controlPlanes(3)...)
	o.Health[2].Reachable = false
	if _, err := l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{Machine: "demo-cp-1"}); err == nil || !strings.Contains(err.Error(), "quorum") {
		t.Error(err)
	}
	o = l.observed(nil, controlPlanes(3)...)
	silent := map[string]look{"demo-a-1": {err: fail.New(fail.Refused, "the mirror does not answer").At("demo-a-1")}}
	if _, err := l.updatePlan(o, l.says(o, newer, silent), UpdateOptions{}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "demo-a-1: the mirror") {
		t.Error(err)
	}
	if _, err := l.chosen(o, UpdateOptions{Pool: "b"}); fail.KindOf(err) != fail.NotFound {
		t.Error(err)
	}
}

// TestUpdateOneAtATime: in every plan, at most one machine is away at a time: each step depends, directly or not, on the one before.
func TestUpdateOneAtATime(t *testing.T) {
	doc := document(t, 3, 2, 3)
	doc.Spec.Updates.MaxUnavailable = 3
	l := newLab(t, doc).Running(doc)
	o := l.observed(nil, controlPlanes(3)...)
	u, err := l.updatePlan(o, l.says(o, newer, nil), UpdateOptions{})
	testkit.Must(t, err)
	for i, s := range u.Plan.Steps[1:] {
		if before := u.Plan.Steps[i].ID; !slices.Contains(s.Needs, before) {
			t.Errorf("%s does not wait for %s, but for %q", s.ID, before, s.Needs)
		}
	}
}

// renewing is a provider that can give machines another system.
type renewing struct {
	provider.Provider
	renewed []string
}

func (r *renewing) Outdated(context.Context) (map[string]provider.Newer, error) { return nil, nil }

func (r *renewing) Renew(_ context.Context, name string, _ plan.Progress) error {
	r.renewed = append(r.renewed, name)
	return nil
}

// TestUpdateSystem: a machine that needs another system is drained, switches to it, and must become as healthy as before; its packages are part
// of the system. The restart is recorded first.
func TestUpdateSystem(t *testing.T) {
	doc := document(t, 3, 2, 2)
	l := newLab(t, doc).Running(doc)
	prov := &renewing{Provider: l.Prov}
	l.Prov = prov
	o := l.observed(nil, controlPlanes(3)...)
	system := look{Updates: newer, newer: provider.Newer{Why: "another one is there", Within: time.Hour}}
	u, err := l.updatePlan(o, l.says(o, booted("1", machine.Updates{}), map[string]look{"demo-a-1": system}), UpdateOptions{})
	testkit.Must(t, err)
	var ids []string
	for _, s := range u.Plan.Steps {
		ids = append(ids, s.ID)
		if s.ID != "system/demo-a-1" {
			continue
		}
		if s.Timeout != time.Hour || s.Reason != "another one is there" || s.Disruption() != plan.Rolling {
			t.Errorf("%+v", s)
		}
		testkit.Must(t, s.Run(t.Context(), silent{}))
	}
	text := strings.Join(ids, " ")
	for _, must := range []string{"drain/demo-a-1 system/demo-a-1", "node/demo-a-1", "uncordon/demo-a-1"} {
		if !strings.Contains(text, must) {
			t.Errorf("no %s in %s", must, text)
		}
	}
	if strings.Contains(text, "update/") || strings.Contains(text, "reboot/") || strings.Contains(text, "demo-a-2") {
		t.Errorf("more is done than that: %s", text)
	}
	if !slices.Equal(prov.renewed, []string{"demo-a-1"}) || l.Facts.Of(memory.Rebooting, "demo-a-1") != "1" {
		t.Errorf("renewed %v, and remembered the boot %q", prov.renewed, l.Facts.Of(memory.Rebooting, "demo-a-1"))
	}
	system.err = fail.New(fail.Refused, "the system did not come up")
	if _, err := l.updatePlan(o, l.says(o, newer, map[string]look{"demo-a-2": system}), UpdateOptions{}); fail.KindOf(err) != fail.Refused {
		t.Errorf("it is tried again: %v", err)
	}
}
