//go:build integration

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// writer writes keys as fast as the cluster answers and records the acknowledged ones.
type writer struct {
	mu     sync.Mutex
	acked  []string
	failed int
	stop   context.CancelFunc
	done   chan struct{}
}

func startWriter(c *Client) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("key-%06d", i)
			rctx, done := context.WithTimeout(ctx, time.Second)
			_, err := c.all.Put(rctx, key, "v")
			done()
			w.mu.Lock()
			if err == nil {
				w.acked = append(w.acked, key)
			} else {
				w.failed++
			}
			w.mu.Unlock()
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return w
}

// verify stops the writer and checks every acknowledged key.
func (w *writer) verify(t *testing.T, c *Client) {
	w.stop()
	<-w.done
	lost := 0
	for _, k := range w.acked {
		r, err := c.all.Get(context.Background(), k)
		if err != nil || r.Count != 1 {
			lost++
			t.Errorf("acknowledged write of %s is lost: %v", k, err)
		}
	}
	t.Logf("%d writes were acknowledged, %d lost, %d failed or without an answer", len(w.acked), lost, w.failed)
	if len(w.acked) < 100 {
		t.Error("the writer hardly wrote")
	}
}

func find(t *testing.T, members []Member, name string) Member {
	t.Helper()
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("%s is not a member: %+v", name, members)
	}
	return members[i]
}

// TestMembersLife takes a cluster of real servers through its life: a member dies and a learner replaces it and is promoted, the leader is
// removed, the cluster grows to five members and takes a snapshot. No acknowledged write may be lost.
func TestMembersLife(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := newServers(t)
	s.bootstrap("m1", "m2", "m3")
	c, dialled := s.connect("m1", "m2", "m3")
	if err := c.WaitHealthy(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if dialled.Load() == 0 {
		t.Error("the dialer given was not used")
	}
	w := startWriter(c)
	t.Run("a member dies", func(t *testing.T) { s.memberDies(ctx, t, c) })
	t.Run("learner replaces it", func(t *testing.T) { s.replace(ctx, t, c) })
	c4, _ := s.connect("m1", "m2", "m4")
	t.Run("leader leaves", func(t *testing.T) { s.leaderLeaves(ctx, t, c4) })
	t.Run("snapshot", func(t *testing.T) { s.snapshot(ctx, t, c4) })
	w.verify(t, c4)
}

func (s *servers) memberDies(ctx context.Context, t *testing.T, c *Client) {
	members, err := c.Members(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.kill("m3")
	start := time.Now()
	health := c.Health(ctx, members)
	if took := time.Since(start); took > 2500*time.Millisecond {
		t.Errorf("asking for health took %s with one member down", took)
	}
	if h := health[2]; h.Name != "m3" || h.Reachable || !strings.Contains(h.Err, "connection refused") {
		t.Errorf("m3 is killed, but: %+v", h)
	}
	health = s.whenHealth(ctx, t, c, members, "one of the two that are left leads", func(all []Health) bool {
		leads := slices.ContainsFunc(all, func(h Health) bool { return h.Reachable && h.Leader }) // not the dead one, which they may still know as leader
		return leads && Now(members, all) == Projection{3, 2, 2, 0}
	})
	for _, a := range []Action{Stop, Drop} {
		if _, err := Project(members, health, Change{a, members[0].ID}); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s m1 while m3 is dead: %v, want refused", actions[a], err)
		}
	}
	if err := c.Remove(ctx, members[0].ID, Drained); fail.KindOf(err) != fail.Refused {
		t.Errorf("remove m1 while m3 is dead: %v, want refused", err)
	}
	if err := c.Defragment(ctx, members[0].ID); fail.KindOf(err) != fail.Refused {
		t.Errorf("defragment m1 while m3 is dead: %v, want refused", err)
	}
	short, cancel := context.WithTimeout(ctx, 4*time.Second) // long enough for a busy machine to ask each member once
	defer cancel()
	if err := c.WaitHealthy(short, 3); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "m3") {
		t.Errorf("wait for health while m3 is dead: %v, want not ready that names m3", err)
	}
}

func (s *servers) replace(ctx context.Context, t *testing.T, c *Client) {
	members, err := c.Members(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dead := find(t, members, "m3")
	for _, seen := range []MachineView{Unknown, InUse} {
		if err := c.Remove(ctx, dead.ID, seen); fail.KindOf(err) != fail.Refused {
			t.Errorf("remove m3, its machine %s: %v, want refused", seen, err)
		}
	}
	if err := c.Remove(ctx, dead.ID, Gone); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(ctx, dead.ID, Gone); err != nil {
		t.Errorf("removing it again: %v", err)
	}
	peer := s.plan("m4").peer
	m4, err := c.AddLearner(ctx, "m4", peer)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.AddLearner(ctx, "m4", peer)
	if err != nil || again.ID != m4.ID || !again.Learner {
		t.Errorf("adding it again gave %+v, %v; want the same learner %x", again, err, m4.ID)
	}
	if _, err := c.AddLearner(ctx, "m9", s.procs["m1"].peer); fail.KindOf(err) != fail.Conflict {
		t.Errorf("adding a member at m1's address: %v, want conflict", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := c.Promote(short, m4.ID); fail.KindOf(err) != fail.NotReady {
		t.Errorf("promoting a learner that has not started: %v, want not ready", err)
	}
	if members, err = c.Members(ctx); err != nil {
		t.Fatal(err)
	}
	s.start("m4", InitialCluster(members, Endpoint{"m4", peer}), "existing")
	start := time.Now()
	for range 2 { // the second time it already votes
		if err := c.Promote(ctx, m4.ID); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the new member votes %s after its start", time.Since(start))
	if err := s.healthyWith(ctx, "m1", "m2", "m4"); err != nil {
		t.Error(err)
	}
}

func (s *servers) healthyWith(ctx context.Context, names ...string) error {
	c, _ := s.connect(names...)
	return c.WaitHealthy(ctx, len(names))
}

func (s *servers) leaderLeaves(ctx context.Context, t *testing.T, c *Client) {
	members, err := c.Members(ctx)
	if err != nil {
		t.Fatal(err)
	}
	isLeader := func(h Health) bool { return h.Leader }
	someLeads := func(all []Health) bool { return slices.ContainsFunc(all, isLeader) }
	health := s.whenHealth(ctx, t, c, members, "there is a leader", someLeads)
	i := slices.IndexFunc(health, isLeader)
	if err := c.Defragment(ctx, health[i].ID); err != nil {
		t.Errorf("defragment the leader: %v", err)
	}
	health = s.whenHealth(ctx, t, c, members, "there is a leader again", someLeads)
	if health[i].Leader {
		t.Errorf("%s was to hand leadership over before its defragmentation", health[i].Name)
	}
	i = slices.IndexFunc(health, isLeader)
	if err := c.Remove(ctx, health[i].ID, Gone); fail.KindOf(err) != fail.Refused {
		t.Errorf("the machine is reported gone, but its etcd answers: %v, want refused", err)
	}
	if err := c.Remove(ctx, health[i].ID, Drained); err != nil {
		t.Fatalf("remove the leader %s: %v", health[i].Name, err)
	}
	if members, err = c.Members(ctx); err != nil {
		t.Fatal(err)
	}
	if len(members) != 2 {
		t.Errorf("two members are wanted: %+v", members)
	}
	s.whenHealth(ctx, t, c, members, "one of the remaining members leads", someLeads)
}

// whenHealth waits until the members' health is as expected: on a busy machine they sometimes hold elections.
func (s *servers) whenHealth(ctx context.Context, t *testing.T, c *Client, members []Member, what string, wanted func([]Health) bool) []Health {
	t.Helper()
	var health []Health
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
		if health = c.Health(ctx, members); !wanted(health) {
			return fmt.Errorf("%s: %+v", what, health)
		}
		return nil
	})
	return health
}

func (s *servers) snapshot(ctx context.Context, t *testing.T, c *Client) {
	path := filepath.Join(s.dir, "snapshot.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := c.Snapshot(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("snapshot of %s: %d bytes", info.Member, info.Bytes)
	if st, err := f.Stat(); err != nil || st.Size() != info.Bytes || info.Bytes < 20000 {
		t.Errorf("%d bytes reported, file: %v, %v", info.Bytes, st, err)
	}
	out, err := exec.Command(program(t, "etcdutl"), "snapshot", "restore", path, "--data-dir", filepath.Join(s.dir, "restored")).CombinedOutput()
	if err != nil {
		t.Errorf("etcdutl can't restore the snapshot: %v: %s", err, out)
	}
	if _, err := c.Snapshot(ctx, failingWriter{}); !errors.Is(err, errDisk) {
		t.Errorf("a full disk gave %v", err)
	}
}

var errDisk = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

// TestGrow grows one member to three and five and back to one, as scaling the control plane does.
func TestGrow(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := newServers(t)
	s.bootstrap("m1")
	names := []string{"m1"}
	c, _ := s.connect("m1")
	if err := c.WaitHealthy(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"m2", "m3", "m4", "m5"} {
		m, err := c.AddLearner(ctx, n, s.plan(n).peer)
		if err != nil {
			t.Fatal(err)
		}
		members, err := c.Members(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.start(n, InitialCluster(members, Endpoint{n, s.procs[n].peer}), "existing")
		if err := c.Promote(ctx, m.ID); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
		c, _ = s.connect(names...)
		if err := c.WaitHealthy(ctx, len(names)); err != nil {
			t.Fatal(err)
		}
	}
	for len(names) > 1 {
		members, err := c.Members(ctx)
		if err != nil {
			t.Fatal(err)
		}
		last := names[len(names)-1]
		if err := c.Remove(ctx, find(t, members, last).ID, Drained); err != nil {
			t.Fatal(err)
		}
		names = names[:len(names)-1]
		s.kill(last)
		if err := s.healthyWith(ctx, names...); err != nil {
			t.Fatal(err)
		}
	}
	members, err := c.Members(ctx)
	if err != nil || len(members) != 1 {
		t.Fatalf("one member is wanted: %+v, %v", members, err)
	}
	if err := c.Remove(ctx, members[0].ID, Drained); fail.KindOf(err) != fail.Refused {
		t.Errorf("removing the last member: %v, want refused", err)
	}
}

func TestWrongAuthority(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s := newServers(t)
	s.bootstrap("m1")
	good, _ := s.connect("m1")
	if err := good.WaitHealthy(ctx, 1); err != nil {
		t.Fatal(err)
	}
	foreign := newServers(t)
	foreign.procs = s.procs
	c, _ := foreign.connect("m1")
	if _, err := c.Members(ctx); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("a member of another authority: %v (%s), want unauthorized", err, fail.KindOf(err))
	}
	if bytes.Contains(s.procs["m1"].out.Bytes(), []byte("PRIVATE KEY")) {
		t.Error("a key in the log")
	}
}
