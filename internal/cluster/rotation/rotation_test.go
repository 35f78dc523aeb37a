package rotation_test

import (
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// trusts reports whether a part with the generations who accepts the credentials of one with shows.
func trusts(who, shows pki.Generations) bool {
	return shows.Signs == who.Signs || shows.Signs == who.Also
}

// TestPhasesGoTogether: every part accepts every other one of the same, the previous and the next phase; at the end, no part trusts the former
// generation.
func TestPhasesGoTogether(t *testing.T) {
	for settled := range 3 {
		start := max(settled, 1)
		now, last := rotation.Begin([]string{pki.KubernetesCA}, func(string) int { return settled }).Made(), pki.Generations{Signs: start}
		for n := 0; !now.IsZero(); n++ {
			g := now.In(pki.KubernetesCA, settled)
			if !trusts(g, last) || !trusts(last, g) {
				t.Errorf("%s: %v and %v refuse each other", now.Phase, last, g)
			}
			if other := now.In(pki.EtcdCA, settled); other != (pki.Generations{Signs: start}) {
				t.Errorf("%s: what is not rotated is %v", now.Phase, other)
			}
			if again, err := rotation.Parse(now.String()); err != nil || again.String() != now.String() {
				t.Errorf("%q is read as %v: %v", now, again, err)
			}
			if now.Words() == "" || n > 4 {
				t.Fatalf("%d phases: %v", n, now)
			}
			if goes := now.Goes(pki.KubernetesCA); now.Next().IsZero() && (goes != start || g != (pki.Generations{Signs: start + 1})) {
				t.Errorf("it ends with %v: %d goes", g, goes)
			}
			now, last = now.Next(), g
		}
	}
}

// TestAbandon goes back from the first phase, and from no later one.
func TestAbandon(t *testing.T) {
	r := rotation.Begin([]string{pki.SSHKeyName, pki.EtcdCA}, func(string) int { return 4 })
	if r.String() != "trust etcd-ca:4,ssh:4" || !r.Has(pki.FrontProxyCA, pki.SSHKeyName) || r.Has(pki.FrontProxyCA) {
		t.Errorf("it begins as %q", r)
	}
	back := testkit.Value(r.Abandoned())(t)
	if g := back.In(pki.EtcdCA, 9); g != (pki.Generations{Signs: 4}) || !trusts(r.In(pki.EtcdCA, 9), g) || !trusts(g, r.In(pki.EtcdCA, 9)) {
		t.Errorf("back is %v", g)
	}
	if goes := back.Goes(pki.EtcdCA); goes != 5 || !back.Next().IsZero() {
		t.Errorf("back: %d goes, then %v", goes, back.Next())
	}
	if made := testkit.Value(r.Made().Abandoned())(t); made.String() != back.String() || r.Made().Former(pki.EtcdCA) != 4 {
		t.Errorf("back from where the next ones are made is %v", made)
	}
	for _, no := range []rotation.Rotation{{}, r.Next(), r.Next().Next()} {
		if _, err := no.Abandoned(); fail.KindOf(err) != fail.Refused {
			t.Errorf("%v is abandoned: %v", no, err)
		}
	}
	for _, bad := range []string{"use", "sometimes ssh:1", "use nobody:1", "trust ", "use ssh", "use ssh:0"} {
		if _, err := rotation.Parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
