package registry_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// claims sends a machine's facts from an address.
func (s *simulated) claims(t *testing.T, r *registry.Registry, from string) (*registry.Discovery, error) {
	t.Helper()
	raw, sig := s.body(t)
	return r.DiscoverFrom(t.Context(), raw, sig, from)
}

// as returns a machine that claims the UUID of another.
func (s *simulated) as(t *testing.T, uuid string) *simulated {
	t.Helper()
	s.Boot.UUID = uuid
	if s.key != nil {
		s.Enrolment.Request = testkit.Value(facts.NewRequest(s.key, uuid))(t)
	}
	return s
}

func fingerprint(s *simulated) string { return facts.Fingerprint(s.key.Public()) }

// TestTwoKeysForOneMachine: both claims are shown in any order, neither replaces the other, and an approval names one.
func TestTwoKeysForOneMachine(t *testing.T) {
	for name, rightful := range map[string]int{"the machine first": 0, "the stranger first": 1} {
		for _, cards := range []int{1, 2} { // the stranger has the same MAC addresses, or others
			t.Run(fmt.Sprintf("%s, cards %d", name, cards), func(t *testing.T) {
				r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
				mine, other := newSimulated(t, 1, true), newSimulated(t, cards, true).as(t, uuidOf(1))
				other.System = &facts.System{Serial: "stranger"}
				both := []*simulated{mine, other}
				if rightful == 1 {
					both = []*simulated{other, mine}
				}
				for range 2 {
					for n, s := range both {
						if d, err := s.claims(t, r, fmt.Sprint("10.0.0.", n)); err != nil || d.Approval != registry.Pending || d.Certificate != "" {
							t.Fatalf("claim %d: %+v, %v", n, d, err)
						}
					}
				}
				m := testkit.Value(r.Machine(ctx, mine.Boot.MAC))(t)
				all := m.Claims()
				if !m.Disputed() || len(all) != 2 || all[0].Key != fingerprint(both[0]) || all[1].Key != fingerprint(both[1]) || all[1].From != "10.0.0.1" {
					t.Fatalf("%+v", all)
				}
				if m.Facts.System.Serial == "stranger" != (rightful == 1) {
					t.Error("a later claim replaced the facts of the first")
				}
				happened := ""
				for _, e := range testkit.Value(r.Events(ctx, m.UUID, 100))(t) {
					happened += e.What + ": " + e.Detail + "\n"
				}
				if !strings.Contains(happened, "conflict") || !strings.Contains(happened, fingerprint(both[1])) {
					t.Errorf("no event reports the conflict: %s", happened)
				}
				_, err := r.Approve(ctx, m.UUID, "", "ann")
				testkit.Fails(t, err, fail.Invalid, fingerprint(mine), fingerprint(other), "--key")
				m = testkit.Value(r.Approve(ctx, m.UUID, fingerprint(mine), "ann"))(t)
				if m.Record.Key != fingerprint(mine) || m.Disputed() || m.MACs[0] != mine.Boot.MAC {
					t.Errorf("%+v", m)
				}
				if d := testkit.Value(other.claims(t, r, "10.0.0.1"))(t); d.Certificate != "" || d.Proven {
					t.Errorf("the stranger got %+v", d)
				}
				if d := testkit.Value(mine.claims(t, r, "10.0.0.0"))(t); !d.Proven || d.Certificate == "" {
					t.Errorf("the machine got %+v", d)
				}
				m = testkit.Value(r.Machine(ctx, m.UUID))(t)
				if m.Facts == nil || m.Facts.System.Serial == "stranger" || len(m.Facts.Disks) != 2 {
					t.Errorf("facts: %+v", m.Facts)
				}
			})
		}
	}
}

// TestApprovalsAtTheSameTime: if two operators approve different keys at once, one succeeds.
func TestApprovalsAtTheSameTime(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
	both := []*simulated{newSimulated(t, 1, true), newSimulated(t, 1, true)}
	for _, s := range both {
		testkit.Value(s.claims(t, r, "10.0.0.1"))(t)
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, s := range both {
		wg.Go(func() { _, errs[i] = r.Approve(ctx, uuidOf(1), fingerprint(s), "ann") })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("%v, %v", errs[0], errs[1])
	}
	for i, err := range errs {
		if m := testkit.Value(r.Machine(ctx, uuidOf(1)))(t); (err == nil) != (m.Record.Key == fingerprint(both[i])) {
			t.Errorf("%v, and the key is %s", err, m.Record.Key)
		}
	}
}

// TestSquatters: a machine is discovered and approved although others claimed its UUID and MAC addresses before.
func TestSquatters(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
	mine := newSimulated(t, 1, true)
	for n := range 12 { // its UUID, with other keys and other cards
		testkit.Value(newSimulated(t, 100+n, n%3 > 0).as(t, uuidOf(1)).claims(t, r, fmt.Sprint("10.0.1.", n)))(t)
	}
	squatter := newSimulated(t, 50, true) // its MAC addresses, and many others
	for n := range 250 {
		squatter.Interfaces = append(squatter.Interfaces, facts.Interface{Name: fmt.Sprint("eth", n+1), MAC: fmt.Sprintf("52:54:00:00:00:%02x", n+1)})
	}
	testkit.Value(squatter.claims(t, r, "10.0.2.1"))(t)
	for range 2 {
		if d, err := mine.claims(t, r, "10.0.0.1"); err != nil || d.Approval != registry.Pending {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if others := testkit.Value(r.Claimants(ctx, uuidOf(50)))(t); len(others) != 1 || others[0] != uuidOf(1) {
		t.Errorf("the conflict about MAC addresses is not shown: %v", others)
	}
	_, err := r.Machine(ctx, mine.Boot.MAC)
	testkit.Fails(t, err, fail.Conflict, uuidOf(1), uuidOf(50))
	testkit.Value(r.Approve(ctx, uuidOf(1), fingerprint(mine), "ann"))(t)
	if d := testkit.Value(mine.claims(t, r, "10.0.0.1"))(t); !d.Proven || d.Certificate == "" {
		t.Errorf("%+v", d)
	}
	if m := testkit.Value(r.Machine(ctx, mine.Boot.MAC))(t); m.UUID != uuidOf(1) {
		t.Errorf("%+v", m)
	}
	testkit.Value(r.Approve(ctx, uuidOf(50), fingerprint(squatter), "ann"))(t) // its own boot interface identifies it; others' addresses are left out
	if m := testkit.Value(r.Machine(ctx, mine.Boot.MAC))(t); m.UUID != uuidOf(1) {
		t.Errorf("the squatter took the address: %+v", m)
	}
}

// TestSquattersWhoRepeat: one address with many keys, each of which claims a UUID again and again, pushes out only its own claims. Many addresses may push out
// the machine's; an operator can approve its key all the same.
func TestSquattersWhoRepeat(t *testing.T) {
	for name, from := range map[string]func(n int) string{
		"one address":    func(int) string { return "10.0.1.1" },
		"five addresses": func(n int) string { return fmt.Sprint("10.0.1.", n) },
	} {
		t.Run(name, func(t *testing.T) {
			r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
			var squatters []*simulated
			for n := range 6 {
				squatters = append(squatters, newSimulated(t, 1, true))
				for range 2 {
					testkit.Value(squatters[n].claims(t, r, from(n)))(t)
				}
			}
			mine := newSimulated(t, 1, true)
			for range 3 {
				testkit.Value(mine.claims(t, r, "10.0.0.1"))(t)
				for n, s := range squatters {
					testkit.Value(s.claims(t, r, from(n)))(t)
				}
				m := testkit.Value(r.Selected(ctx, facts.Selector{UUID: uuidOf(1)}))(t)
				listed := slices.ContainsFunc(m.Claims(), func(a registry.Asking) bool { return a.Key == fingerprint(mine) })
				if !listed && name == "one address" {
					t.Fatalf("the machine's claim was pushed out: %+v", m.Claims())
				}
				if n := len(m.Claims()); n != 5 {
					t.Errorf("%d claims are listed", n)
				}
			}
			_, err := r.Approve(ctx, uuidOf(1), fingerprint(newSimulated(t, 1, true)), "ann")
			testkit.Fails(t, err, fail.Conflict, "does not ask")
			m := testkit.Value(r.Approve(ctx, uuidOf(1), fingerprint(mine), "ann"))(t)
			if m.Record.Key != fingerprint(mine) || m.Disputed() || len(m.MACs) == 0 {
				t.Errorf("%+v", m)
			}
			if d := testkit.Value(mine.claims(t, r, "10.0.0.1"))(t); !d.Proven || d.Certificate == "" {
				t.Errorf("the machine got %+v", d)
			}
		})
	}
}

// TestOnlyWaitingClaimsAreApproved: a claim that was ignored, refused or rejected can't be approved until it is made again.
func TestOnlyWaitingClaimsAreApproved(t *testing.T) {
	t.Run("ignored", func(t *testing.T) {
		r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
		mine, stranger := newSimulated(t, 1, true), newSimulated(t, 2, false).as(t, uuidOf(1))
		testkit.Value(mine.send(t, r))(t)
		testkit.Value(r.Approve(ctx, uuidOf(1), fingerprint(mine), "ann"))(t)
		testkit.Value(stranger.send(t, r))(t)
		_, err := r.Approve(ctx, uuidOf(1), "mac:"+stranger.Boot.MAC, "ann")
		testkit.Fails(t, err, fail.Conflict, "does not ask")
		if m := testkit.Value(r.Machine(ctx, uuidOf(1)))(t); m.Record.Key != fingerprint(mine) || m.MACs[0] != mine.Boot.MAC {
			t.Errorf("%+v", m)
		}
	})
	t.Run("refused", func(t *testing.T) {
		r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
		mine, stranger := newSimulated(t, 1, false), newSimulated(t, 2, true).as(t, uuidOf(1))
		testkit.Value(mine.send(t, r))(t)
		testkit.Value(r.Approve(ctx, uuidOf(1), "", "ann"))(t)
		_, err := stranger.send(t, r)
		testkit.Fails(t, err, fail.Conflict, "another machine")
		_, err = r.Approve(ctx, uuidOf(1), fingerprint(stranger), "ann")
		testkit.Fails(t, err, fail.Conflict, "does not ask")
	})
	t.Run("rejected", func(t *testing.T) {
		r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
		mine := newSimulated(t, 1, true)
		testkit.Value(mine.send(t, r))(t)
		testkit.Value(r.Reject(ctx, uuidOf(1), "ann"))(t)
		_, err := r.Approve(ctx, uuidOf(1), fingerprint(mine), "ann")
		testkit.Fails(t, err, fail.Conflict, "does not ask")
		testkit.Value(mine.send(t, r))(t)
		if m := testkit.Value(r.Approve(ctx, uuidOf(1), fingerprint(mine), "ann"))(t); m.Record.Key != fingerprint(mine) {
			t.Errorf("%+v", m)
		}
	})
}

// TestTwoWithoutKeys: machines of the older system are distinguished by their MAC addresses.
func TestTwoWithoutKeys(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	one, two := newSimulated(t, 1, false), newSimulated(t, 2, false).as(t, uuidOf(1))
	for range 2 {
		testkit.Value(one.send(t, r))(t)
		testkit.Value(two.send(t, r))(t)
	}
	_, err := r.Approve(ctx, uuidOf(1), "", "ann")
	testkit.Fails(t, err, fail.Invalid, "mac:"+one.Boot.MAC, "mac:"+two.Boot.MAC)
	if m := testkit.Value(r.Approve(ctx, uuidOf(1), "mac:"+two.Boot.MAC, "ann"))(t); m.MACs[0] != two.Boot.MAC {
		t.Errorf("%+v", m)
	}
	_, err = one.send(t, r)
	testkit.Fails(t, err, fail.Conflict, two.Boot.MAC)
}

// TestRuleAndSquatter: a rule approves the matching claim, in any order.
func TestRuleAndSquatter(t *testing.T) {
	r := newRegistry(t, registry.Options{Issuer: issuer{}, Rules: []registry.Rule{{"serial": "ZX81Q7"}}})
	testkit.Value(newSimulated(t, 9, true).as(t, uuidOf(1)).claims(t, r, "10.0.0.9"))(t)
	mine := newSimulated(t, 1, true)
	mine.System = &facts.System{Serial: "ZX81Q7"}
	if d := testkit.Value(mine.claims(t, r, "10.0.0.1"))(t); d.Approval != registry.Approved || d.Certificate == "" {
		t.Errorf("%+v", d)
	}
}

// TestPendingIsBounded: strangers claim to be machines, from one address and from many.
func TestPendingIsBounded(t *testing.T) {
	n, addresses := 2400, 240
	if testkit.Full() {
		n, addresses = 100_000, 10_000
	}
	for name, from := range map[string]func(i int) string{
		"one address":    func(int) string { return "10.9.9.9:4711" },
		"one /64":        func(i int) string { return fmt.Sprintf("[2001:db8:1:1::%x:%x]:4711", i>>16, i&0xffff) },
		"many addresses": func(i int) string { i %= addresses; return fmt.Sprintf("10.%d.%d.%d:4711", 10+i>>16, i>>8&255, i&255) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := testkit.Value(store.Open(t.Context(), store.Location{Dir: dir}))(t)
			t.Cleanup(func() { testkit.Must(t, st.Close()) })
			limits := registry.Limits{Total: 200, PerAddress: 20, Burst: 50}
			if testkit.Full() {
				limits = registry.Limits{}
			}
			r := registry.New(st.Metal(), registry.Options{Limits: limits})
			alone := newSimulated(t, 8, true)
			began := time.Now()
			testkit.Value(alone.claims(t, r, "192.0.2.2:4711"))(t)
			usual, before := time.Since(began), resident(t)
			mine, slowest, refused := newSimulated(t, 7, true), time.Duration(0), 0
			lines := strings.Repeat("x", 4000)
			for i := range n {
				s := newSimulated(t, 0, false)
				s.Boot.UUID, s.Boot.MAC = fmt.Sprintf("c94d20e7-6f18-4ab3-95d0-%012d", i), fmt.Sprintf("52:55:%02x:%02x:%02x:00", i>>16, i>>8&255, i&255)
				s.Interfaces[0].MAC, s.Journal = s.Boot.MAC, []string{lines, lines, lines, lines, lines, lines, lines, lines}
				if _, err := s.claims(t, r, from(i)); fail.KindOf(err) == fail.NotReady {
					refused++
				} else {
					testkit.Must(t, err)
				}
				if i%(n/10) == n/20 {
					began := time.Now()
					if d, err := mine.claims(t, r, "192.0.2.1:4711"); err != nil || d.Approval != registry.Pending {
						t.Fatalf("the machine itself: %+v, %v", d, err)
					}
					slowest = max(slowest, time.Since(began))
				}
			}
			_, waiting, err := r.Find(t.Context(), metal.Query{Approval: string(registry.Pending), Limit: 1})
			testkit.Must(t, err)
			size := int64(0)
			for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t) {
				if info, err := os.Stat(f); err == nil && !info.IsDir() {
					size += info.Size()
				}
			}
			grown := resident(t) - before
			t.Logf("%d discoveries: %d refused, %d wait, the store has %d KiB, memory grew by %d KiB; the machine itself took %s before them and %s at most among them", n, refused, waiting, size>>10, grown>>10,
				usual.Round(time.Millisecond), slowest.Round(time.Millisecond))
			if grown > 128<<20 {
				t.Errorf("memory grew by %d bytes", grown)
			}
			if most := 201; !testkit.Full() && (waiting > most || size > 48<<20) || waiting > 2000 || size > 512<<20 {
				t.Errorf("%d machines wait, and the store has %d bytes", waiting, size)
			}
			if name != "many addresses" && (waiting > 66 || refused < n/2) {
				t.Errorf("%d machines of one address wait, %d discoveries were refused", waiting, refused)
			}
			if m, err := r.Machine(t.Context(), uuidOf(7)); err != nil || slowest > 10*time.Second {
				t.Errorf("the machine itself: %+v, %v, after %s", m, err, slowest)
			}
		})
	}
}

// resident returns the memory of this process in bytes, including SQLite's, which Go's heap does not show.
func resident(t *testing.T) (bytes int64) {
	t.Helper()
	debug.FreeOSMemory()
	text := string(testkit.Value(os.ReadFile("/proc/self/statm"))(t))
	var size, pages int64
	testkit.Value(fmt.Sscan(text, &size, &pages))(t)
	return pages * int64(os.Getpagesize())
}

// TestPendingFacts: the facts and the journal of a waiting machine are limited.
func TestPendingFacts(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	s := newSimulated(t, 1, false)
	for n := range 20 {
		s.Boot.RandomID, s.Journal = fmt.Sprint("boot-", n), []string{strings.Repeat("a", 4000), strings.Repeat("b", 4000), strings.Repeat("c", 4000), strings.Repeat("d", 4000), "the end"}
		for range 10 {
			s.Journal = append([]string{strings.Repeat("e", 4000)}, s.Journal...)
		}
		testkit.Value(s.send(t, r))(t)
	}
	if boots := testkit.Value(r.Boots(ctx, uuidOf(1)))(t); len(boots) > 2 {
		t.Errorf("%d boots are remembered", len(boots))
	}
	j := testkit.Value(r.Journal(ctx, uuidOf(1), "", registry.DiscoveryJournal))(t)
	if size := len(strings.Join(j.Lines, "")); size > 17<<10 || j.Lines[len(j.Lines)-1] != "the end" {
		t.Errorf("the journal has %d bytes", size)
	}
	for n := range 700 {
		s.Disks = append(s.Disks, facts.Disk{Path: fmt.Sprint("/dev/disk", n), SizeBytes: 1, Model: strings.Repeat("m", 100)})
	}
	_, err := s.send(t, r)
	testkit.Fails(t, err, fail.Invalid, "--pending-size", uuidOf(1))
	m := testkit.Value(r.Selected(ctx, facts.Selector{UUID: uuidOf(1)}))(t)
	testkit.Fails(t, r.Finish(ctx, m, true, []string{"a stranger's log"}), fail.Refused, "not approved")
	testkit.Value(r.Approve(ctx, uuidOf(1), "", "ann"))(t)
	testkit.Value(s.send(t, r))(t)
}

// TestPendingExpires: silent machines that wait are forgotten, except ones that an operator has named.
func TestPendingExpires(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	r, ctx := registry.New(st.Metal(), registry.Options{}), t.Context()
	for n := 1; n <= 4; n++ {
		testkit.Value(newSimulated(t, n, n%2 == 0).send(t, r))(t)
	}
	testkit.Value(r.Rename(ctx, uuidOf(1), "kept"))(t)
	testkit.Value(r.Approve(ctx, uuidOf(3), "", "ann"))(t)
	if n := testkit.Value(st.Metal().Expire(ctx, time.Now().Add(-time.Hour)))(t); n != 0 {
		t.Errorf("%d machines were forgotten too early", n)
	}
	if n := testkit.Value(st.Metal().Expire(ctx, time.Now().Add(time.Hour)))(t); n != 2 {
		t.Errorf("%d machines were forgotten", n)
	}
	for _, n := range []int{1, 3} {
		testkit.Value(r.Machine(ctx, uuidOf(n)))(t)
	}
}

// TestAssignReadsNoStrangersFacts: assigning one machine reads only the facts of possible candidates.
func TestAssignReadsNoStrangersFacts(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	for n := 1; n <= 9; n++ {
		testkit.Value(newSimulated(t, n, false).send(t, r))(t)
		if n <= 4 {
			testkit.Value(r.Approve(ctx, uuidOf(n), "", "ann"))(t)
		}
	}
	testkit.Value(r.Label(ctx, uuidOf(3), map[string]string{"rack": "r1"}, nil))(t)
	var asked []string
	seat := registry.Seat{Pool: "general", Number: 1,
		Labelled: func(m *registry.Machine) string {
			return map[bool]string{false: "another rack"}[m.Labels["rack"] == "r1"]
		},
		Fits: func(m *registry.Machine) string {
			if len(m.Facts.Disks) != 2 {
				return "no facts"
			}
			asked = append(asked, m.UUID)
			return ""
		}}
	given := testkit.Value(r.Claim(ctx, "demo", "", []registry.Seat{seat}, false))(t)
	if len(given) != 1 || given[0].UUID != uuidOf(3) || given[0].Domain != "switch-0" || len(asked) != 1 {
		t.Errorf("%+v; the facts of %v were read", given, asked)
	}
}

// TestRulesSayWhatTheyDo: a rule that can lead to a control plane warns of it.
func TestRulesSayWhatTheyDo(t *testing.T) {
	var out bytes.Buffer
	for _, text := range []string{"manufacturer=Dell*", "mac=52:54:00:aa:bb:cc"} {
		rule := testkit.Value(registry.ParseRule(text))(t)
		out.WriteString(rule.Warning() + "\n")
	}
	if n := strings.Count(out.String(), "control plane"); n != 2 {
		t.Error(out.String())
	}
}
