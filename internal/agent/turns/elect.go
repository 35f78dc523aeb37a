package turns

import (
	"context"
	"encoding/json"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// turn is an election that one machine at a time holds while it lives.
type turn struct {
	m      *member
	lease  string
	life   time.Duration // lifetime without a keep-alive
	cancel context.CancelFunc
	ended  chan struct{} // closed when keep-alives stop
}

type compare struct {
	Target         string `json:"target"`
	Key            []byte `json:"key"`
	CreateRevision string `json:"create_revision,omitempty"`
	Lease          string `json:"lease,omitempty"`
}

type operation struct {
	Put    *put    `json:"request_put,omitempty"`
	Delete *ranged `json:"request_delete_range,omitempty"`
}

type put struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
	Lease string `json:"lease,omitempty"`
}

// commit executes then in one transaction if the comparisons hold, and reports whether they did.
func (m *member) commit(ctx context.Context, when []compare, then []operation) (bool, error) {
	var answer struct {
		Succeeded bool `json:"succeeded"`
	}
	err := m.call(ctx, "/v3/kv/txn", map[string]any{"compare": when, "success": then}, &answer)
	return answer.Succeeded, err
}

// take wins the turn, or returns nil if another machine has it. The returned context ends when the turn is lost.
func (m *member) take(ctx context.Context, machine string, life time.Duration) (context.Context, *turn, error) {
	var granted struct {
		ID string `json:"ID"`
	}
	if err := m.call(ctx, "/v3/lease/grant", map[string]any{"TTL": int(life.Seconds())}, &granted); err != nil {
		return nil, nil, err
	}
	t := &turn{m: m, lease: granted.ID, life: life, ended: make(chan struct{})}
	ok, err := m.commit(ctx, []compare{{Target: "CREATE", Key: []byte(holderKey), CreateRevision: "0"}},
		[]operation{{Put: &put{Key: []byte(holderKey), Value: []byte(machine), Lease: granted.ID}}})
	if err != nil || !ok {
		t.revoke(ctx)
		return nil, nil, err
	}
	ctx, t.cancel = context.WithCancel(ctx)
	go t.keep(ctx)
	return ctx, t, nil
}

// keep keeps the turn alive until ctx ends or the turn is lost.
func (t *turn) keep(ctx context.Context) {
	defer close(t.ended)
	defer t.cancel()
	tick := time.NewTicker(t.life / 6)
	defer tick.Stop()
	for good := time.Now(); time.Since(good) < t.life; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		var alive struct {
			Result struct {
				TTL string `json:"TTL"`
			} `json:"result"`
		}
		// Retry failures until the turn has expired.
		if err := t.m.call(ctx, "/v3/lease/keepalive", map[string]string{"ID": t.lease}, &alive); err == nil {
			if alive.Result.TTL == "" { // etcd no longer knows it
				return
			}
			good = asked
		}
	}
}

// record writes a key if the turn is still held.
func (t *turn) record(ctx context.Context, key string, v any, gone ...string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write %s", key)
	}
	then := []operation{{Put: &put{Key: []byte(key), Value: raw}}}
	for _, k := range gone {
		then = append(then, operation{Delete: &ranged{Key: []byte(k)}})
	}
	ok, err := t.m.commit(ctx, []compare{{Target: "LEASE", Key: []byte(holderKey), Lease: t.lease}}, then)
	if err == nil && !ok {
		err = fail.New(fail.Conflict, "another machine has taken the turn").Do("this one was held up for more than %s", t.life)
	}
	return err
}

// end releases the turn for the next waiting machine.
func (t *turn) end(ctx context.Context) {
	t.cancel()
	<-t.ended
	t.revoke(context.WithoutCancel(ctx))
}

// revoke revokes a lease. If that fails, the lease expires by itself.
func (t *turn) revoke(ctx context.Context) {
	var nothing struct{}
	_ = t.m.call(ctx, "/v3/lease/revoke", map[string]string{"ID": t.lease}, &nothing)
}
