package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// autoscaling returns an Autoscaling for the site's cluster, which has authorities.
func (s *site) autoscaling(t *testing.T) *Autoscaling {
	t.Helper()
	open := func(ctx context.Context) (store.Store, error) { return store.Open(ctx, s.at) }
	st := testkit.Value(open(t.Context()))(t)
	rec := testkit.Value(st.Cluster(t.Context(), "demo"))(t)
	testkit.Must(t, pki.Open(st.Secrets(rec.ID), pki.Options{}).Ensure(t.Context()))
	testkit.Must(t, st.Close())
	return &Autoscaling{
		Cluster: "demo", Open: open, Tell: t.Logf, Drain: time.Minute,
		Reached: func() ([]string, error) { return []string{"127.0.0.1"}, nil },
		Options: func(bool) Options {
			return Options{ReadOnly: true, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil }}
		},
	}
}

// served returns the certificate of a listener.
func served(t *testing.T, at string) (*x509.Certificate, error) {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	c, err := d.DialContext(t.Context(), "tcp", at)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// TestAutoscalingIdentity: the certificate is replaced before it gets old, and when the listener's names change, even if no autoscaler calls.
func TestAutoscalingIdentity(t *testing.T) {
	a := newSite(t).autoscaling(t)
	var more atomic.Bool
	a.Reached = func() ([]string, error) {
		if more.Load() {
			return []string{"127.0.0.1", "scaler.example.org"}, nil
		}
		return []string{"127.0.0.1"}, nil
	}
	a.every, a.age = 10*time.Millisecond, time.Hour
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := testkit.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	ended, ready := make(chan error, 1), make(chan []string, 1)
	go func() { ended <- a.Serve(ctx, l, func(pools []string) { ready <- pools }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	first := testkit.Value(served(t, l.Addr().String()))(t)
	if err := first.VerifyHostname("127.0.0.1"); err != nil || time.Until(first.NotAfter) < 300*24*time.Hour {
		t.Errorf("until %v: %v", first.NotAfter, err)
	}
	more.Store(true)
	second := first
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() (err error) {
		if second, err = served(t, l.Addr().String()); err != nil {
			return err
		}
		if err := second.VerifyHostname("scaler.example.org"); err != nil {
			return fail.Wrap(fail.NotReady, err, "wait for the other name")
		}
		return nil
	})
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("it is the same certificate")
	}
	a.mu.Lock()
	a.issued = a.issued.Add(-time.Hour) // it gets old
	a.mu.Unlock()
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		third, err := served(t, l.Addr().String())
		if err == nil && third.SerialNumber.Cmp(second.SerialNumber) == 0 {
			err = fail.New(fail.NotReady, "the old one is shown")
		}
		return err
	})
	stop()
	testkit.Must(t, <-ended)
	if _, err := served(t, l.Addr().String()); err == nil {
		t.Error("it listens still")
	}
}

// TestAutoscalingPanics: a panic becomes an error of that cluster.
func TestAutoscalingPanics(t *testing.T) {
	a := newSite(t).autoscaling(t)
	var told atomic.Value
	a.Tell = func(format string, _ ...any) { told.Store(format) }
	a.Options = func(bool) Options {
		return Options{ReadOnly: true, Agent: func() (string, error) { panic("a defect") }}
	}
	l := testkit.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	testkit.Fails(t, a.Serve(t.Context(), l, func([]string) {}), fail.Internal, "defect")
	if s, _ := told.Load().(string); !strings.Contains(s, "panic") {
		t.Errorf("it told %q", s)
	}
	a.Cluster = "other"
	l = testkit.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	testkit.Fails(t, a.Serve(t.Context(), l, func([]string) {}), fail.NotFound, "other")
}
