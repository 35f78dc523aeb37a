package hostnet

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	calls := 0
	got, err := whole(func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(got) != 2 || calls != 3 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
	if got, err := whole(func() ([]int, error) { return []int{1}, netlink.ErrDumpInterrupted }); !errors.Is(err, netlink.ErrDumpInterrupted) || got != nil {
		t.Errorf("a list that never settles: %v, %v", got, err)
	}
}
