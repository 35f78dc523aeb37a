package link

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestLinkWorksOnceAndForAWhile(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what  string
		after time.Duration
		wrong bool
		used  bool
		want  fail.Kind
	}{
		{"at once", 0, false, false, 0},
		{"late", Valid + time.Second, false, false, fail.Unauthorized},
		{"another key", 0, true, false, fail.Unauthorized},
		{"a second time", 0, false, true, fail.Unauthorized},
	} {
		d, key := New("ann", now)
		if c.used {
			testkit.Value(d.Enter(key, now))(t)
		}
		if c.wrong {
			key += "x"
		}
		in, err := d.Enter(key, now.Add(c.after))
		if c.want != 0 {
			if fail.KindOf(err) != c.want || in.Issuer != "" {
				t.Errorf("%s: %+v, %v", c.what, in, err)
			}
			continue
		}
		testkit.Must(t, err)
		if o := testkit.Value(d.Again(&store.Session{Issuer: in.Issuer}))(t); o.Name != "ann by naupegos ui" {
			t.Errorf("%s: the operator is %+v", c.what, o)
		}
		other, _ := New("ann", now)
		if _, err := other.Again(&store.Session{Issuer: in.Issuer}); fail.KindOf(err) != fail.Unauthorized {
			t.Errorf("another process accepts the session: %v", err)
		}
	}
}

// TestWrongKeyLeavesTheLink: wrong guesses do not use the link up.
func TestWrongKeyLeavesTheLink(t *testing.T) {
	d, key := New("ann", time.Now())
	if _, err := d.Enter("guess", time.Now()); err == nil {
		t.Fatal("a guess signs in")
	}
	testkit.Value(d.Enter(key, time.Now()))(t)
}
