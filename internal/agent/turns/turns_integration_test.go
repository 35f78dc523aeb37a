//go:build integration

package turns

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// site is a real etcd, a directory for sets, and the settings of three machines.
type site struct {
	t        *testing.T
	dir      string
	backups  string
	access   Etcd
	etcd     *etcd.Client
	identity *age.X25519Identity
	signing  []byte // the cluster's key, which machines do not have
	machines []byte // theirs
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), identity: testkit.Value(age.GenerateX25519Identity())(t), signing: backup.NewSigningKey(), machines: backup.NewSigningKey()}
	s.backups = filepath.Join(s.dir, "backups")
	ca := pkitest.NewAuthority(t)
	all := pki.LeafSpec{CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	pair := ca.Issue(all)
	file := func(name string, content []byte) string {
		testkit.Must(t, os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
		return filepath.Join(s.dir, name)
	}
	s.access = Etcd{URL: fmt.Sprintf("https://127.0.0.1:%d", testkit.FreePort(t)), CA: file("ca", ca.PEM()), Cert: file("cert", pair.CertPEM), Key: file("key", pair.KeyPEM)}
	peer := fmt.Sprintf("http://127.0.0.1:%d", testkit.FreePort(t))
	program := os.Getenv("NAUPEGOS_ETCD")
	if program == "" {
		program = bundletest.Program(t, bundletest.Any(t), "etcd")
	}
	cmd := exec.Command(program, "--data-dir", filepath.Join(s.dir, "data"), "--listen-client-urls", s.access.URL, "--advertise-client-urls", s.access.URL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--cert-file", s.access.Cert, "--key-file", s.access.Key, "--trusted-ca-file", s.access.CA, "--client-cert-auth", "--log-level", "error")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.etcd = testkit.Value(etcd.Connect(t.Context(), etcd.Options{Endpoints: []etcd.Endpoint{{Name: "default", URL: s.access.URL}}, TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Certificate(all)}}}))(t)
	t.Cleanup(func() { s.etcd.Close() })
	testkit.Until(t, 30*time.Second, 50*time.Millisecond, func() error {
		_, err := s.etcd.Get(t.Context(), "x")
		return err
	})
	return s
}

// lay writes a store's state, as apply does, and some objects of Kubernetes.
func (s *site) lay() (operator []byte) {
	s.t.Helper()
	about := backup.Manifest{Cluster: "demo", ClusterID: "demo-1", Kubernetes: "v1.37.2", Recipients: []string{s.identity.Recipient().String()}}
	o := backup.Operator{Document: []byte("kind: Cluster"), Record: backup.Record{ID: "demo-1", Name: "demo"}, Secrets: map[string][]byte{}}
	for i := range 900 { // more than one piece
		secret := make([]byte, 1200)
		_, _ = rand.Read(secret) // it never fails
		o.Secrets[fmt.Sprintf("leaf/%d", i)] = secret
	}
	operator = testkit.Value(o.Seal(about.Recipients))(s.t)
	about.Reason = Reason
	sign := testkit.Value(testkit.Value(backup.NewSigner(s.signing, []byte(s.identity.String()), about.ClusterID))(s.t).Delegate(testkit.Value(backup.PublicOf(s.machines))(s.t), about, operator))(s.t)
	parts, order, err := Lay(about, operator, &sign)
	testkit.Must(s.t, err)
	if len(parts) < 2 {
		s.t.Fatalf("the operator's part of %d bytes is in %d pieces", len(operator), len(parts))
	}
	for _, p := range append(parts, order) {
		testkit.Must(s.t, s.etcd.Put(s.t.Context(), p.Key, p.Value))
	}
	for i := range 450 { // more than one page
		testkit.Must(s.t, s.etcd.Put(s.t.Context(), fmt.Sprintf("/registry/secrets/default/s%03d", i), []byte{0, byte(i), 0xff}))
	}
	return operator
}

func (s *site) settings(machine string, change func(*Settings)) string {
	s.t.Helper()
	set := Settings{
		Machine: machine, Cluster: "demo", Schedule: "0 * * * *", Keep: backup.Keep{Last: 2}, To: Target{Directory: s.backups}, Etcd: s.access,
		Metrics: filepath.Join(s.dir, machine, "backup.prom"), SigningKey: filepath.Join(s.dir, "signing"),
	}
	testkit.Must(s.t, os.WriteFile(set.SigningKey, s.machines, 0o600))
	if change != nil {
		change(&set)
	}
	file := filepath.Join(s.dir, machine+".json")
	testkit.Must(s.t, os.WriteFile(file, testkit.Value(json.Marshal(set))(s.t), 0o600))
	return file
}

func (s *site) options(machine string, at time.Time) Options {
	return Options{
		Settings: s.settings(machine, nil), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }, Look: 50 * time.Millisecond,
		Patience: time.Nanosecond,
	}
}

func (s *site) sets() []*backup.Set {
	s.t.Helper()
	return testkit.Value(backup.List(s.t.Context(), backup.Directory(s.backups), "demo"))(s.t)
}

// TestTurns wakes up three machines at once, three times: each time there is one set, which the recipients' key opens and which holds the contents of
// etcd and the store.
func TestTurns(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	at := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	for n := range 3 {
		var all sync.WaitGroup
		for _, machine := range []string{"a", "b", "c"} {
			o := s.options(machine, at.Add(time.Duration(n)*time.Hour))
			all.Go(func() {
				if err := Run(t.Context(), o); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got, want := len(s.sets()), min(n+1, 2); got != want { // two of them stay
			t.Fatalf("after %d turns there are %d sets, not %d", n+1, got, want)
		}
	}
	set := s.sets()[0]
	c := testkit.Value(set.Extract(t.Context(), []byte(s.identity.String()), backup.Trust{}, t.TempDir()))(t)
	if c.Reason != Reason || c.Etcd.Keys != 450 || len(c.Etcd.Objects) != 1 || len(c.Secrets) != 900 || c.Etcd.Version == "" {
		t.Errorf("the set is %+v, with %d secrets", c.Manifest, len(c.Secrets))
	}
	var tally backup.Tally
	var is backup.Etcd
	testkit.Value(s.etcd.Values(t.Context(), "/registry/", c.Etcd.Revision, func(k, v []byte) error { tally.Add(k, v); return nil }))(t)
	if tally.Into(&is); len(is.Objects) != 1 || is.Objects[0] != c.Etcd.Objects[0] {
		t.Errorf("counted are %+v, not %+v", c.Etcd.Objects, is.Objects)
	}
	var done Done
	testkit.Must(t, json.Unmarshal(testkit.Value(s.etcd.Get(t.Context(), DoneKey))(t), &done))
	if done.ID != set.ID || !done.Turn.Equal(at.Add(2*time.Hour).Truncate(time.Hour)) {
		t.Errorf("remembered is %+v", done)
	}
	for _, machine := range []string{"a", "b", "c"} {
		text := string(testkit.Value(os.ReadFile(filepath.Join(s.dir, machine, "backup.prom")))(t))
		for _, want := range []string{`naupegos_backup_failed{cluster="demo"} 0`, fmt.Sprintf("naupegos_backup_last_success_timestamp_seconds{cluster=\"demo\"} %v", float64(done.At.Unix()))} {
			if !strings.Contains(text, want) {
				t.Errorf("%s measures\n%s", machine, text)
			}
		}
	}
	if err := Run(t.Context(), s.options("a", at.Add(2*time.Hour+59*time.Minute))); err != nil || len(s.sets()) != 2 || s.sets()[0].ID != set.ID {
		t.Errorf("in the same turn once more: %v, %v", err, s.sets())
	}
}

// TestLateTurn: a machine that waited until the next turn came makes the set of that one, and no machine makes a second.
func TestLateTurn(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	turn := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	o, asked := s.options("a", turn), false
	o.Now = func() time.Time {
		if !asked {
			asked = true
			return turn
		}
		return turn.Add(time.Hour)
	}
	testkit.Must(t, Run(t.Context(), o))
	testkit.Must(t, Run(t.Context(), s.options("b", turn.Add(time.Hour))))
	if got := s.sets(); len(got) != 1 {
		t.Errorf("there are %d sets", len(got))
	}
}

// TestDeadHolder: another machine takes the turn of a machine that died, and not before its turn expires. A machine that only seemed dead does not
// record its set.
func TestDeadHolder(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	const life = 6 * time.Second
	m := testkit.Value(connect(s.access))(t)
	held, dead, err := m.take(t.Context(), "a", life)
	testkit.Must(t, err)
	_, none, err := m.take(t.Context(), "b", life)
	if err != nil || none != nil {
		t.Fatalf("two have the turn: %v", err)
	}
	dead.cancel() // keep-alives stop
	<-dead.ended
	if held.Err() == nil {
		t.Error("a machine that lost the turn continues")
	}
	began := time.Now()
	o := s.options("b", time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC))
	testkit.Must(t, Run(t.Context(), o))
	t.Logf("FIGURE the turn of a machine that has died is taken after %v", time.Since(began).Round(100*time.Millisecond))
	if took := time.Since(began); took < life/3 || took > 3*life {
		t.Errorf("the turn was taken after %v", took)
	}
	if err := dead.record(t.Context(), DoneKey, Done{Machine: "a"}); fail.KindOf(err) != fail.Conflict {
		t.Errorf("the dead one records what it made: %v", err)
	}
	if got := s.sets(); len(got) != 1 {
		t.Errorf("there are %d sets", len(got))
	}
}

// TestFailures: a machine records, measures and retries a failure to make a set.
func TestFailures(t *testing.T) {
	s := newSite(t)
	at := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	check := func(o Options, kind fail.Kind, say string) {
		t.Helper()
		err := Run(t.Context(), o)
		if fail.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), say) {
			t.Errorf("%v: %v", fail.KindOf(err), err)
		}
		var f Failed
		if testkit.Must(t, json.Unmarshal(testkit.Value(s.etcd.Get(t.Context(), FailedKey))(t), &f)); f.Machine != "a" || !strings.Contains(f.What, say) {
			t.Errorf("recorded is %+v", f)
		}
		text := testkit.Value(os.ReadFile(filepath.Join(s.dir, "a", "backup.prom")))(t)
		if !bytes.Contains(text, []byte(`naupegos_backup_failed{cluster="demo"} 1`)) {
			t.Errorf("measured is\n%s", text)
		}
		if v := testkit.Value(s.etcd.Get(t.Context(), holderKey))(t); v != nil {
			t.Errorf("%s keeps the turn", v)
		}
	}
	check(s.options("a", at), fail.NotFound, "find the directory for backups")
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	check(s.options("a", at), fail.NotReady, "is not in etcd")
	s.lay()

	// A retry succeeds.
	testkit.Must(t, os.Remove(s.backups))
	o := s.options("a", at)
	o.Patience, o.Pause = time.Minute, 50*time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), o) }()
	testkit.Until(t, 20*time.Second, 10*time.Millisecond, func() error {
		raw, err := s.etcd.Get(t.Context(), FailedKey)
		if err == nil && !bytes.Contains(raw, []byte("find the directory")) {
			err = fmt.Errorf("recorded is %s", raw)
		}
		return err
	})
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	testkit.Must(t, <-ended)
	if raw := testkit.Value(s.etcd.Get(t.Context(), FailedKey))(t); raw != nil {
		t.Errorf("an earlier failure is still reported: %s", raw)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, s.options("a", at.Add(time.Hour))); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("interrupted: %v", err)
	}
}

// TestClockAhead: a set dated next year, from a machine whose clock was ahead, does not prevent any turn.
func TestClockAhead(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	at := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	testkit.Must(t, Run(t.Context(), s.options("a", at.AddDate(1, 0, 0))))
	testkit.Must(t, Run(t.Context(), s.options("b", at)))
	if got := len(s.sets()); got != 2 {
		t.Errorf("there are %d sets", got)
	}
	testkit.Must(t, Run(t.Context(), s.options("c", at.Add(time.Minute))))
	if got := len(s.sets()); got != 2 {
		t.Errorf("the same turn once more: there are %d sets", got)
	}
}

// TestUnpruned: a set that can't be removed does not make the backup fail, and is recorded until a later run removes all.
func TestUnpruned(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	at := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	unpruned := func() string { return string(testkit.Value(s.etcd.Get(t.Context(), UnprunedKey))(t)) }
	for n := range 3 {
		if n == 2 { // the oldest set is on a disk that can't be written
			oldest := filepath.Join(s.backups, "demo", s.sets()[1].ID)
			testkit.Must(t, unix.Mount(oldest, oldest, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(oldest, unix.MNT_DETACH) })
			testkit.Must(t, unix.Mount("", oldest, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		}
		testkit.Must(t, Run(t.Context(), s.options("a", at.Add(time.Duration(n)*time.Hour))))
		if got := unpruned() != ""; got != (n == 2) {
			t.Errorf("after turn %d it is recorded: %v", n, got)
		}
	}
	if got := len(s.sets()); got != 3 || testkit.Value(s.etcd.Get(t.Context(), FailedKey))(t) != nil {
		t.Errorf("there are %d sets, or a failure is recorded", got)
	}
	testkit.Must(t, unix.Unmount(filepath.Join(s.backups, "demo", s.sets()[2].ID), unix.MNT_DETACH))
	testkit.Must(t, Run(t.Context(), s.options("b", at.Add(3*time.Hour))))
	if got := unpruned(); got != "" || len(s.sets()) != 2 {
		t.Errorf("still recorded: %s; there are %d sets", got, len(s.sets()))
	}
}

// hear returns a log that calls a function with each message.
type hear struct {
	slog.Handler
	say func(message string)
}

func (h hear) Enabled(context.Context, slog.Level) bool { return true }

func (h hear) Handle(_ context.Context, r slog.Record) error {
	h.say(r.Message)
	return nil
}

// TestStoppedPruning: a run that is stopped while it removes sets does not report that they can't be removed.
func TestStoppedPruning(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	ctx, stop := context.WithCancel(t.Context())
	o := s.options("a", time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC))
	o.Log = slog.New(hear{slog.DiscardHandler, func(message string) {
		if message == "made a backup" {
			stop()
		}
	}})
	if err := Run(ctx, o); err == nil {
		t.Error("it was stopped, and succeeds")
	}
	if got := testkit.Value(s.etcd.Get(t.Context(), UnprunedKey))(t); got != nil {
		t.Errorf("recorded: %s", got)
	}
}

// TestSaysOnceThatAClockWasAhead: a machine that waits for another checks the last set often, and says only once that it is from the future.
func TestSaysOnceThatAClockWasAhead(t *testing.T) {
	s := newSite(t)
	s.lay()
	testkit.Must(t, os.Mkdir(s.backups, 0o700))
	at := time.Date(2026, 11, 24, 20, 0, 1, 0, time.UTC)
	testkit.Must(t, Run(t.Context(), s.options("a", at.AddDate(1, 0, 0))))
	m := testkit.Value(connect(s.access))(t)
	_, other, err := m.take(t.Context(), "b", time.Minute)
	testkit.Must(t, err)
	o, looks, warned := s.options("c", at), 0, 0
	o.Look = time.Millisecond
	o.Now = func() time.Time {
		if looks++; looks == 10 {
			other.end(t.Context())
		}
		return at
	}
	o.Log = slog.New(hear{slog.DiscardHandler, func(message string) {
		if strings.Contains(message, "in the future") {
			warned++
		}
	}})
	testkit.Must(t, Run(t.Context(), o))
	if warned != 1 || looks < 10 {
		t.Errorf("%d warnings, %d looks at the clock", warned, looks)
	}
}
