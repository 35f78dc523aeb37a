package keep

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// bench is a machine and its server.
type bench struct {
	t      *testing.T
	o      Options
	now    *order.Order // of the running system
	wanted *order.Order
	away   bool // the server does not answer
	locked bool
	how    string // strategy
	did    []string
	last   ask.Report
	broken string // operations of the system that fail
}

func orderOf(host string) *order.Order {
	return &order.Order{Schema: order.Schema, UUID: "b7f5f93a-b029-475f-b3a4-479ba198cb8a", Hostname: host, Group: "demo.machines",
		System: order.System{ID: "sha256:" + strings.Repeat("a", 64), Kubernetes: "v1.37.2", Root: blob, Head: blob}}
}

var blob = order.Blob{Path: "/assets/x", SHA256: strings.Repeat("a", 64), RawSHA256: strings.Repeat("b", 64), Size: 1, RawSize: 1}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, how: "reboot", wanted: orderOf("m-1")}
	b.o = Options{Dir: t.TempDir(), Root: t.TempDir(), Server: b, System: b, Slot: "a", Say: func(text string) { t.Log(text) }}
	b.runs(orderOf("m-1"), "a", false)
	return b
}

// runs makes the machine start with a system.
func (b *bench) runs(o *order.Order, slot string, trial bool) {
	b.t.Helper()
	b.now, b.o.Slot, b.o.Trial = o, slot, trial
	path := filepath.Join(b.o.Root, install.InstalledFile)
	testkit.Must(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(b.t, os.WriteFile(path, testkit.Value(json.Marshal(o))(b.t), 0o644))
}

// rounds starts the agent, runs some rounds, and returns the actions.
func (b *bench) rounds(n int) []string {
	b.t.Helper()
	k := testkit.Value(open(b.o))(b.t)
	b.did = nil
	for range n {
		if err := k.round(b.t.Context()); err != nil {
			b.t.Log(err)
		}
	}
	return b.did
}

func (b *bench) do(what string) error {
	if what == b.broken {
		return fail.New(fail.Refused, "%s is broken", what)
	}
	b.did = append(b.did, what)
	return nil
}

func (b *bench) Report(_ context.Context, r ask.Report) (ask.Reported, error) {
	if b.away {
		return ask.Reported{}, fail.New(fail.Unreachable, "away")
	}
	if r.Sequence <= b.last.Sequence || r.Slot != b.o.Slot {
		b.t.Errorf("%+v after %+v", r, b.last)
	}
	b.last = r
	return ask.Reported{UpToDate: r.Digest == b.wanted.Digest(), Wanted: b.wanted.Digest(), Strategy: b.how}, nil
}

func (b *bench) Order(context.Context) (*order.Order, error) { return b.wanted, nil }

func (b *bench) MayReboot(_ context.Context, group string) error {
	if b.locked {
		return fail.New(fail.Conflict, "held by another")
	}
	return b.do("may reboot in " + group)
}

func (b *bench) Back(_ context.Context, group string) error    { return b.do("back in " + group) }
func (b *bench) Stage(_ context.Context, o *order.Order) error { return b.do("stage " + o.Hostname) }
func (b *bench) Try() error                                    { return b.do("try") }
func (b *bench) Load() error                                   { return b.do("load") }
func (b *bench) Confirm() error                                { return b.do("confirm") }
func (b *bench) Leave(_ context.Context, how string) error     { return b.do(how) }
func (b *bench) want(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%q, want %q", got, want)
	}
}

// TestUpdate: an update that is confirmed.
func TestUpdate(t *testing.T) {
	b := newBench(t)
	b.want(b.rounds(2))
	b.wanted = orderOf("m-2")
	b.how = "none"
	b.want(b.rounds(2))
	b.how, b.broken = "reboot", "stage m-2"
	b.want(b.rounds(1))
	b.broken, b.locked = "", true
	b.want(b.rounds(3), "stage m-2") // written once; the slot is requested until it is granted
	b.locked = false
	b.want(b.rounds(1), "may reboot in demo.machines", "try", "reboot")
	b.runs(b.wanted, "b", true)
	b.away = true
	b.want(b.rounds(3)) // not confirmed before the server has answered
	b.away = false
	b.want(b.rounds(2), "confirm", "back in demo.machines")
	b.o.Trial = false
	b.want(b.rounds(2))
	if b.last.Digest != b.wanted.Digest() || b.last.Refused != "" {
		t.Errorf("%+v", b.last)
	}
}

// TestGoesBack: a system whose trial failed is not tried again until the server wants another order.
func TestGoesBack(t *testing.T) {
	b := newBench(t)
	before, bad := b.now, orderOf("m-2")
	b.wanted = bad
	b.want(b.rounds(1), "stage m-2", "may reboot in demo.machines", "try", "reboot")
	b.runs(before, "a", false) // the timer, or a panic, has rolled it back
	b.want(b.rounds(3), "back in demo.machines")
	if b.last.Refused != bad.Digest() || b.last.Digest != before.Digest() {
		t.Errorf("%+v", b.last)
	}
	b.wanted, b.how = orderOf("m-3"), "kexec"
	b.want(b.rounds(1), "stage m-3", "may reboot in demo.machines", "load", "kexec")
	b.runs(b.wanted, "b", true)
	b.want(b.rounds(1), "confirm", "back in demo.machines")
}

// TestCutOff: a power cut at any moment of an update leads to the same system.
func TestCutOff(t *testing.T) {
	for _, at := range []string{"stage m-2", "may reboot in demo.machines", "try", "reboot", "confirm", "back in demo.machines"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.wanted, b.broken = orderOf("m-2"), at
			b.rounds(1)
			tried := slices.Contains(b.did, "try") || at == "reboot"
			if tried {
				b.runs(b.wanted, "b", true)
			}
			b.rounds(1)
			b.broken = ""
			b.rounds(1)
			if !tried {
				b.runs(b.wanted, "b", true)
				b.rounds(1)
			}
			b.rounds(1)
			if b.last.Digest != b.wanted.Digest() || b.last.Refused != "" {
				t.Errorf("%+v", b.last)
			}
			if k := testkit.Value(open(b.o))(t); k.m.Pending != nil || k.m.Group != "" {
				t.Errorf("%+v", k.m)
			}
		})
	}
}

// TestLive: a live update changes only what needs no restart.
func TestLive(t *testing.T) {
	b := newBench(t)
	b.how, b.wanted = "live", orderOf("m-1")
	b.wanted.SSHKeys = []string{"ssh-ed25519 A"}
	b.want(b.rounds(2))
	if b.last.Digest != b.wanted.Digest() {
		t.Errorf("%+v", b.last)
	}
	if keys := testkit.Value(os.ReadFile(filepath.Join(b.o.Root, "root/.ssh/authorized_keys")))(t); string(keys) != "ssh-ed25519 A\n" {
		t.Errorf("%s", keys)
	}
	b.wanted = orderOf("m-2")
	b.want(b.rounds(2))
	if b.last.Digest == b.wanted.Digest() {
		t.Error("another name was taken live")
	}
}
