package routes_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// promised is the time limit for 99 of 100 requests of ten thousand machines, on an otherwise idle host.
const promised = 50 * time.Millisecond

// TestManyMachines: a hundred machines discover, enrol, report and ask for locks.
func TestManyMachines(t *testing.T) { alone(t, 100, 2, time.Second) }

// TestTenThousandMachines does the same with ten thousand machines, each of which reports once a minute, for ten minutes.
func TestTenThousandMachines(t *testing.T) {
	testkit.OnlyFull(t, "TestManyMachines does the same with a hundred machines")
	alone(t, 10_000, minutes(t), time.Minute)
}

// minutes returns the duration of the large tests: ten, or NAUPEGOS_MINUTES.
func minutes(t *testing.T) int {
	t.Helper()
	return testkit.Value(strconv.Atoi(cmp.Or(os.Getenv("NAUPEGOS_MINUTES"), "10")))(t)
}

// alone runs a crowd against one server with its own store.
func alone(t *testing.T, n, rounds int, round time.Duration) {
	at := store.Location{Dir: t.TempDir()}
	st := testkit.Value(store.Open(t.Context(), at))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	p := spawn(t, at)
	c := newCrowd(t, st, n, p)
	c.enrol(t)
	for i := range rounds {
		c.round(t, i+1, round, func() {})
		t.Logf("the server has at most %s in memory", p.memory(t))
	}
	c.check(t)
}

// crowd is a set of machines that use servers.
type crowd struct {
	st    store.Store
	doors []*process
	roots *x509.CertPool
	plain *http.Client // without a certificate
	all   []*member
	held  atomic.Int64 // number of machines that believe that they hold the lock
}

// member is a machine of a crowd.
type member struct {
	uuid, mac string
	key       *ecdsa.PrivateKey
	client    *http.Client // with its certificate; each request has its own connection, because real machines report only once a minute
	acked     int64        // the last acknowledged report
}

func newCrowd(t *testing.T, st store.Store, n int, doors ...*process) *crowd {
	own := testkit.Value(authority.Open(t.Context(), st.ServerSecrets(), "server"))(t)
	c := &crowd{st: st, doors: doors, roots: own.Pool(), all: make([]*member, n)}
	c.plain = c.client()
	for i := range c.all {
		c.all[i] = &member{uuid: fmt.Sprintf("5b7e1f3a-9c42-4d6b-8e21-%012d", i), mac: fmt.Sprintf("52:54:%02x:%02x:%02x:00", i>>16, i>>8&0xff, i&0xff)}
	}
	return c
}

func (c *crowd) client(certs ...tls.Certificate) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.roots, Certificates: certs}}}
}

// enrol enrols all machines as quickly as possible.
func (c *crowd) enrol(t *testing.T) {
	began, took := time.Now(), &times{}
	each(len(c.all), 0, func(i int, _ time.Time) { took.of(func() error { return c.all[i].enrol(c, i) }) })
	t.Logf("%d machines enrolled in %s: %s", len(c.all), time.Since(began).Round(time.Millisecond), took)
	took.must(t)
	reg := registry.New(c.st.Metal(), registry.Options{})
	for i := 0; i < len(c.all); i += 100 { // the machines that ask for locks
		testkit.Value(reg.Label(t.Context(), c.all[i].uuid, map[string]string{registry.LockGroup: "crowd"}, nil))(t)
	}
}

// round lets each machine report once, evenly over a time. Meanwhile one in a hundred asks for a lock of one group and returns it, and others send
// requests without work, which measure the cost of any request on this host.
func (c *crowd) round(t *testing.T, sequence int, over time.Duration, halfway func()) {
	reports, locks, nothing := &times{}, &times{}, &times{}
	half := make(chan struct{})
	timer := time.AfterFunc(over/2, func() { defer close(half); halfway() })
	defer timer.Stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		each(len(c.all)/100, over, func(i int, _ time.Time) { c.all[i*100].lock(c, i, locks) })
	})
	wg.Go(func() {
		each(max(20, len(c.all)/20), over, func(i int, _ time.Time) {
			nothing.of(func() error {
				return c.ask(c.plain, i, func(d *process) (string, string) { return d.HTTPS + "/healthz", "" }, nil)
			})
		})
	})
	each(len(c.all), over, func(i int, due time.Time) {
		reports.since(due, func() error { return c.all[i].report(c, i, int64(sequence)) })
	})
	wg.Wait()
	<-half
	load, _, _ := strings.Cut(string(testkit.Value(os.ReadFile("/proc/loadavg"))(t)), " ")
	t.Logf("round %d: reports %s; locks %s; /healthz %s; load of the host %s", sequence, reports, locks, nothing, load)
	for _, got := range []*times{reports, locks, nothing} {
		got.must(t)
	}
	// On a busy host all requests wait, and the registry's share can't be measured.
	if p99 := max(reports.at(0.99), locks.at(0.99)); len(c.all) >= 10_000 && len(c.doors) == 1 && nothing.at(0.99) < promised/2 && p99 >= promised {
		t.Errorf("99 of 100 requests took up to %s, where nothing at all takes %s: %s are promised", p99, nothing.at(0.99), promised)
	}
}

// check asserts that all acknowledged data is stored.
func (c *crowd) check(t *testing.T) {
	all, _, err := c.st.Metal().Find(t.Context(), metal.Query{State: string(registry.Running), Approval: string(registry.Approved)})
	if err != nil || len(all) != len(c.all) {
		t.Errorf("%d of %d machines run, %v", len(all), len(c.all), err)
	}
	acked := map[string]int64{}
	for _, m := range c.all {
		acked[m.uuid] = m.acked
	}
	for _, m := range all {
		if m.Report == nil || m.Report.Sequence < acked[m.UUID] {
			t.Errorf("the report %d of the machine %s was acknowledged, and is lost: %+v", acked[m.UUID], m.UUID, m.Report)
		}
	}
	if held := testkit.Value(c.st.Metal().Slots(t.Context(), ""))(t); len(held) != 0 {
		t.Errorf("locks were not given back: %+v", held)
	}
}

// ask sends a request to a server, and to the next one if that is gone. conflict is called if an answer was lost and the request turns out to have
// been executed; nil: that is an error.
func (c *crowd) ask(client *http.Client, first int, what func(*process) (url, body string), conflict func() error, headers ...string) error {
	deadline := time.Now().Add(time.Minute)
	for i := first; ; i++ {
		url, body := what(c.doors[i%len(c.doors)])
		_, err := send(client, url, body, headers...)
		var refused *answer
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && refused.status == http.StatusConflict && i > first && conflict != nil:
			return conflict()
		case errors.As(err, &refused) && refused.status < http.StatusInternalServerError, len(c.doors) == 1, time.Now().After(deadline):
			return err
		}
	}
}

// enrol reports the machine's facts; a rule approves it.
func (m *member) enrol(c *crowd, first int) (err error) {
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
	text, err := send(c.plain, c.doors[first%len(c.doors)].HTTP+"/discovery", string(body), facts.SignatureHeader, signature)
	if err != nil {
		return err
	}
	var out struct{ Certificate string }
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(out.Certificate))
	if block == nil {
		return fmt.Errorf("no certificate: %s", text)
	}
	m.client = c.client(tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: m.key})
	return nil
}

func (m *member) report(c *crowd, first int, sequence int64) error {
	body := fmt.Sprintf(`{"uuid": %q, "boot_id": "boot-2", "digest": "sha256:a", "sequence": %d}`, m.uuid, sequence)
	err := c.ask(m.client, first, func(d *process) (string, string) { return d.HTTPS + "/api/v1/report", body }, func() error { return nil })
	if err == nil {
		m.acked = sequence
	}
	return err
}

// lock asks until it gets the lock, and returns it.
func (m *member) lock(c *crowd, first int, took *times) {
	body := `{"client_params": {"id": "` + m.uuid + `", "group": "crowd"}}`
	to := func(path string) error {
		return c.ask(m.client, first, func(d *process) (string, string) { return d.HTTPS + path, body }, nil, "fleet-lock-protocol", "true")
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		began := time.Now()
		err := to("/v1/pre-reboot")
		var others *answer
		if errors.As(err, &others) && strings.Contains(others.text, "failed_lock") && time.Now().Before(deadline) {
			err = nil
		}
		took.since(began, func() error { return err })
		if err != nil {
			return
		}
		if others == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // as a client that asks again and again
	}
	took.of(func() error {
		if n := c.held.Add(1); n != 1 {
			return fmt.Errorf("%d machines have the lock at once", n)
		}
		return nil
	})
	c.held.Add(-1)
	took.of(func() error { return to("/v1/steady-state") })
}

// answer is an answer with a status other than 200.
type answer struct {
	status int
	text   string
}

func (a *answer) Error() string { return fmt.Sprintf("%d: %s", a.status, a.text) }

// send posts a body; an empty body makes a GET request.
func send(c *http.Client, url, body string, headers ...string) (string, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
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
		err = &answer{res.StatusCode, string(data)}
	}
	return string(data), err
}

// times records the durations of requests, and the errors.
type times struct {
	mu   sync.Mutex
	took []time.Duration
	errs []error
}

func (t *times) of(do func() error) { t.since(time.Now(), do) }

func (t *times) since(began time.Time, do func() error) {
	err := do()
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// at returns the maximum duration of a share of all requests.
func (t *times) at(share float64) time.Duration {
	if len(t.took) == 0 {
		return 0
	}
	slices.Sort(t.took)
	return t.took[min(len(t.took)-1, int(share*float64(len(t.took))))].Round(100 * time.Microsecond)
}

// String returns the figures for people.
func (t *times) String() string {
	return fmt.Sprintf("%d, %d failed, p50 %s, p99 %s, longest %s", len(t.took), len(t.errs), t.at(0.5), t.at(0.99), t.at(1))
}

func (t *times) must(tb testing.TB) {
	tb.Helper()
	for _, err := range t.errs[:min(3, len(t.errs))] {
		tb.Error(err)
	}
}

// each calls do n times, at most 64 at once: evenly over a time or, if that is 0, as quickly as possible. due is the time when each call should begin.
func each(n int, over time.Duration, do func(i int, due time.Time)) {
	began := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, 64)
	for i := range n {
		due := time.Now()
		if over > 0 {
			due = began.Add(over * time.Duration(i) / time.Duration(n))
			time.Sleep(time.Until(due))
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			do(i, due)
		})
	}
}
