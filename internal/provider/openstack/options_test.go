package openstack

import (
	"testing"
	"time"
)

// TestTimeoutsFollowTheDocument: on a slow cloud the user gives more time, in one place.
func TestTimeoutsFollowTheDocument(t *testing.T) {
	for _, c := range []struct{ boot, volume, del time.Duration }{
		{0, 10 * time.Minute, 5 * time.Minute}, {2 * time.Minute, 10 * time.Minute, 5 * time.Minute}, {20 * time.Minute, 20 * time.Minute, 20 * time.Minute},
	} {
		var got Timeouts
		got.setDefaults(c.boot)
		if got.Volume != c.volume || got.Delete != c.del {
			t.Errorf("with %v for machines, volumes have %v and removals %v", c.boot, got.Volume, got.Delete)
		}
	}
}
