package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// The test binary runs itself as another process: roles[$STORE_TEST_ROLE] on the store in $STORE_TEST_DIR.
const roleEnv, dirEnv, urlEnv = "STORE_TEST_ROLE", "STORE_TEST_DIR", "STORE_TEST_URL"

func TestMain(m *testing.M) {
	roles := map[string]func(context.Context, *database) error{"write": roleWrite, "hold": roleHold, "run": roleRun, "race": roleRace, "contend": roleContend, "overwrite": roleOverwrite}
	if os.Getenv(roleEnv) == "rotate" {
		rotateUntil(os.Getenv(stepEnv))
	}
	role := roles[os.Getenv(roleEnv)]
	if role == nil {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	s, err := openWith(ctx, Location{Dir: os.Getenv(dirEnv), URL: os.Getenv(urlEnv)}, (*database).openOrMake)
	if err == nil {
		err = role(ctx, s)
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// child is another process with a role.
type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
	in  io.Closer
}

func spawn(t *testing.T, dir, role string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, bufio.NewScanner(out), in}
	t.Cleanup(c.kill)
	return c
}

// kill kills the child with SIGKILL and waits for its end. It ignores errors, which come from a process that was already killed or waited for.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the child process ended: %v", c.out.Err())
	}
	return c.out.Text()
}

// roleWrite repeatedly writes a secret and a journal entry, and prints the number of each once it is acknowledged.
func roleWrite(ctx context.Context, s *database) error {
	c, err := s.Cluster(ctx, "demo")
	if err != nil {
		return err
	}
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{{ID: "a"}}}
	j := s.Journal(c.ID)
	run, err := j.Begin(ctx, p, nil)
	if err != nil {
		return err
	}
	fmt.Println("run", run)
	for i := 0; ; i++ {
		if err := s.Secrets(c.ID).Put(ctx, fmt.Sprintf("s%d", i), fmt.Append(nil, "value ", i)); err != nil {
			return err
		}
		if err := j.Step(ctx, run, "a", plan.Retrying, time.Now(), fmt.Sprint("try ", i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// roleOverwrite takes the lease like another machine, and writes a secret until that is refused.
func roleOverwrite(ctx context.Context, s *database) error {
	s.self.Host, s.self.Boot = "child", "boot of child"
	c, err := s.Cluster(ctx, "demo")
	if err != nil {
		return err
	}
	if _, err := s.AcquireLease(ctx, c.ID, "apply", LeaseOptions{TTL: 2 * time.Second}); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := s.Secrets(c.ID).Put(ctx, "a", fmt.Append(nil, i)); err != nil {
			return err
		}
		if i == 20 {
			fmt.Println("writing")
		}
	}
}

// roleHold takes the lease and keeps it until standard input ends.
func roleHold(ctx context.Context, s *database) error {
	c, err := s.Cluster(ctx, "demo")
	if err != nil {
		return err
	}
	l, err := s.AcquireLease(ctx, c.ID, "apply", LeaseOptions{})
	if err != nil {
		return err
	}
	fmt.Println("held", l.Generation())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return l.Release(ctx)
}

// roleRun begins a run and never ends it.
func roleRun(ctx context.Context, s *database) error {
	run, err := s.Journal("demo-12345678").Begin(ctx, &plan.Plan{Verb: "apply", Cluster: "demo"}, nil)
	fmt.Println(run)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return err
}

// roleRace takes and releases the lease 20 times, and prints each acquisition and release.
func roleRace(ctx context.Context, s *database) error {
	c, err := s.Cluster(ctx, "demo")
	if err != nil {
		return err
	}
	for n := 0; n < 20; {
		l, err := s.AcquireLease(ctx, c.ID, "apply", LeaseOptions{})
		if fail.KindOf(err) == fail.Conflict {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		n++
		// Exclusive by O_EXCL: fails if two hold the lease at once.
		f, err := os.OpenFile(s.dir+"/exclusive", os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two hold the lease at once: %w", err)
		}
		fmt.Println(l.Generation())
		if err := f.Close(); err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestSurvivesKill repeatedly kills a writing process with SIGKILL, and checks that everything acknowledged is there.
func TestSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	s, ctx := open(t, dir), t.Context()
	c := newCluster(t, s, "demo")
	for round := range 8 {
		w := spawn(t, dir, "write")
		run := strings.TrimPrefix(w.line(t), "run ")
		last := -1
		for range 3 + 7*round {
			if _, err := fmt.Sscan(w.line(t), &last); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(time.Duration(round*700)*time.Microsecond, func() { _ = w.cmd.Process.Kill() })
		for w.out.Scan() {
			if _, err := fmt.Sscan(w.out.Text(), &last); err != nil {
				t.Fatal(err)
			}
		}
		w.kill()
		again := open(t, dir)
		var verdict string
		if err := again.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Fatalf("integrity: %s, %v", verdict, err)
		}
		rec, err := again.Run(ctx, run)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(rec.Steps[0].Retries); n <= last {
			t.Errorf("round %d: %d journal entries acknowledged, %d found", round, last+1, n)
		}
		if rec.Outcome != plan.OutcomeGone {
			t.Errorf("outcome %s", rec.Outcome)
		}
		for i := range last + 1 {
			v, err := again.Secrets(c.ID).Get(ctx, fmt.Sprintf("s%d", i))
			if err != nil || string(v) != fmt.Sprint("value ", i) {
				t.Fatalf("round %d: secret %d of %d: %q, %v", round, i, last+1, v, err)
			}
			if err := again.Secrets(c.ID).Delete(ctx, fmt.Sprintf("s%d", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTwoProcessesExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := newCluster(t, s, "demo")
	p := spawn(t, dir, "hold")
	if l := p.line(t); l != "held 1" {
		t.Fatal(l)
	}
	_, err := s.AcquireLease(t.Context(), c.ID, "destroy", LeaseOptions{})
	testkit.Fails(t, fail.Whole(err), fail.Conflict, "apply is running", fmt.Sprintf("pid %d", p.cmd.Process.Pid), "since", "heartbeat", "expires in", "kill -INT")
	ls, err := s.Leases(t.Context())
	if err != nil || len(ls) != 1 || ls[0].Alive != "yes" || ls[0].Verb != "apply" || ls[0].Cluster != "demo" {
		t.Errorf("%+v, %v", ls, err)
	}
	if err := p.in.Close(); err != nil { // it releases and ends
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	l, err := s.AcquireLease(t.Context(), c.ID, "destroy", LeaseOptions{})
	if err != nil || l.Generation() != 2 {
		t.Fatal(l, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDeadHolderIsReplacedAtOnce also leaves the killed process a zombie for a while, which holds no lease.
func TestDeadHolderIsReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := newCluster(t, s, "demo")
	p := spawn(t, dir, "hold")
	p.line(t)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.out.Scan() { // end of output: the process is dead, but has not been waited for
		t.Fatal(p.out.Text())
	}
	testkit.Until(t, 20*time.Second, 2*time.Millisecond, func() error { // wait until the kernel makes it a zombie
		ls, err := s.Leases(t.Context())
		if err == nil && (len(ls) != 1 || ls[0].Alive != "no") {
			err = fmt.Errorf("its lease is %+v", ls)
		}
		return err
	})
	l, err := s.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{})
	if err != nil || l.Generation() != 2 {
		t.Fatal(l, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRunOfLivingProcessIsRunning(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p := spawn(t, dir, "run")
	id := p.line(t)
	if r, err := s.Run(t.Context(), id); err != nil || r.Outcome != plan.OutcomeRunning {
		t.Errorf("%v, %v", r, err)
	}
	p.kill()
	if r, err := s.Run(t.Context(), id); err != nil || r.Outcome != plan.OutcomeGone {
		t.Errorf("%v, %v", r, err)
	}
}

func TestManyProcessesRaceForTheLease(t *testing.T) {
	dir := t.TempDir()
	newCluster(t, open(t, dir), "demo")
	var all []*child
	for range 3 {
		all = append(all, spawn(t, dir, "race"))
	}
	seen := map[string]bool{}
	for _, c := range all {
		for c.out.Scan() {
			l := c.out.Text()
			if seen[l] || strings.HasPrefix(l, "error") {
				t.Errorf("generation given twice, or: %s", l)
			}
			seen[l] = true
		}
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 60 {
		t.Errorf("%d acquisitions, want 60", len(seen))
	}
}
