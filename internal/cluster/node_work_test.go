package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

func TestQuorumWithout(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).running(document(t, 3, 2, 2))
	o := l.observed(nil, controlPlanes(3)...)
	if p, err := quorumWithout(o, []string{"demo-cp-2"}); err != nil || p.String() != "2 of 3 voters healthy, 2 needed" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := quorumWithout(o, []string{"demo-cp-2", "demo-cp-3"}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "lose its quorum") {
		t.Errorf("two of three: %v", err)
	}
	l.state("demo-cp-3", provider.Stopped)
	o = l.observed(nil, controlPlanes(3)...)
	if _, err := quorumWithout(o, []string{"demo-cp-2"}); fail.KindOf(err) != fail.Refused {
		t.Errorf("the second after one is down: %v", err)
	}
	if _, err := quorumWithout(o, []string{"demo-cp-3"}); err != nil {
		t.Errorf("the one that is down: %v", err)
	}
	o.EtcdErr = errors.New("no answer")
	if _, err := quorumWithout(o, []string{"demo-cp-1"}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "can't be foreseen") {
		t.Errorf("blind: %v", err)
	}
}

// TestOutage: each role has its own words, and machines that are off have none.
func TestOutage(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).running(document(t, 3, 2, 2))
	for _, c := range []struct {
		machines []string
		want     []string
	}{
		{[]string{"demo-a-1"}, []string{"demo-a-1: pods are not moved"}},
		{[]string{"demo-gw-1", "demo-a-2"}, []string{"demo-a-2: pods", "another gateway takes the address"}},
		{[]string{"demo-gw-1", "demo-gw-2"}, []string{"no gateway is left"}},
	} {
		got, err := l.Outage(t.Context(), c.machines)
		if err != nil || got.Quorum != nil || len(got.Words) != len(c.want) {
			t.Errorf("%v: %+v, %v", c.machines, got, err)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got.Words[i], w) {
				t.Errorf("%v: %q lacks %q", c.machines, got.Words[i], w)
			}
		}
	}
	l.state("demo-a-1", provider.Stopped)
	if got, err := l.Outage(t.Context(), []string{"demo-a-1"}); err != nil || len(got.Words) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
