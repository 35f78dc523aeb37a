package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/rowmac"
	"github.com/naupegos/naupegos/internal/testkit"
)

// contention is the fact that the holder of the lease writes: the lease's generation.
const contention = "contention"

// writeGeneration writes a lease's generation and reads the previous one in the same transaction. A later previous one means that an older holder
// wrote after a newer one had begun, so that there were two.
func writeGeneration(ctx context.Context, s *database, cluster string, generation int64) error {
	return s.fenced(ctx, cluster, func(tx *sql.Tx) error {
		last, err := one(ctx, s, tx, value[int64], "SELECT CAST(value AS BIGINT) FROM facts WHERE cluster_id = $1 AND kind = $2 AND subject = ''", cluster, contention)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if last > generation {
			return fail.New(fail.Internal, "two hold the lease at once: %d wrote after %d", generation, last)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO facts (cluster_id, kind, subject, value, mac) VALUES ($1, $2, '', $3, $4)
			ON CONFLICT (cluster_id, kind, subject) DO UPDATE SET value = excluded.value, mac = excluded.mac`, cluster, contention, fmt.Sprint(generation),
			s.mac(rowmac.Facts, cluster, contention, "", fmt.Sprint(generation)))
		return err
	})
}

// contendTTL is the TTL of leases of holders that are stopped or killed.
const contendTTL = 300 * time.Millisecond

// roleContend repeatedly takes the lease, as a process of a separate machine, until standard input ends. It writes while it believes that it holds
// the lease, without asking in between, like a long step.
func roleContend(ctx context.Context, s *database) error {
	s.self.Host, s.self.Boot = fmt.Sprint("host-", os.Getpid()), "" // other processes can't tell whether it is alive
	c, err := s.Cluster(ctx, "demo")
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(ended) }()
	for {
		select {
		case <-ended:
			return nil
		case <-time.After(5 * time.Millisecond): // another process's turn
		}
		l, err := s.AcquireLease(ctx, c.ID, "apply", LeaseOptions{TTL: contendTTL})
		if fail.KindOf(err) == fail.Conflict {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("held", l.Generation())
		for range 5 {
			time.Sleep(2 * time.Millisecond) // simulated work, in which it can be stopped
			if err = writeGeneration(ctx, s, c.ID, l.Generation()); err != nil {
				break
			}
		}
		switch {
		case fail.KindOf(err) == fail.Conflict:
			fmt.Println("refused", l.Generation())
		case err != nil:
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
}

// TestFiftyContend: fifty processes contend for one lease, while some are killed and others are stopped during their work for longer than their lease
// lasts. No process writes once a later holder has begun.
func TestFiftyContend(t *testing.T) {
	dir := t.TempDir()
	newCluster(t, open(t, dir), "demo")
	type line struct {
		from *child
		text string
	}
	lines := make(chan line, 1024)
	spawned := func() *child {
		c := spawn(t, dir, "contend")
		go func() {
			for c.out.Scan() {
				lines <- line{c, c.out.Text()}
			}
		}()
		return c
	}
	n := 12
	if testkit.Full() {
		n = 50
	}
	all := make([]*child, n)
	for i := range all {
		all[i] = spawned()
	}
	random, count := testkit.Rand(t), map[string]int{}
	deadline := time.After(2 * time.Minute)
	disturb := time.NewTicker(60 * time.Millisecond)
	defer disturb.Stop()
	for count["killed"] < n || count["stopped"] < n || count["refused"] < n/3 || count["held"] < 4*n {
		select {
		case l := <-lines:
			what, _, _ := strings.Cut(l.text, " ")
			if count[what]++; what != "held" && what != "refused" {
				t.Fatal(l.text)
			}
			if what == "held" && random.IntN(4) == 0 {
				process := l.from.cmd.Process
				_ = process.Signal(syscall.SIGSTOP) // it may have been killed since
				time.AfterFunc(2*contendTTL, func() { _ = process.Signal(syscall.SIGCONT) })
				count["stopped"]++
			}
		case <-disturb.C:
			i := random.IntN(n)
			all[i].kill()
			all[i] = spawned()
			count["killed"]++
		case <-deadline:
			t.Fatalf("after two minutes: %v", count)
		}
	}
	t.Logf("%d processes: %v", n, count)
}

// TestLeaseModel compares the rights of several holders, with a clock that stands still or jumps forwards and backwards, with the meaning of a lease:
// it is free once it has been released or has expired by the clock, and only the last holder may write.
func TestLeaseModel(t *testing.T) {
	dir := t.TempDir()
	c := newCluster(t, open(t, dir), "demo")
	clock := &stoppedClock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var holders []*database
	for i := range 5 {
		s := open(t, dir)
		s.self.Host, s.self.Boot = fmt.Sprint("host-", i), ""
		s.d = stopped{s.d, clock}
		holders = append(holders, s)
	}
	const ttl = time.Hour // no heartbeat comes during the test
	random := testkit.Rand(t)
	leases := make([]Lease, len(holders))
	var last int64        // generation that was assigned last
	free := true          // it was released
	var expires time.Time // otherwise: when it expires
	for step := range 600 {
		i := random.IntN(len(holders))
		switch random.IntN(5) {
		case 0: // move the clock forwards or backwards
			clock.at = clock.at.Add(time.Duration(random.IntN(100)-20) * time.Minute)
		case 1, 2:
			l, err := holders[i].AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{TTL: ttl})
			if may := free || !clock.at.Before(expires); may != (err == nil) {
				t.Fatalf("step %d: free %t, ends %v, it is %v: %v", step, free, expires, clock.at, err)
			}
			if err == nil {
				if last++; l.Generation() != last {
					t.Fatalf("step %d: generation %d, want %d", step, l.Generation(), last)
				}
				t.Cleanup(func() { _ = l.Release(context.Background()) }) // the store is closed by then
				leases[i], free, expires = l, false, clock.at.Add(ttl)
			}
		case 3:
			if leases[i] == nil {
				continue
			}
			err := writeGeneration(t.Context(), holders[i], c.ID, leases[i].Generation())
			if leases[i].Generation() == last && err != nil || leases[i].Generation() < last && fail.KindOf(err) != fail.Conflict {
				t.Fatalf("step %d: generation %d of %d writes: %v", step, leases[i].Generation(), last, err)
			}
			if check := leases[i].Check(t.Context()); (check == nil) != (leases[i].Generation() == last && clock.at.Before(expires)) {
				t.Fatalf("step %d: generation %d of %d, ends %v, it is %v: %v", step, leases[i].Generation(), last, expires, clock.at, check)
			}
		case 4:
			if leases[i] == nil {
				continue
			}
			testkit.Must(t, leases[i].Release(t.Context()))
			free = free || leases[i].Generation() == last
			leases[i] = nil
		}
	}
	if last < 20 {
		t.Errorf("only %d leases were taken", last)
	}
}

// stopped is a dialect whose clock the test sets.
type stopped struct {
	engine.Dialect
	clock *stoppedClock
}

type stoppedClock struct{ at time.Time }

func (s stopped) Now(context.Context, engine.Row) (time.Time, error) { return s.clock.at, nil }
