package operate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

const heldUp = "NAUPEGOS_TEST_HELD_UP"

// TestLostLease stops a process in the middle of a plan for longer than its lease lasts, as a suspended laptop does. Another process takes
// the lease over; the first one must do nothing more when it resumes.
func TestLostLease(t *testing.T) {
	if dir := os.Getenv(heldUp); dir != "" {
		carryOutHeldUp(t, dir)
		return
	}
	dir := t.TempDir()
	s := testkit.Value(store.Open(t.Context(), store.Location{Dir: dir}))(t)
	defer s.Close()
	c := testkit.Value(s.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte("kind: Cluster\n")}))(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLostLease$")
	cmd.Env = append(os.Environ(), heldUp+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out := bufio.NewScanner(testkit.Value(cmd.StdoutPipe())(t))
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if out.Scan(); out.Text() != "the first step runs" {
		t.Fatalf("said %q: %s", out.Text(), &stderr)
	}
	testkit.Must(t, cmd.Process.Signal(syscall.SIGSTOP))
	var l store.Lease
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() (err error) {
		l, err = s.AcquireLease(t.Context(), c.ID, "destroy", store.LeaseOptions{})
		return err
	})
	defer l.Release(t.Context())
	testkit.Must(t, cmd.Process.Signal(syscall.SIGCONT))
	var said strings.Builder
	for out.Scan() {
		said.WriteString(out.Text() + "\n")
	}
	_ = cmd.Wait() // only the output counts
	for _, want := range []string{"the first step was cancelled", "conflict:", "the lease on cluster demo was lost", "naupegos status demo"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("did not say %q, but:\n%s%s", want, said.String(), &stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "second")); err == nil {
		t.Error("the second step ran without the lease")
	}
	if err := l.Check(t.Context()); err != nil {
		t.Errorf("the one who took over lost the lease again: %v", err)
	}
}

// carryOutHeldUp carries out a plan whose first step ends on cancellation, or after 20 seconds.
func carryOutHeldUp(t *testing.T, dir string) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: dir}))(t)
	defer st.Close()
	rec := testkit.Value(st.Cluster(t.Context(), "demo"))(t)
	lease := testkit.Value(st.AcquireLease(t.Context(), rec.ID, "apply", store.LeaseOptions{TTL: 3 * time.Second}))(t)
	s := &Session{Store: st, Record: rec, lease: lease}
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{
		{ID: "first", Action: plan.Change, Title: "first", Subject: "a", Run: func(ctx context.Context, _ plan.Progress) error {
			fmt.Println("the first step runs")
			select {
			case <-ctx.Done():
				fmt.Println("the first step was cancelled")
			case <-time.After(20 * time.Second):
				fmt.Println("the first step was left alone")
			}
			return nil // done all the same: the next one would be free to begin
		}},
		{ID: "second", Action: plan.Change, Title: "second", Subject: "b", Needs: []string{"first"}, Run: func(context.Context, plan.Progress) error {
			return os.WriteFile(filepath.Join(dir, "second"), nil, 0o600)
		}},
	}}
	err := s.CarryOut(t.Context(), p, Terms{Front: &desk{out: os.Stderr}, Parallel: 1, Step: time.Minute})
	fmt.Printf("%s: %v\n", fail.KindOf(err), err)
	testkit.Must(t, lease.Release(t.Context()))
}
