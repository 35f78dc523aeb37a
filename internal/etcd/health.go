package etcd

import (
	"context"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
)

// Health is a member's report about itself.
type Health struct {
	ID        uint64
	Name      string
	URL       string // the endpoint that answered; empty if no endpoint belongs to this member
	Reachable bool
	Err       string // why it did not answer
	Leader    bool
	Learner   bool
	Version   string
	DBSize    int64    // bytes on disk
	DBInUse   int64    // bytes of it in use; a defragmentation returns the rest
	Index     uint64   // last raft index it knows
	Lag       uint64   // entries behind the most advanced member
	Alarms    []string // "NOSPACE", "CORRUPT"; also "no leader"
}

// OK reports whether the member helps: it answers, knows a leader and has raised no alarm.
func (h Health) OK() bool { return h.Reachable && len(h.Alarms) == 0 }

// Health queries every endpoint at once and returns one entry per member, in the order of members. A member that does not answer is not an error:
// Reachable is false and Err contains the reason.
func (c *Client) Health(ctx context.Context, members []Member) []Health {
	answers := make([]*clientv3.StatusResponse, len(c.endpoints))
	errs := make([]error, len(c.endpoints))
	var g errgroup.Group
	for i, e := range c.endpoints {
		g.Go(func() error {
			rctx, cancel := c.request(ctx)
			defer cancel()
			answers[i], errs[i] = c.one[e.URL].Status(rctx, e.URL)
			return nil
		})
	}
	_ = g.Wait() // the functions return nil: each error belongs to its member
	out := make([]Health, 0, len(members))
	var furthest uint64
	for _, m := range members {
		h := c.judge(m, answers, errs)
		furthest = max(furthest, h.Index)
		out = append(out, h)
	}
	for i := range out {
		if out[i].Reachable {
			out[i].Lag = furthest - out[i].Index
		}
	}
	return out
}

// judge returns member m's own answer, or the reason why there is none.
func (c *Client) judge(m Member, answers []*clientv3.StatusResponse, errs []error) Health {
	h := Health{ID: m.ID, Name: m.Name, Learner: m.Learner, Err: "none of the known endpoints is this member's"}
	for i, e := range c.endpoints {
		a := answers[i]
		if a == nil || a.Header.GetMemberId() != m.ID {
			if a == nil && (e.Name == m.Name || slices.Contains(m.ClientURLs, e.URL)) {
				h.URL, h.Err = e.URL, errs[i].Error()
			}
			continue
		}
		h = Health{ID: m.ID, Name: m.Name, URL: e.URL, Reachable: true, Learner: a.IsLearner, Leader: a.Leader == m.ID,
			Version: a.Version, DBSize: a.DbSize, DBInUse: a.DbSizeInUse, Index: a.RaftIndex}
		if a.Leader == 0 {
			h.Alarms = append(h.Alarms, "no leader")
		}
		for _, text := range a.Errors { // "memberID:123 alarm:NOSPACE ", "etcdserver: no leader"
			if _, kind, ok := strings.Cut(text, "alarm:"); ok {
				h.Alarms = append(h.Alarms, strings.TrimSpace(kind))
			}
		}
		break
	}
	return h
}

// Revisions returns the last revision of each endpoint's member. A member knows it without the others, so it works without a quorum, too. Members
// that do not answer are left out.
func (c *Client) Revisions(ctx context.Context) map[string]int64 {
	found := make([]int64, len(c.endpoints))
	var g errgroup.Group
	for i, e := range c.endpoints {
		g.Go(func() error {
			rctx, cancel := c.request(ctx)
			defer cancel()
			if a, err := c.one[e.URL].Status(rctx, e.URL); err == nil {
				found[i] = a.Header.GetRevision()
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil: members that do not answer are left out
	out := map[string]int64{}
	for i, e := range c.endpoints {
		if found[i] > 0 {
			out[e.Name] = found[i]
		}
	}
	return out
}

// healthPause is the time between two looks of WaitHealthy.
const healthPause = 250 * time.Millisecond

// WaitHealthy waits until the cluster has at least voters voting members and all of them are OK. When ctx ends, it returns fail.NotReady with the
// missing members and the reasons.
func (c *Client) WaitHealthy(ctx context.Context, voters int) error {
	tick := time.NewTicker(healthPause)
	defer tick.Stop()
	var seen error // the last complete result
	for {
		err := c.unhealthy(ctx, voters)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || seen == nil {
			seen = err
		}
		if !fail.Waitable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.NotReady, seen, "wait for %d healthy etcd members", voters)
		case <-tick.C:
		}
	}
}

func (c *Client) unhealthy(ctx context.Context, voters int) error {
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	var bad []string
	health := c.Health(ctx, members)
	for i, m := range members {
		if h := health[i]; !m.Learner && !h.OK() {
			bad = append(bad, strings.TrimSpace(label(m)+": "+h.Err+strings.Join(h.Alarms, ", ")))
		}
	}
	p := Now(members, health)
	if len(bad) > 0 || p.Voters < voters {
		return fail.New(fail.NotReady, "etcd: %s, %d voters wanted: %s", p, voters, strings.Join(bad, "; "))
	}
	return nil
}
