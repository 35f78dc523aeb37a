package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

func waitingUUID(n int) string { return fmt.Sprintf("c94d20e7-6f18-4ab3-95d0-%012d", n) }

// claims adds a pending machine.
func claims(ctx context.Context, s metal.Store, n int, room metal.Room, macs ...string) error {
	_, err := s.Change(ctx, waitingUUID(n), metal.How{Make: true, Quick: true, Room: room}, func(d *metal.Draft) error {
		d.MACs, d.State, d.Approval, d.Waits, d.Origin, d.Seen = macs, "discovered", "pending", metal.Once, fmt.Sprint("192.0.2.", n%10), time.Now()
		return nil
	})
	return err
}

// waitingMachinesShare: pending machines may claim the same MAC addresses until one is approved.
func waitingMachinesShare(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	const mac = "52:54:00:00:00:aa"
	for n := range 2 {
		testkit.Must(t, claims(ctx, s, n, metal.Room{}, mac, fmt.Sprintf("52:54:00:00:01:%02x", n)))
	}
	_, err := s.ByMAC(ctx, mac)
	testkit.Fails(t, err, fail.Conflict, waitingUUID(0), waitingUUID(1))
	if others := testkit.Value(s.Claimants(ctx, waitingUUID(0)))(t); len(others) != 1 || others[0] != waitingUUID(1) {
		t.Errorf("%v", others)
	}
	if m := testkit.Value(s.Lookup(ctx, waitingUUID(1), mac))(t); m.MACs[0] != mac {
		t.Errorf("%+v", m)
	}
	count := func(n int) error {
		_, err := s.Change(ctx, waitingUUID(n), metal.How{}, func(d *metal.Draft) error {
			d.Waits, d.Approval = metal.Counts, "approved"
			return nil
		})
		return err
	}
	testkit.Must(t, count(1))
	if m := testkit.Value(s.ByMAC(ctx, mac))(t); m.UUID != waitingUUID(1) || len(m.MACs) != 2 {
		t.Errorf("%+v", m)
	}
	testkit.Fails(t, count(0), fail.Conflict, mac, waitingUUID(1))
	testkit.Fails(t, claims(ctx, s, 2, metal.Room{}, mac), fail.Conflict, mac)
}

// waitingMachinesMakeRoom: old pending machines make room for new ones, with several servers at once.
func waitingMachinesMakeRoom(t *testing.T, at Opener, _ Database) {
	ctx, room := t.Context(), metal.Room{Total: 12, PerOrigin: 2}
	var wg sync.WaitGroup
	for k := range 4 {
		s := at(fmt.Sprint("server-", k)).Metal()
		wg.Go(func() {
			for n := range 20 {
				testkit.Must(t, claims(ctx, s, k*20+n, room, fmt.Sprintf("52:54:00:%02x:00:%02x", k, n)))
			}
		})
	}
	wg.Wait()
	s := at("").Metal()
	testkit.Must(t, claims(ctx, s, 999, room, "52:54:00:00:00:99"))
	all, _, err := s.Find(ctx, metal.Query{})
	byOrigin := map[string]int{}
	for _, m := range all {
		byOrigin[m.Origin]++
	}
	if err != nil || len(all) > 12 || byOrigin["192.0.2.9"] > 2 {
		t.Errorf("%d machines wait: %v, %v", len(all), byOrigin, err)
	}
	testkit.Value(s.Machine(ctx, waitingUUID(999)))(t)
	testkit.Must(t, s.Assign(ctx, func(all []metal.Machine) ([]metal.Assigned, error) { // an operator's decision
		if all[0].Facts != nil || all[0].Look == nil {
			t.Error("all facts were read")
		}
		testkit.Value(all[0].Look())(t)
		return []metal.Assigned{{UUID: waitingUUID(999), Roles: []string{"a"}}}, nil
	}))
	if n := testkit.Value(s.Expire(ctx, time.Now().Add(time.Hour)))(t); n != int64(len(all)-1) {
		t.Errorf("%d of %d machines were removed", n, len(all))
	}
	testkit.Value(s.Machine(ctx, waitingUUID(999)))(t)
}

// lockTokensAreKept: tokens exist until they are dropped.
func lockTokensAreKept(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	made := metal.LockToken{ID: "a1", Group: "workers", Hash: "h", Created: time.Now().UTC().Truncate(time.Microsecond)}
	testkit.Must(t, s.AddLockToken(ctx, made))
	if got := testkit.Value(s.LockToken(ctx, "a1"))(t); *got != made {
		t.Errorf("%+v", got)
	}
	if all := testkit.Value(at("far").Metal().LockTokens(ctx))(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	testkit.Must(t, s.DropLockToken(ctx, "a1"))
	testkit.Fails(t, s.DropLockToken(ctx, "a1"), fail.NotFound)
	_, err := s.LockToken(ctx, "a1")
	testkit.Fails(t, err, fail.NotFound)
}
