package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNextProviders goes from every final list to every other, and changes the target after every number of stages: API servers with consecutive
// lists can always read what the other writes, and can always read all stored Secrets.
func TestNextProviders(t *testing.T) {
	finals := [][]string{env.FinalProviders(false, ""), env.FinalProviders(true, "key1"), env.FinalProviders(true, "key2")}
	for _, from := range finals {
		for _, first := range finals {
			for _, then := range finals {
				for changed := range 6 {
					now, written := from, from[0]
					stored := map[string]bool{written: true} // providers with which Secrets may be stored
					stages := 0
					for wish := first; ; stages++ {
						if stages == changed {
							wish = then
						}
						if stages > 12 {
							t.Fatalf("%v → %v, after %d stages → %v: no end: %v", from, first, changed, then, now)
						}
						next := staged.NextProviders(now, wish, written)
						for _, reader := range [][]string{now, next} {
							for p := range stored {
								if !slices.Contains(reader, p) {
									t.Fatalf("%v → %v, after %d stages → %v: API servers with %v can't read what is stored by %s", from, first, changed, then, reader, p)
								}
							}
							if !slices.Contains(reader, now[0]) || !slices.Contains(reader, next[0]) {
								t.Fatalf("%v and %v at once: %v can't read what another writes", now, next, reader)
							}
						}
						stored[next[0]] = true
						if now[0] != next[0] {
							written = ""
						}
						if now = next; now[0] == wish[0] && written != wish[0] { // all servers run with the list: Secrets are rewritten
							written, stored = now[0], map[string]bool{now[0]: true}
						}
						if slices.Equal(now, then) && stages >= changed && written == then[0] {
							break
						}
					}
				}
			}
		}
	}
}

// TestWishChanges turns encryption at rest on and off, and changes the target after every number of stages, also between the rollout and the end
// of a stage: stored Secrets are always readable, and in the end all of them are stored as wanted.
func TestWishChanges(t *testing.T) {
	for _, from := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			for changed := range 5 {
				for _, cut := range []bool{false, true} {
					l := newLab(t, encryptionDocument(t, from)).Running(encryptionDocument(t, from))
					testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(encryptionDocument(t, from).Marshal())(t))))
					l.walk(first, changed, cut)
				}
			}
		}
	}
}

// walk wishes for one thing first and, after some stages, for the opposite, until nothing is left to do.
func (l *lab) walk(first bool, changed int, cut bool) {
	l.t.Helper()
	l.Doc = encryptionDocument(l.t, first)
	before := l.providersNow()
	stored := map[string]bool{before[0]: true} // providers with which Secrets may be stored
	for stage := range 12 {
		if stage == changed {
			l.Doc = encryptionDocument(l.t, !first)
		}
		testkit.Must(l.t, l.AdvanceEncryption(l.t.Context()))
		now := l.providersNow()
		stored[before[0]], stored[now[0]] = true, true
		for _, reader := range [][]string{before, now} {
			for p := range stored {
				if !slices.Contains(reader, p) {
					l.t.Fatalf("%v, changed after %d (cut off: %v): API servers with %v can't read what is stored by %s", first, changed, cut, reader, p)
				}
			}
		}
		before = now
		if cut && stage == changed-1 {
			continue
		}
		switch s := l.encryptionStep(); {
		case s == nil && stage > changed:
			if final := l.FinalEncryption(); !slices.Equal(now, final) || len(stored) != 1 || !stored[final[0]] {
				l.t.Errorf("%v, changed after %d (cut off: %v): at the end API servers have %v, and stored is %v", first, changed, cut, now, stored)
			}
			return
		case s == nil:
		case s.Timeout == staged.RewriteTimeout:
			stored = map[string]bool{now[0]: true}
			testkit.Must(l.t, l.SettleEncryption(l.t.Context(), now, now[0]))
		default:
			testkit.Must(l.t, s.Run(l.t.Context(), nil))
		}
	}
	l.t.Errorf("%v, changed after %d (cut off: %v): no end", first, changed, cut)
}

// encryptionStep returns the step that ends the current stage, or nil.
func (l *lab) encryptionStep() *plan.Step {
	l.t.Helper()
	a := l.applying(&observe.Observed{}, nil)
	a.planEncryption()
	for _, s := range testkit.Value(a.graph.Seal(stage.ApplyRules))(l.t) {
		return s
	}
	return nil
}

// providersNow is the list that API servers should run with.
func (l *lab) providersNow() []string {
	l.t.Helper()
	return testkit.Value(l.Encryption())(l.t)
}

// encryptionRounds plans and simulates the steps until the encryption is as wanted; it returns the plans.
func (l *lab) encryptionRounds(doc *v1alpha1.Cluster) []string {
	l.t.Helper()
	l.Doc = doc
	var plans []string
	for {
		before := l.providersNow()
		l.configured(before)
		testkit.Must(l.t, l.AdvanceEncryption(l.t.Context()))
		o := l.observed(nil, controlPlanes(3)...)
		got := l.mustPlan(o)
		if !strings.Contains(got, " encryption ") && !strings.Contains(got, "configure/") {
			return plans
		}
		if plans = append(plans, got); len(plans) > 6 {
			l.t.Fatalf("no end:\n%s", strings.Join(plans, "\n"))
		}
		if strings.Contains(got, "rewritten") {
			testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.EncryptionWrote, l.providersNow()[0]))
		}
		testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.EncryptionRun, strings.Join(l.providersNow(), ",")))
	}
}

// configured makes all machines match the document.
func (l *lab) configured(list []string) {
	l.t.Helper()
	want, _ := wanted.Assign(l.Doc, nil, nil)
	now := l.Facts.Get(memory.Encryption)
	testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.Encryption, strings.Join(list, ",")))
	l.Configure(l.Doc, want)
	testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.Encryption, now))
}

func encryptionDocument(t *testing.T, on bool) *v1alpha1.Cluster {
	t.Helper()
	doc := document(t, 3, 1, 0)
	doc.Spec.Security.EncryptionAtRest = &on
	return doc
}

// TestEncryptionStages turns encryption at rest on, off and on again, and rotates its key, on a cluster that runs.
func TestEncryptionStages(t *testing.T) {
	l := newLab(t, encryptionDocument(t, false)).Running(encryptionDocument(t, false))
	text := testkit.Value(encryptionDocument(t, false).Marshal())(t)
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(text)))
	if plans := l.encryptionRounds(encryptionDocument(t, false)); len(plans) > 0 {
		t.Fatalf("nothing changed, but:\n%s", plans[0])
	}
	on := l.encryptionRounds(encryptionDocument(t, true))
	testkit.Golden(t, "encryption-on.golden", strings.Join(on, "\n"))
	if got := l.providersNow(); !slices.Equal(got, []string{"key1", layout.Plaintext}) {
		t.Errorf("on is %v", got)
	}
	if name := testkit.Value(l.RotateEncryption(t.Context()))(t); name != "key2" {
		t.Errorf("the next key is %s", name)
	}
	if _, err := l.RotateEncryption(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("rotated again meanwhile: %v", err)
	}
	testkit.Golden(t, "encryption-rotate.golden", strings.Join(l.encryptionRounds(encryptionDocument(t, true)), "\n"))
	if got := l.providersNow(); !slices.Equal(got, []string{"key2", layout.Plaintext}) {
		t.Errorf("rotated is %v", got)
	}
	testkit.Golden(t, "encryption-off.golden", strings.Join(l.encryptionRounds(encryptionDocument(t, false)), "\n"))
	if got := l.providersNow(); !slices.Equal(got, []string{layout.Plaintext}) {
		t.Errorf("off is %v", got)
	}
	if _, err := l.RotateEncryption(t.Context()); fail.KindOf(err) != fail.Invalid {
		t.Errorf("rotated while off: %v", err)
	}
}

// TestStagesAreTold: the first stage lists all following ones.
func TestStagesAreTold(t *testing.T) {
	got := strings.Join(staged.StagesAfter([]string{"key1", layout.Plaintext, "key2"}, env.FinalProviders(true, "key2"), "key1"), "\n")
	want := `then all API servers write Secrets with key2, and also read them with key1 and in plaintext
then encrypt all Secrets in etcd with key2
then all API servers write Secrets with key2, and also read them in plaintext`
	if got != want {
		t.Errorf("told:\n%s\nwant:\n%s", got, want)
	}
}

// TestOlderStore: a store from a backup adopts the API servers' list, at whatever stage it is, and then moves to the document's. At no time is
// there an API server that can't read stored Secrets.
func TestOlderStore(t *testing.T) {
	on, off := []string{"key1", "identity"}, []string{"identity"}
	for _, c := range []struct {
		name  string
		lists [][]string // of the API servers
		wish  bool
		key   string // with which Secrets are written in the end
	}{
		{"nothing was changed", [][]string{on, on, on}, true, "key1"},
		{"another key was made", [][]string{{"key2", "identity"}, {"key2", "identity"}, {"key2", "identity"}}, true, "key2"},
		{"two of three know the next key", [][]string{{"key1", "identity", "key2"}, {"key1", "identity", "key2"}, on}, true, "key1"},
		{"one of two writes by the next key", [][]string{{"key1", "identity", "key2"}, {"key2", "key1", "identity"}}, true, "key1"},
		{"one of two has dropped the former key", [][]string{{"key2", "identity"}, {"key2", "key1", "identity"}}, true, "key2"},
		{"it was turned off", [][]string{off, off, off}, false, "identity"},
		{"it was turned off, and the document says on", [][]string{off, off, off}, true, "key1"},
	} {
		l := newLab(t, encryptionDocument(t, c.wish)).Running(encryptionDocument(t, true))
		testkit.Must(t, l.Facts.Set(t.Context(), memory.Restored, "2026-11-23T00:00:00Z"))
		testkit.Must(t, l.SettleEncryption(t.Context(), on, "key1"))
		stored := map[string]bool{}
		for _, list := range c.lists {
			stored[list[0]] = true
		}
		testkit.Must(t, l.AdoptEncryption(t.Context(), c.lists))
		servers := c.lists
		for stage := 0; ; stage++ {
			testkit.Must(t, l.AdvanceEncryption(t.Context()))
			now := l.providersNow()
			stored[now[0]] = true
			for _, list := range append(servers, now) { // API servers before and after their restart
				found := stage == 0 && len(servers) > 1 && !slices.Equal(list, now) // how they were found is not our doing
				for p := range stored {
					if !found && !slices.Contains(list, p) {
						t.Errorf("%s, stage %d: API servers with %v can't read what %s has stored", c.name, stage, list, p)
					}
				}
			}
			servers = [][]string{now}
			s := l.encryptionStep()
			if s == nil {
				if final := l.FinalEncryption(); !slices.Equal(now, final) || final[0] != c.key {
					t.Errorf("%s: at the end API servers have %v, want %v to write by %s", c.name, now, final, c.key)
				}
				break
			}
			if s.Timeout == staged.RewriteTimeout {
				stored = map[string]bool{now[0]: true}
				testkit.Must(t, l.SettleEncryption(t.Context(), now, now[0]))
			} else {
				testkit.Must(t, s.Run(t.Context(), nil))
			}
			if stage > 6 {
				t.Fatalf("%s: no end, at %v", c.name, now)
			}
		}
	}
}
