package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// MoveLeader moves leadership to another healthy voter if the member with this ID is the leader. It does nothing otherwise, or if the leader
// can't be reached: an election then decides.
func (c *Client) MoveLeader(ctx context.Context, away uint64) error {
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	health := c.Health(ctx, members)
	i := slices.IndexFunc(health, func(h Health) bool { return h.Leader && h.ID == away })
	if i < 0 {
		return nil
	}
	to, ok := successor(health, away)
	if !ok {
		return fail.New(fail.Refused, "move etcd's leadership away from %s: no other healthy voting member", health[i].Name).
			Do("repair another member first")
	}
	if c.quiet != nil {
		defer c.quiet(ctx)()
		c.settle(ctx, health)
	}
	rctx, cancel := c.request(ctx)
	defer cancel()
	if _, err := c.one[health[i].URL].MoveLeader(rctx, to.ID); err != nil { // only the leader itself takes this request
		return classify(ctx, err, "move etcd's leadership from %s to %s", health[i].Name, to.Name)
	}
	return nil
}

// settleReads bounds the reads of settle, for clients that do not pause.
const settleReads = 10

// settle waits for the writes in progress of clients that pause: it reads through each voter until two reads in a row see the same revision. A
// read returns after the requests that the voter forwarded to the leader before; on a busy host, a member may take up a write only after the
// first read.
func (c *Client) settle(ctx context.Context, health []Health) {
	for last, n := int64(-1), 0; n < settleReads; n++ {
		now := c.revision(ctx, health)
		if now == last {
			return
		}
		last = now
	}
}

// revision reads through each voter, and returns the highest revision that one saw.
func (c *Client) revision(ctx context.Context, health []Health) int64 {
	seen := make([]int64, len(health))
	var all sync.WaitGroup
	for i, h := range health {
		if !h.OK() || h.Learner {
			continue
		}
		all.Go(func() {
			rctx, cancel := c.request(ctx)
			defer cancel()
			if got, err := c.one[h.URL].Get(rctx, "health"); err == nil { // a member that does not answer has no requests in progress
				seen[i] = got.Header.Revision
			}
		})
	}
	all.Wait()
	return slices.Max(seen)
}

// successor returns the healthy voter that is least behind.
func successor(health []Health, not uint64) (Health, bool) {
	var best Health
	for _, h := range health {
		if h.ID == not || h.Learner || !h.OK() {
			continue
		}
		if best.ID == 0 || h.Lag < best.Lag {
			best = h
		}
	}
	return best, best.ID != 0
}

// SnapshotInfo describes a snapshot that was written.
type SnapshotInfo struct {
	Member  string // it was taken from
	Version string // of that member
	Bytes   int64
	SHA256  string // hex, of all written bytes
}

// Snapshot writes the database of the most advanced member to w. The stream ends with etcd's SHA-256 of the preceding data, which Snapshot
// verifies; after an error, the data in w is useless. The snapshot contains everything that was readable before the call.
func (c *Client) Snapshot(ctx context.Context, w io.Writer) (SnapshotInfo, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return SnapshotInfo{}, err
	}
	health := c.Health(ctx, members)
	from, ok := successor(health, 0)
	if !ok {
		return SnapshotInfo{}, fail.New(fail.NotReady, "take an etcd snapshot: no healthy member answers")
	}
	rctx, cancel := c.request(ctx)
	_, err = c.one[from.URL].Get(rctx, "\x00") // this read makes the member catch up with the others
	cancel()
	if err != nil {
		return SnapshotInfo{}, classify(ctx, err, "take an etcd snapshot of %s", from.Name)
	}
	r, err := c.one[from.URL].Snapshot(ctx)
	if err != nil {
		return SnapshotInfo{}, classify(ctx, err, "take an etcd snapshot of %s", from.Name)
	}
	defer r.Close()
	v := newVerifier(w)
	if _, err := io.Copy(v, r); err != nil {
		if v.refused != nil {
			return SnapshotInfo{}, v.refused
		}
		return SnapshotInfo{}, classify(ctx, err, "take an etcd snapshot of %s after %d bytes", from.Name, v.n)
	}
	if err := v.check(); err != nil {
		return SnapshotInfo{}, fail.Wrap(fail.Internal, err, "take an etcd snapshot of %s", from.Name).Do("try again; if it persists the member's disk is suspect")
	}
	return SnapshotInfo{Member: from.Name, Version: from.Version, Bytes: v.n, SHA256: fmt.Sprintf("%x", v.all.Sum(nil))}, nil
}

// verifier forwards a snapshot and compares its last 32 bytes with the SHA-256 of those before.
type verifier struct {
	w    io.Writer
	n    int64
	tail []byte // the last bytes seen, at most 32, not yet in body
	body digest
	all  digest

	refused error // of w, not of etcd
}

type digest interface {
	io.Writer
	Sum(b []byte) []byte
}

func newVerifier(w io.Writer) *verifier {
	return &verifier{w: w, body: sha256.New(), all: sha256.New()}
}

// Write implements io.Writer.
func (v *verifier) Write(p []byte) (int, error) {
	n, err := v.w.Write(p)
	v.n += int64(n)
	seen := append(v.tail, p[:n]...)
	keep := max(0, len(seen)-sha256.Size)
	_, _ = v.body.Write(seen[:keep]) // hashes never fail
	_, _ = v.all.Write(p[:n])
	v.tail = append([]byte(nil), seen[keep:]...)
	v.refused = err
	return n, err
}

func (v *verifier) check() error {
	if v.n%512 != sha256.Size {
		return fmt.Errorf("%d bytes: the checksum at the end is missing", v.n)
	}
	if !bytes.Equal(v.tail, v.body.Sum(nil)) {
		return fmt.Errorf("%d bytes: the checksum at the end does not fit", v.n)
	}
	return nil
}

// Defragment returns a member's unused space to its file system. The member does not answer during that time, so Defragment first moves
// leadership away, and refuses if the others have no quorum.
func (c *Client) Defragment(ctx context.Context, id uint64) error {
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	health := c.Health(ctx, members)
	if _, err := Project(members, health, Change{Action: Stop, ID: id}); err != nil && len(members) > 1 {
		return err
	}
	i := slices.IndexFunc(health, func(h Health) bool { return h.ID == id })
	if i < 0 || !health[i].Reachable {
		return fail.New(fail.Unreachable, "defragment etcd member %x: it does not answer", id)
	}
	if len(members) > 1 {
		if err := c.MoveLeader(ctx, id); err != nil {
			return err
		}
	}
	if _, err := c.one[health[i].URL].Defragment(ctx, health[i].URL); err != nil { // as long as it takes: bounded by ctx
		return classify(ctx, err, "defragment etcd member %s", health[i].Name)
	}
	return nil
}
