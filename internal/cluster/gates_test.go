package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
)

// TestStoppable: a member may be stopped where the others have a quorum, where it helps nobody anyway, and where it is the only one.
func TestStoppable(t *testing.T) {
	for _, c := range []struct {
		members, sick int // the last ones are sick
		stop          string
		says          string
	}{
		{1, 0, "m1", ""},
		{3, 0, "m1", ""},
		{3, 1, "m1", "quorum"},
		{3, 1, "m3", ""},
		{5, 1, "m1", ""},
		{5, 2, "m1", "quorum"},
		{3, 0, "m9", ""},
	} {
		var members []etcd.Member
		var health []etcd.Health
		for i := range c.members {
			name := "m" + string(rune('1'+i))
			members = append(members, etcd.Member{ID: uint64(i + 1), Name: name, Started: true})
			health = append(health, etcd.Health{ID: uint64(i + 1), Name: name, Reachable: i < c.members-c.sick})
		}
		err := stoppable(members, health, c.stop)
		if c.says == "" && err != nil || c.says != "" && (fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d members, %d sick, stop %s: %v, want %q", c.members, c.sick, c.stop, err, c.says)
		}
	}
}
