package remote

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// stagger is the head start of each jump host before the next is tried as well.
const stagger = 300 * time.Millisecond

// jump opens a connection to h through the first of its jump hosts that succeeds. The one that worked last starts first; the others follow one by
// one, or at once when all earlier ones have failed. It returns the key of the winner.
func (d *Dialer) jump(ctx context.Context, h Host, last string) (net.Conn, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hosts := slices.Clone(h.Via)
	slices.SortStableFunc(hosts, func(a, b Host) int { return isLast(b, last) - isLast(a, last) })
	type result struct {
		conn net.Conn
		via  string
		err  error
	}
	results := make(chan result)
	start := func(via Host) {
		go func() {
			conn, err := d.DialContext(ctx, via, "tcp", h.addr())
			select {
			case results <- result{conn, via.key(), err}:
			case <-ctx.Done():
				if conn != nil {
					_ = conn.Close() // another one was faster
				}
			}
		}()
	}
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for {
		select {
		case <-next.C:
			if len(hosts) > 0 {
				start(hosts[0])
				hosts = hosts[1:]
				next.Reset(stagger)
			}
		case r := <-results:
			if r.err == nil {
				return r.conn, r.via, nil
			}
			if errs = append(errs, r.err); len(errs) == len(h.Via) {
				return nil, "", errors.Join(errs...)
			}
			next.Reset(0)
		case <-ctx.Done():
			return nil, "", errors.Join(append(errs, ctx.Err())...)
		}
	}
}

func isLast(h Host, last string) int {
	if h.key() == last {
		return 1
	}
	return 0
}
