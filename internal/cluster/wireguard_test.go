package cluster

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
)

const ownKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

// wireGuardDoc is a document with two gateways and these peers; "ben" brings a key of his own.
func wireGuardDoc(t *testing.T, cidr string, peers ...string) *v1alpha1.Cluster {
	t.Helper()
	doc := document(t, 1, 2, 1)
	w := &v1alpha1.WireGuard{CIDR: cidr, Port: 51820}
	for _, name := range peers {
		p := v1alpha1.WireGuardPeer{Name: name}
		if name == "ben" {
			p.PublicKey = ownKey
		}
		w.Peers = append(w.Peers, p)
	}
	doc.Spec.Access.WireGuard = w
	if errs := validation.Validate(doc); len(errs) > 0 {
		t.Fatal(errs)
	}
	return doc
}

// wgLab is a running cluster of such a document.
func wgLab(t *testing.T, doc *v1alpha1.Cluster) *lab {
	t.Helper()
	l := newLab(t, doc).Running(doc)
	l.Secrets = memory.NewOverlay(nil)
	return l
}

// layers renders both gateways' layers.
func (l *lab) layers() (first, second machine.Config) {
	l.t.Helper()
	if err := l.LoadTarget(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	first, err := l.WireGuardLayer(l.t.Context(), "demo-gw-1")
	if err != nil {
		l.t.Fatal(err)
	}
	if second, err = l.WireGuardLayer(l.t.Context(), "demo-gw-2"); err != nil {
		l.t.Fatal(err)
	}
	return first, second
}

func wgConf(t *testing.T, c machine.Config) string {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == gateway.WireGuardPath {
			return string(f.Content)
		}
	}
	t.Fatalf("no %s in %+v", gateway.WireGuardPath, c)
	return ""
}

// TestWireGuardForget: a step after the gateways' deletes a removed peer's keys and address, and then nothing is left to do.
func TestWireGuardForget(t *testing.T) {
	l := wgLab(t, wireGuardDoc(t, "10.9.0.0/28", "anna", "carl"))
	l.layers()
	if steps := l.forgetSteps(); len(steps) != 0 {
		t.Errorf("nothing is to be forgotten: %+v", steps)
	}
	l.Doc = wireGuardDoc(t, "10.9.0.0/28", "carl")
	steps := l.forgetSteps("configure/demo-gw-1", "configure/demo-gw-2")
	if len(steps) != 1 || strings.Join(steps[0].Needs, " ") != "configure/demo-gw-1 configure/demo-gw-2" || !strings.Contains(steps[0].Reason, "anna") {
		t.Fatalf("got %+v", steps)
	}
	if err := steps[0].Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Secrets.Get(t.Context(), "wireguard/peer/anna"); fail.KindOf(err) != fail.NotFound || l.Facts.Of(memory.WireGuardPeer, "anna") != "" {
		t.Errorf("anna is still remembered: %v", err)
	}
	if _, err := l.Secrets.Get(t.Context(), "wireguard/peer/carl"); err != nil || len(l.forgetSteps()) != 0 {
		t.Errorf("carl is forgotten, or something is left: %v", err)
	}
	l.Doc.Spec.Access.WireGuard = nil
	if len(l.forgetSteps()) != 1 {
		t.Error("without WireGuard all is to be forgotten")
	}
}

// forgetSteps plans together with steps that roll gateways.
func (l *lab) forgetSteps(gateways ...string) []*plan.Step {
	l.t.Helper()
	a := l.applying(&observe.Observed{}, nil)
	for _, id := range gateways {
		a.add(stage.RollGateways, &plan.Step{ID: id})
	}
	a.planForgetWireGuard()
	steps, err := a.graph.Seal(stage.ApplyRules)
	if err != nil {
		l.t.Fatal(err)
	}
	return steps[len(gateways):]
}

// TestWireGuardRotate: gateways, and peers whose key we generated, get new keys; addresses stay.
func TestWireGuardRotate(t *testing.T) {
	l := wgLab(t, wireGuardDoc(t, "10.9.0.0/28", "anna", "ben"))
	before, _ := l.layers()
	who, err := l.RotateWireGuard(t.Context())
	if got := strings.Join(who, " "); err != nil || got != "gateway/demo-gw-1 gateway/demo-gw-2 peer/anna" {
		t.Fatalf("rotated %s: %v", got, err)
	}
	after, _ := l.layers()
	same := 0
	old := strings.Split(wgConf(t, before), "\n")
	for i, line := range strings.Split(wgConf(t, after), "\n") {
		if line != old[i] && !strings.HasPrefix(line, "PrivateKey = ") && !strings.HasPrefix(line, "PublicKey = ") {
			t.Errorf("%q became %q", old[i], line)
		} else if line == old[i] && strings.Contains(line, "Key = ") {
			same++
		}
	}
	if same != 1 { // ben's
		t.Errorf("%d keys stayed, want one", same)
	}
	l.Doc.Spec.Access.WireGuard = nil
	if _, err := l.RotateWireGuard(t.Context()); fail.KindOf(err) != fail.Invalid {
		t.Errorf("without WireGuard: %v", err)
	}
}

// TestWireGuardClients: each peer gets a file for each gateway; peers that were not applied yet are reported, and no key is generated.
func TestWireGuardClients(t *testing.T) {
	l := wgLab(t, wireGuardDoc(t, "10.9.0.0/28", "anna", "ben"))
	if _, err := l.WireGuardClients(t.Context()); fail.KindOf(err) != fail.NotReady {
		t.Errorf("before any apply: %v", err)
	}
	if names, _ := l.Secrets.Names(t.Context()); len(names) != 0 {
		t.Errorf("keys were made: %v", names)
	}
	l.layers()
	m := l.cloud.machines["demo-gw-2"]
	m.Public = "198.51.100.7"
	l.cloud.machines["demo-gw-2"] = m
	files, err := l.WireGuardClients(t.Context())
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	anna, ben := files["anna-demo-gw-2.conf"], files["ben-demo-gw-1.conf"]
	private, err := l.Secrets.Get(t.Context(), "wireguard/peer/anna")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PrivateKey = " + string(private), "Address = 10.9.0.3/32", "Endpoint = 198.51.100.7:51820", "AllowedIPs = 10.0.0.10/32, ", "10.9.0.2/32"} {
		if !bytes.Contains(anna, []byte(want)) {
			t.Errorf("no %q in\n%s", want, anna)
		}
	}
	if bytes.Contains(ben, []byte("\nPrivateKey")) || !bytes.Contains(ben, []byte("Endpoint = 10.0.0.20:51820")) {
		t.Errorf("ben has his own key:\n%s", ben)
	}
}

// TestWireGuardReach: clients reach the machines' network if it is known, else each machine.
func TestWireGuardReach(t *testing.T) {
	l := wgLab(t, wireGuardDoc(t, "10.9.0.0/28", "anna"))
	if err := l.LoadTarget(t.Context()); err != nil {
		t.Fatal(err)
	}
	each, err := l.WireGuardReach(t.Context())
	if got := strings.Join(each, " "); err != nil || got != "10.0.0.10/32 10.0.0.20/32 10.0.0.21/32 10.0.0.22/32 10.0.0.23/32" {
		t.Errorf("%s: %v", got, err)
	}
	l.Doc.Spec.Provider.Local.Network.CIDR = "10.0.0.0/16"
	if whole, err := l.WireGuardReach(t.Context()); err != nil || strings.Join(whole, " ") != "10.0.0.0/16" {
		t.Errorf("%v: %v", whole, err)
	}
}

func TestNoWireGuard(t *testing.T) {
	doc := document(t, 1, 2, 1)
	l := wgLab(t, doc)
	first, _ := l.layers()
	if len(first.Files)+len(first.Units)+len(first.Packages) > 0 {
		t.Errorf("got %+v", first)
	}
	if files, err := l.WireGuardClients(t.Context()); err != nil || len(files) > 0 {
		t.Errorf("%v: %v", files, err)
	}
}
