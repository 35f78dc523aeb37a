//go:build e2e

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// lasting is how long plan must find nothing to do after a command that ended with 0. It exceeds every delay after which components notice a
// failure; the longest is the controller manager's 40 s for a silent kubelet.
const lasting = time.Minute

// Verbs that change a cluster, and the part of them after which it conforms to its document.
var (
	changing  = []string{"apply", "destroy", "node", "machine", "certs", "upgrade", "reset", "renew", "repair", "update"}
	finishing = [][]string{{"apply"}, {"node", "replace"}, {"upgrade"}}
)

func changes(args []string) bool { return len(args) > 0 && slices.Contains(changing, args[0]) }

func finishes(args []string) bool {
	return slices.ContainsFunc(finishing, func(verb []string) bool { return len(args) >= len(verb) && slices.Equal(args[:len(verb)], verb) })
}

// finished asserts that plan finds nothing to do after a command that reported success. It checks again a minute later, in the background, unless
// the cluster is changed before.
func (r *rig) finished(res result) {
	r.t.Helper()
	if p := r.plans(r.invocation()); p.code != 0 {
		r.t.Errorf("%s\nended with 0 after %v, but right afterwards %v", res, res.took, p)
		return
	}
	r.lasts()
}

// plans makes a plan. It tries again for a while if API or etcd do not answer, which can happen on a busy host.
func (r *rig) plans(inv invocation) result {
	for began := time.Now(); ; {
		p := naupegos(r.whole, inv, "--state-dir", r.state, "plan", "-f", r.file)
		if !strings.Contains(p.stdout, "does not answer yet") || time.Since(began) > settle*slower {
			return p
		}
		r.whole.Logf("asked for another plan %v after the first: %s", time.Since(began).Round(time.Second), p.stdout)
	}
}

// lasts makes a plan in a minute, without a second try, and asserts that there is nothing to do. It does not do so if the cluster is changed before.
func (r *rig) lasts() {
	if r.calm.lasts() {
		return
	}
	inv, began := r.invocation(), time.Now()
	r.calm.begin(func(ctx context.Context) {
		p := r.plans(inv)
		if p.code != 0 && ctx.Err() == nil {
			r.whole.Errorf("%v after there was nothing to do: %v", time.Since(began).Round(time.Second), p)
		}
	})
}

// stillDone waits for the plan of a minute after the last command, unless the cluster has been changed since.
func (r *rig) stillDone() {
	if !r.t.Failed() {
		r.calm.wait()
	}
	r.calm.end()
}

// calm is a period without changes of a cluster.
type calm struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// begin calls check when the period is long enough. Its context ends when the cluster is about to be changed.
func (c *calm) begin(check func(context.Context)) {
	c.end()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.mu.Lock()
	c.stop, c.done = stop, done
	c.mu.Unlock()
	timer := time.NewTimer(lasting)
	go func() {
		defer close(done)
		defer timer.Stop()
		select {
		case <-timer.C:
			check(ctx)
		case <-ctx.Done():
		}
	}()
}

// lasts reports whether the check is pending, or has been made without a change since.
func (c *calm) lasts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done != nil
}

// wait waits for a pending check.
func (c *calm) wait() {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	if done != nil {
		<-done
	}
}

// end announces a change of the cluster.
func (c *calm) end() {
	c.mu.Lock()
	stop, done := c.stop, c.done
	c.stop, c.done = nil, nil
	c.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}
