package routes_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestManyMachines has a hundred machines discover, enrol, report and ask for locks.
func TestManyMachines(t *testing.T) { crowd(t, 100, 2, time.Second) }

// TestTenThousandMachines is the same with ten thousand, each of which reports once a minute.
func TestTenThousandMachines(t *testing.T) {
	testkit.OnlyFull(t, "TestManyMachines does the same with a hundred machines")
	crowd(t, 10_000, 2, time.Minute)
}

// member is a machine of a crowd.
type member struct {
	uuid, mac string
	key       *ecdsa.PrivateKey
	client    *http.Client // with its certificate; each request has a connection of its own, as of a machine that reports once a minute
}

// crowd has n machines enrol as quickly as they can, then report once in each of several rounds, evenly over each. One of a hundred asks
// for a lock and gives it back, all of one group. Nothing may fail, and at most one has the lock.
func crowd(t *testing.T, n, rounds int, round time.Duration) {
	rule := testkit.Value(registry.ParseRule("mac=52:54:*"))(t)
	s := newSite(t, registry.Options{Rules: []registry.Rule{rule}})
	all := make([]*member, n)
	began := time.Now()
	enrolled := each(n, 0, func(i int) error {
		m := &member{uuid: fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i), mac: fmt.Sprintf("52:54:%02x:%02x:%02x:00", i>>16, i>>8&0xff, i&0xff)}
		all[i] = m
		return m.enrol(s)
	})
	t.Logf("%d machines enrolled in %s: %s", n, time.Since(began).Round(time.Millisecond), enrolled)
	for sequence := range rounds {
		took := each(n, round, func(i int) error { return all[i].report(s, sequence+1) })
		locks := each(n/100, 0, func(i int) error { return all[i*100].lock(s) })
		t.Logf("round %d: reports %s; locks %s; memory of server and machines together %s", sequence+1, took, locks, memory(t))
		took.must(t)
		locks.must(t)
	}
	enrolled.must(t)
	if _, total, err := s.registry.Find(t.Context(), metal.Query{State: string(registry.Running), Approval: string(registry.Approved), Limit: 1}); err != nil || total != n {
		t.Errorf("%d of %d machines run, %v", total, n, err)
	}
	if held := testkit.Value(s.registry.Holders(t.Context()))(t); len(held) != 0 {
		t.Errorf("locks were not given back: %+v", held)
	}
}

// enrol says what the machine is; a rule approves it.
func (m *member) enrol(s *site) (err error) {
	if m.key, err = facts.NewKey(); err != nil {
		return err
	}
	d := facts.Discovery{Boot: facts.BootInfo{UUID: m.uuid, MAC: m.mac, RandomID: "boot-1"}, Interfaces: []facts.Interface{{Name: "eth0", MAC: m.mac}},
		Disks: []facts.Disk{{Path: "/dev/sda", SizeBytes: 1 << 40}}, Journal: []string{"began", "ended"}, Enrolment: &facts.Enrolment{Sequence: 1}}
	if d.Enrolment.Request, err = facts.NewRequest(m.key, m.uuid); err != nil {
		return err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	signature, err := facts.Sign(m.key, body)
	if err != nil {
		return err
	}
	answer, err := send(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}, s.http+"/discovery", string(body), facts.SignatureHeader, signature)
	if err != nil {
		return err
	}
	var out struct{ Certificate string }
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(out.Certificate))
	if block == nil {
		return fmt.Errorf("no certificate: %s", answer)
	}
	cert := tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: m.key}
	m.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: s.roots, Certificates: []tls.Certificate{cert}}}}
	return nil
}

func (m *member) report(s *site, sequence int) error {
	_, err := send(m.client, s.https+"/api/v1/report", fmt.Sprintf(`{"uuid": %q, "boot_id": "boot-2", "digest": "sha256:a", "sequence": %d}`, m.uuid, sequence))
	return err
}

// lock asks until it has the lock, and gives it back.
func (m *member) lock(s *site) error {
	body := `{"client_params": {"id": "` + m.uuid + `", "group": "crowd"}}`
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := send(m.client, s.https+"/v1/pre-reboot", body, "fleet-lock-protocol", "true")
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "failed_lock") || time.Now().After(deadline) {
			return err
		}
	}
	_, err := send(m.client, s.https+"/v1/steady-state", body, "fleet-lock-protocol", "true")
	return err
}

func send(c *http.Client, url, body string, headers ...string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, data)
	}
	return string(data), err
}

// times are how long requests took, and what went wrong.
type times struct {
	mu   sync.Mutex
	took []time.Duration
	errs []error
}

// String is the figures for people.
func (t *times) String() string {
	slices.Sort(t.took)
	at := func(share float64) time.Duration {
		if len(t.took) == 0 {
			return 0
		}
		return t.took[min(len(t.took)-1, int(share*float64(len(t.took))))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d, %d failed, p50 %s, p99 %s, longest %s", len(t.took), len(t.errs), at(0.5), at(0.99), at(1))
}

func (t *times) must(tb testing.TB) {
	tb.Helper()
	for _, err := range t.errs[:min(3, len(t.errs))] {
		tb.Error(err)
	}
}

// each does something n times, 64 at once at most: evenly over a time, or (0) as quickly as it can. Times count from when each was due.
func each(n int, over time.Duration, do func(i int) error) *times {
	out := &times{}
	began := time.Now()
	var wg sync.WaitGroup
	room := make(chan struct{}, 64)
	for i := range n {
		due := time.Now()
		if over > 0 {
			due = began.Add(over * time.Duration(i) / time.Duration(n))
			time.Sleep(time.Until(due))
		}
		room <- struct{}{}
		if over == 0 {
			due = time.Now()
		}
		wg.Go(func() {
			defer func() { <-room }()
			err := do(i)
			took := time.Since(due)
			out.mu.Lock()
			defer out.mu.Unlock()
			out.took = append(out.took, took)
			if err != nil {
				out.errs = append(out.errs, err)
			}
		})
	}
	wg.Wait()
	return out
}

// memory is what this process, the server and all machines, has in memory.
func memory(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(string(testkit.Value(os.ReadFile("/proc/self/status"))(t))) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return "unknown"
}
