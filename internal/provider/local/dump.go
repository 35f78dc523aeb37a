package local

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts bounds how often a list is asked for again that changed while the kernel told it.
const dumpAttempts = 50

// whole returns what list returns once nothing changed meanwhile, as other clusters' links and addresses may.
func whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpAttempts {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return nil, err
}
