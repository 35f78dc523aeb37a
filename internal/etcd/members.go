package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/naupegos/naupegos/internal/fail"
)

// Member is one entry of etcd's own member list.
type Member struct {
	ID         uint64
	Name       string // empty as long as the member has not started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool // gets the log but has no vote
	Started    bool // has joined at least once
}

// Members lists the members as the cluster's majority knows them, sorted by name, then ID.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	for try := 1; ; try++ {
		rctx, cancel := c.request(ctx)
		r, err := c.all.MemberList(rctx) // linearizable: answers only while there is a quorum
		cancel()
		if errors.Is(err, notForLearners()) && try < len(c.endpoints) {
			continue // endpoints take turns
		}
		if err != nil {
			return nil, classify(ctx, err, "list etcd members")
		}
		return convert(r.Members), nil
	}
}

func convert(in []*etcdserverpb.Member) []Member {
	out := make([]Member, 0, len(in))
	for _, m := range in {
		out = append(out, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner, Started: m.Name != ""})
	}
	slices.SortFunc(out, func(a, b Member) int {
		if d := strings.Compare(a.Name, b.Name); d != 0 {
			return d
		}
		return compare(a.ID, b.ID)
	})
	return out
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// AddLearner adds a member without a vote under peerURL, or adopts the one that an interrupted call added. If peerURL belongs to a voting member
// called name, AddLearner returns that member (Learner false); if it belongs to a member with another name, it returns fail.Conflict.
func (c *Client) AddLearner(ctx context.Context, name, peerURL string) (Member, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return Member{}, err
	}
	if m, ok := byPeerURL(members, peerURL); ok {
		if m.Started && m.Name != name {
			return Member{}, fail.New(fail.Conflict, "add etcd member %s: %s belongs to member %s (%x) already", name, peerURL, m.Name, m.ID).
				Do("remove that member first if its machine is gone")
		}
		return m, nil
	}
	var added *etcdserverpb.Member
	err = c.settled(ctx, func(ctx context.Context) error {
		r, err := c.all.MemberAddAsLearner(ctx, []string{peerURL})
		if err == nil {
			added = r.Member
		}
		return err
	})
	if err != nil {
		return Member{}, classify(ctx, err, "add etcd member %s at %s as learner", name, peerURL)
	}
	return convert([]*etcdserverpb.Member{added})[0], nil
}

// settling is how long to wait until etcd allows a change of members: it refuses one within 5 s of a member's connecting.
const settling = 15 * time.Second

// settled requests a change of members, and repeats it while etcd answers that its members have not been connected for long enough.
func (c *Client) settled(ctx context.Context, ask func(ctx context.Context) error) error {
	deadline := time.Now().Add(settling)
	tick := time.NewTicker(promotePause)
	defer tick.Stop()
	for {
		rctx, cancel := c.request(ctx)
		err := ask(rctx)
		cancel()
		if !errors.Is(err, rpctypes.ErrUnhealthy) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func byPeerURL(members []Member, url string) (Member, bool) {
	i := slices.IndexFunc(members, func(m Member) bool { return slices.Contains(m.PeerURLs, url) })
	if i < 0 {
		return Member{}, false
	}
	return members[i], true
}

// promotePause is the time between two attempts to promote: etcd does not report when a learner has caught up.
const promotePause = 250 * time.Millisecond

// Promote gives a learner its vote. It retries only while the learner has not caught up with the leader, until ctx ends (fail.NotReady). A member
// that already votes is not an error.
func (c *Client) Promote(ctx context.Context, id uint64) error {
	tick := time.NewTicker(promotePause)
	defer tick.Stop()
	for {
		err := c.promote(ctx, id)
		if err == nil || errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
		if !errors.Is(err, rpctypes.ErrMemberLearnerNotReady) {
			return classify(ctx, err, "promote etcd member %x", id)
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.NotReady, err, "promote etcd member %x", id).Do("look at the logs of etcd on the new machine: it has not caught up with the leader")
		case <-tick.C:
		}
	}
}

func (c *Client) promote(ctx context.Context, id uint64) error {
	rctx, cancel := c.request(ctx)
	defer cancel()
	_, err := c.all.MemberPromote(rctx, id)
	return err
}

// Remove removes a member if two independent checks agree: the projection of the cluster's own view (members, health), and seen, the caller's
// knowledge about the member's machine. See CheckRemove. It moves leadership away first. A member that is not in the list is not an error.
func (c *Client) Remove(ctx context.Context, id uint64, seen MachineView) error {
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	health := c.Health(ctx, members)
	if _, err := CheckRemove(members, health, id, seen); err != nil {
		return err
	}
	if err := c.MoveLeader(ctx, id); err != nil {
		return err
	}
	via, ok := successor(health, id) // the member itself would stop before it answers
	if !ok {
		return fail.New(fail.NotReady, "remove etcd member %s: no other member answers", label(members[i]))
	}
	err = c.settled(ctx, func(ctx context.Context) error {
		_, err := c.one[via.URL].MemberRemove(ctx, id)
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return classify(ctx, err, "remove etcd member %s", label(members[i]))
	}
	return nil
}

// InitialCluster renders the value of etcd's --initial-cluster for a member that joins (initial-cluster-state existing):
// every member known, and self under its name. etcd compares the number and the peer URLs of the entries, so members that
// have not started yet are listed too, under a stand-in for the name they don't have.
func InitialCluster(members []Member, self Endpoint) string {
	entries := []string{self.Name + "=" + self.URL}
	for _, m := range members {
		if slices.Contains(m.PeerURLs, self.URL) {
			continue
		}
		name := m.Name
		if name == "" {
			name = "unstarted-" + hex(m.ID)
		}
		for _, u := range m.PeerURLs {
			entries = append(entries, name+"="+u)
		}
	}
	slices.Sort(entries)
	return strings.Join(entries, ",")
}
