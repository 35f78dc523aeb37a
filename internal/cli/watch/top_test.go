package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/testkit"
)

// fleet is a host with cluster demo, which answers, and cluster hung, which blocks until the context ends.
func fleet() TopHost {
	return TopHost{
		Screen: func() Screen { return Screen{Width: 120} },
		List: func(context.Context) ([]operate.Row, error) {
			return []operate.Row{{Name: "demo", ID: "1", Provider: "local", Kubernetes: "v1.37.2", Lease: "upgrade by root@vm, pid 1"}, {Name: "hung", ID: "2", Provider: "hosts", Kubernetes: "v1.37.2"}}, nil
		},
		Status: func(ctx context.Context, name string) (*report.Status, error) {
			if name == "hung" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			st := drifting()
			st.Quorum = &report.Quorum{Voters: 3, Healthy: 2, Needed: 2}
			st.Cause = st.Causes[0].Text
			st.Machines[0].Member = &report.Member{Leader: true, DB: 12 << 20, Lag: 3}
			return st, nil
		},
		Usage: func(ctx context.Context, name string) (*operate.UsageList, error) {
			if name == "hung" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &operate.UsageList{Items: []kube.Usage{{Node: "demo-cp-1", CPU: 250, Memory: 1 << 30, MemoryTotal: 2 << 30, Disk: 5 << 30, DiskTotal: 20 << 30}}}, nil
		},
		Describe: func(_ context.Context, _ string, in operate.Subject) (*operate.Description, error) {
			return &operate.Description{Subject: in.Name, Status: drifting(), Problems: []string{"details of " + in.Name}}, nil
		},
	}
}

// TestTopOnce: one frame shows the cluster that answers, and reports that the other does not.
func TestTopOnce(t *testing.T) {
	began := time.Now()
	f, err := fleet().once(t.Context(), "", 300*time.Millisecond)
	testkit.Must(t, err)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the frame took %s", took)
	}
	f.At = time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	f.Clusters[0].Seen = f.At.Add(-2 * time.Second)
	for _, width := range []int{60, 100, 200} {
		var b bytes.Buffer
		testkit.Must(t, Screen{Width: width}.Frame(&b, f))
		testkit.Golden(t, fmt.Sprintf("top-%d.txt", width), b.String())
	}
	var back map[string]any
	testkit.Must(t, json.Unmarshal(testkit.Value(json.Marshal(f))(t), &back))
	demo := back["clusters"].([]any)[0].(map[string]any)
	if demo["state"] != "unhealthy" || demo["etcdBytes"] != float64(12<<20) || demo["leader"] != "demo-cp-1" {
		t.Errorf("%v", demo)
	}
	if _, err := fleet().once(t.Context(), "nope", time.Second); fail.KindOf(err) != fail.NotFound {
		t.Errorf("an unknown cluster: %v", err)
	}
}

// TestTopNeedsATerminal: without a terminal the error names --once, which prints one frame.
func TestTopNeedsATerminal(t *testing.T) {
	for _, args := range [][]string{{}, {"-o", "json"}, {"--once", "--timeout", "-1s"}} {
		c := NewTop(fleet())
		c.SetArgs(args) // never nil: cobra would take the arguments of the test program
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); fail.KindOf(err) != fail.Invalid || len(args) < 3 && !strings.Contains(err.Error(), "--once") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// screenOf returns a model with cluster demo, which was seen, and cluster hung, which was not.
func screenOf(t *testing.T) *model {
	t.Helper()
	h := fleet()
	m := &model{ctx: t.Context(), h: h, within: time.Second, asking: map[string]bool{}, width: 120, height: 30}
	rows, err := h.List(t.Context())
	testkit.Must(t, err)
	m.all = merge(nil, rows, "")
	st, used, err := h.look(t.Context(), "demo", time.Second)
	m.Update(looked{"demo", st, used, err, time.Now()})
	return m
}

// TestTopKeepsWhatItKnew: the screen shows a cluster's last known state and why there is no newer one, once the cluster stops answering.
func TestTopKeepsWhatItKnew(t *testing.T) {
	m := screenOf(t)
	m.Update(looked{"demo", nil, nil, fail.New(fail.Unreachable, "no route"), time.Now()})
	text := m.text(time.Now().Add(2 * time.Minute))
	for _, want := range []string{"unhealthy", "2m ago", "not seen: no route", "demo-cp-1", "250", "asking"} {
		if want != "250" && !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n") + 1; lines != 30 {
		t.Errorf("the screen has %d lines", lines)
	}
}

// TestTopKeys: keys select lines, ask before they drain a node, and run this program for shells and logs.
func TestTopKeys(t *testing.T) {
	m := screenOf(t)
	var ranWith []string
	m.globals = []string{"--state-dir=/s"}
	m.h.Command = func(args ...string) *exec.Cmd { ranWith = args; return exec.Command("true") }
	press := func(keys ...string) {
		for _, k := range keys {
			m.key(k)
		}
	}
	press("d")
	if m.confirm != "" || !strings.Contains(m.footer(), "select a machine") {
		t.Errorf("a cluster is drained: %s", m.footer())
	}
	press("down", "down") // demo, hung, demo-cp-1
	if on := m.selected(m.targets()); on != (target{"demo", "demo-cp-1"}) {
		t.Fatalf("selected is %v", on)
	}
	if !strings.Contains(m.text(time.Now()), "> demo") {
		t.Errorf("nothing is marked:\n%s", m.text(time.Now()))
	}
	press("d", "n")
	if ranWith != nil || !strings.Contains(m.footer(), "demo-cp-1 is not drained") {
		t.Errorf("%v, %s", ranWith, m.footer())
	}
	press("d")
	if !strings.Contains(m.footer(), "Drain demo-cp-1") {
		t.Errorf("no question: %s", m.footer())
	}
	for _, c := range [][2]string{{"y", "--state-dir=/s node drain demo demo-cp-1"}, {"s", "--state-dir=/s ssh demo demo-cp-1"}} { // y answers the question
		press(c[0])
		if got := strings.Join(ranWith, " "); got != c[1] {
			t.Errorf("%s runs %q", c[0], got)
		}
	}
	press("l")
	if got := strings.Join(ranWith, " "); !strings.Contains(got, "demo demo-cp-1") {
		t.Errorf("l runs %q", got)
	}
	details := m.key("enter")
	m.Update(details())
	if !strings.Contains(m.text(time.Now()), "details of demo-cp-1") {
		t.Errorf("no details:\n%s", m.text(time.Now()))
	}
	press("q")
	if m.detail != nil {
		t.Error("q does not leave the details")
	}
}

// TestTopOnATerminal runs the real screen on a pseudo-terminal: it shows both clusters while one hangs, and q ends it.
func TestTopOnATerminal(t *testing.T) {
	user, program := testkit.Terminal(t)
	testkit.Must(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 120}))
	h := fleet()
	h.In, h.Out = program, program
	done := make(chan error, 1)
	go func() { done <- h.live(t.Context(), "", time.Minute, nil) }()
	var mu sync.Mutex
	var out bytes.Buffer
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			mu.Lock()
			out.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	shown := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	deadline := time.After(60 * time.Second)
	for !strings.Contains(shown(), "demo-cp-1") || !strings.Contains(shown(), "hung") {
		select {
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-deadline:
			t.Fatalf("the screen shows %q", shown())
		case <-time.After(20 * time.Millisecond):
		}
	}
	testkit.Value(io.WriteString(user, "q"))(t)
	select {
	case err := <-done:
		testkit.Must(t, err)
	case <-deadline:
		t.Fatal("q does not end it")
	}
}

var _ tea.Model = (*model)(nil)
