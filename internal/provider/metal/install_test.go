package metal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// told hears what a step says.
type told func(text string)

func (f told) Status(format string, a ...any) { f(fmt.Sprintf(format, a...)) }

// installing has a machine be in the midst of its installation as demo-cp-1, and not have been heard of for ten minutes.
func (k *rack) installing(p *Provider) (*unit, provider.MachineSpec) {
	ctx := k.Context()
	spec := wanted(p.o.Document).Machines[0]
	testkit.Value(p.claim(ctx, p.seats([]provider.MachineSpec{spec}), false))(k)
	m := testkit.Value(p.holder(ctx, spec.Name))(k)
	testkit.Value(k.reg.SetOrder(ctx, m.UUID, testkit.Value(p.order(ctx, m, spec))(k), "ann"))(k)
	u := k.units[m.UUID]
	u.on, k.deaf = true, true
	testkit.Must(k, k.discover(u))
	if a := testkit.Value(k.reg.Authorize(ctx, testkit.Value(k.reg.Machine(ctx, m.UUID))(k)))(k); !a.Granted {
		k.Fatal(a.Why)
	}
	testkit.Value(k.st.Metal().Change(ctx, m.UUID, metal.How{}, func(d *metal.Draft) error {
		d.Seen = d.Seen.Add(-10 * time.Minute)
		return nil
	}))(k)
	return u, spec
}

// TestServerWasAway: a machine that was not heard of because nobody was there to hear it is not switched off in the midst of its installation: it is
// given its time, and says how far it is.
func TestServerWasAway(t *testing.T) {
	k, doc := newRack(t, 1), document(t, plain)
	p := k.provider(doc)
	p.o.Silence = 5 * time.Minute
	u, spec := k.installing(p)
	boots := u.boots
	goesOn := told(func(text string) {
		if !strings.Contains(text, "to be heard of") {
			return
		}
		m := testkit.Value(k.reg.Machine(t.Context(), uuidOf(u.n)))(t)
		testkit.Value(k.reg.Renew(t.Context(), m, registry.Progress{Stage: "write root", Done: 1, Total: 2}))(t)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.deaf = false
		testkit.Must(t, k.asks(u))
	})
	testkit.Must(t, p.bring(t.Context(), spec, goesOn))
	if u.boots != boots {
		t.Errorf("it was switched off while it was installed, and has booted %d times more", u.boots-boots)
	}
}

// TestSilent: one that is on, and is not heard of in its time, is switched off and on.
func TestSilent(t *testing.T) {
	k, doc := newRack(t, 1), document(t, plain)
	p := k.provider(doc)
	p.o.Silence = 20 * time.Millisecond
	u, spec := k.installing(p)
	boots := u.boots
	began := time.Now()
	testkit.Must(t, p.bring(t.Context(), spec, told(func(text string) {
		if strings.Contains(text, "boot from the network") {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.deaf = false
		}
	})))
	if u.boots != boots+1 || time.Since(began) < p.o.Silence {
		t.Errorf("booted %d times more, after %s", u.boots-boots, time.Since(began))
	}
}
