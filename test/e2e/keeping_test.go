//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	sets "github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKeeping: a server maintains a cluster that was made through it, according to the document. It proves the existing backup once, finds that
// apply would change nothing, and grows the pool when an autoscaler asks at the server's listener. Journal and audit name the server as the author.
func TestKeeping(t *testing.T) {
	testkit.OnlyFull(t, "the board's unit tests have each duty done, TestRestore rehearses a real backup, and TestProtocol has the real autoscaler's protocol")
	r := newRig(t, "keeping")
	s := serve(t, nil, r.state)
	here, afar := r.inv, s.afar(strings.TrimSpace(r.must(0, "server", "token", "create", "keeper", "--role", "operate").stdout))
	who := fmt.Sprintf("pid %d", s.cmd.Process.Pid)
	cluster := size{controlPlanes: 1, workers: 1, pool: "      minReplicas: 1\n      maxReplicas: 2\n", extra: "  smokeTest: false\n"}
	r.document(cluster)
	r.inv = afar
	r.apply()
	var made sets.Set
	testkit.Must(t, json.Unmarshal([]byte(r.must(0, "backup", "create", r.name, "-o", "json").stdout), &made))
	port := testkit.FreePort(t)
	cluster.extra += fmt.Sprintf("  unattended: {drift: 10s, rehearse: 10s, autoscale: true, autoscalePort: %d}\n", port)
	r.document(cluster)
	began := time.Now()
	r.apply()

	r.inv = here // some commands, and the autoscaler's Secret, require access to the store
	r.proven(t, made)
	t.Logf("FIGURE the backup was proven unasked after %v", time.Since(began).Round(time.Second))
	r.ran(t, "backup rehearse", unasked, who)
	r.quiet(t)
	if n := r.ran(t, "backup rehearse", unasked, who); n != 1 {
		t.Errorf("the proven backup was rehearsed %d times", n)
	}

	at := net.JoinHostPort("127.0.0.1", itoa(port))
	c := r.autoscaler(t, at)
	call := calling(t)
	until(t, time.Minute, time.Second, func() error {
		return call(func(ctx context.Context) error {
			_, err := c.Refresh(ctx, &externalgrpc.RefreshRequest{})
			return err
		})
	})
	r.inGroup(t, c, "keeping-general-1", "general")
	r.calm.end()
	began = time.Now()
	testkit.Must(t, call(func(ctx context.Context) error {
		_, err := c.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "general", Delta: 1})
		return err
	}))
	for _, node := range []string{"keeping-general-1", "keeping-general-2"} {
		r.ready(t, node)
	}
	t.Logf("FIGURE the node was Ready after %v", time.Since(began).Round(100*time.Millisecond))
	r.settled(t, c, 2)
	r.ran(t, "autoscale", "cluster-autoscaler", who)
	r.size.workers = 2 // the document says otherwise
	r.healthy()
	r.quiet(t)

	r.inv = afar
	r.unchanged()
	r.destroy()
	until(t, time.Minute, 100*time.Millisecond, func() error {
		if all := r.duties(t); len(all) > 0 {
			return fmt.Errorf("a destroyed cluster still has tasks: %+v", all)
		}
		c, err := net.Dial("tcp", at)
		if err != nil {
			return nil // connection refused
		}
		return fmt.Errorf("the server still answers a destroyed cluster's autoscaler at %s: %v", at, c.Close()) //nolint:errorlint // there should be none
	})
}

// unasked is the name that unattended tasks have in the journal.
const unasked = "naupegos (unattended)"

// answered runs naupegos and parses its answer in JSON.
func answered[T any](t *testing.T, r *rig, args ...string) (answer T) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(r.must(0, append(args, "-o", "json")...).stdout), &answer))
	return answer
}

// provenObjects matches the objects in a proof.
var provenObjects = regexp.MustCompile(`shows all [1-9]\d* objects of [1-9]\d* resources, digest [0-9a-f]{64}`)

// proven waits until a server has proven a backup unasked, at the first attempt.
func (r *rig) proven(t *testing.T, made sets.Set) {
	t.Helper()
	until(t, 5*time.Minute*slower, time.Second, func() error {
		log := answered[struct{ Items []store.AuditEntry }](t, r, "server", "audit", "--cluster", r.name)
		i := slices.IndexFunc(log.Items, func(e store.AuditEntry) bool { return e.Action == "unattended backup rehearse" })
		switch {
		case i < 0:
			return fmt.Errorf("the audit has no rehearsal: %+v", log.Items)
		case log.Items[i].Who != unasked || log.Items[i].Outcome != "done":
			t.Fatalf("the rehearsal is %+v: %+v", log.Items[i], r.duties(t))
		}
		return nil
	})
	all := r.listed()
	if len(all) != 1 || all[0].ID != made.ID || !all[0].Proven() {
		t.Fatalf("of the backup %s there is %+v", made.ID, all)
	}
	if said := strings.Join(all[0].Proof.Checks, "\n"); !provenObjects.MatchString(said) {
		t.Errorf("proven is: %s", said)
	}
}

// ran waits until all runs of a verb have ended, and returns their number. It asserts that they succeeded, for this user and by this process.
func (r *rig) ran(t *testing.T, verb, whom, process string) int {
	t.Helper()
	var all []plan.RunRecord
	until(t, time.Minute*slower, time.Second, func() error {
		all = slices.DeleteFunc(answered[struct{ Items []plan.RunRecord }](t, r, "history", r.name).Items, func(run plan.RunRecord) bool { return run.Verb != verb })
		if len(all) == 0 || slices.ContainsFunc(all, func(run plan.RunRecord) bool { return run.Outcome == plan.OutcomeRunning }) {
			return fmt.Errorf("%s has not ended: %+v", verb, all)
		}
		return nil
	})
	for _, run := range all {
		if run.Outcome != plan.OutcomeSucceeded || run.Meta["by"] != whom || !strings.HasSuffix(run.Holder, ", "+process) {
			t.Errorf("%s, for %s by %s: %+v", verb, whom, process, run)
		}
	}
	return len(all)
}

// duties returns the unattended tasks of the servers, with their last outcome.
func (r *rig) duties(t *testing.T) []store.Duty {
	t.Helper()
	return answered[api.ServerStatus](t, r, "server", "status").Duties
}

// quiet waits until all unattended tasks have run again and found nothing to do.
func (r *rig) quiet(t *testing.T) {
	t.Helper()
	began := time.Now()
	until(t, 2*time.Minute*slower, time.Second, func() error {
		all := r.duties(t)
		if len(all) != 3 {
			return fmt.Errorf("three duties are wanted, there are %+v", all)
		}
		for _, d := range all {
			fine := d.Outcome == store.DutyNothing && d.Ended.After(began)
			if d.Kind == "autoscale" { // it does not end
				fine = d.Outcome == store.DutyDone && d.Holder != ""
			}
			if !fine || d.Failures > 0 {
				return fmt.Errorf("%+v", d)
			}
		}
		return nil
	})
}
