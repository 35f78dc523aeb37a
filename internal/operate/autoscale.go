package operate

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/autoscale"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Autoscaling answers the cluster-autoscaler of one cluster and resizes its pools on request. Both the command and the server use it.
type Autoscaling struct {
	Cluster string
	Reached func() ([]string, error)                   // names and addresses under which autoscalers reach the listener, for its certificate
	Open    func(context.Context) (store.Store, error) // opens a separate store for each session
	Options func(carry bool) Options                   // for a session that only looks (carry false), or one that plans and carries out
	Terms   func(*v1alpha1.Cluster) Terms              // for carrying out changes
	Tell    func(format string, args ...any)           // reports progress
	Drain   time.Duration                              // grace period of calls and changes after a stop; 0: unlimited

	mu     sync.Mutex
	now    autoscale.Identity
	names  string // in the listener's certificate: see joined
	issued time.Time

	// Set by tests: interval of the check for a new certificate, and maximum age of a certificate; 0: identityLook and identityAge.
	every, age time.Duration
}

// The listener's certificate is valid for a year. It is replaced long before that, and soon after authorities or names change: until then an
// autoscaler with a certificate of a new authority waits.
const (
	identityLook = 5 * time.Minute
	identityAge  = 24 * time.Hour
)

// Serve answers on a listener, which it closes, until ctx is done, and returns after the last change has ended. First it looks at the cluster, resumes an
// unfinished change, and calls ready with the names of the autoscaled pools.
func (a *Autoscaling) Serve(ctx context.Context, l net.Listener, ready func(pools []string)) error {
	hard, cut := a.draining(ctx)
	defer cut()
	s := &Scaler{Name: a.Cluster, Look: a.look, Tell: a.Tell}
	var beside sync.WaitGroup
	defer func() { beside.Wait(); s.Wait() }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.Stop = ctx.Done()
	s.Carry = func(asking context.Context, pool string, to Resizing, agreed func([]scaling.Pool)) error {
		carrying, cancel := context.WithCancel(asking)
		defer cancel()
		defer context.AfterFunc(hard, cancel)()
		return a.carry(carrying, pool, to, ctx.Done(), agreed)
	}
	if err := s.Refresh(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	pools, err := s.List(ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	ready(names)
	beside.Go(func() { a.keep(ctx) })
	return autoscale.Serve(ctx, l, s, a.identity, a.Drain)
}

// draining returns a context for running changes. It ends a.Drain after ctx does, or never if a.Drain is 0; cut ends it at once.
func (a *Autoscaling) draining(ctx context.Context) (hard context.Context, cut func()) {
	hard, end := context.WithCancel(context.WithoutCancel(ctx))
	unwatched := context.AfterFunc(ctx, func() {
		if a.Drain <= 0 {
			return
		}
		late := time.NewTimer(a.Drain)
		defer late.Stop()
		select {
		case <-late.C:
			end()
		case <-hard.Done():
		}
	})
	return hard, func() { unwatched(); end() }
}

// look returns the pools, and issues a certificate if the listener has none yet.
func (a *Autoscaling) look(ctx context.Context) (pools []scaling.Pool, err error) {
	err = a.on(ctx, a.Options(false), func(s *Session) (err error) {
		if pools, err = s.Cluster.Pools(ctx); err != nil || a.shown() {
			return err
		}
		return a.issue(ctx, s.Cluster)
	})
	return pools, err
}

// carry resizes a pool (see Session.Scale). It returns when the change is done or, after stop is closed, when the running steps are done.
func (a *Autoscaling) carry(ctx context.Context, pool string, to Resizing, stop <-chan struct{}, agreed func([]scaling.Pool)) error {
	var doc *v1alpha1.Cluster
	o := a.Options(true)
	o.Edit = func(rec *store.Cluster) (_ *v1alpha1.Cluster, err error) {
		doc, err = validation.Parse("the stored document of "+a.Cluster, rec.Document)
		return doc, err
	}
	return a.on(ctx, o, func(s *Session) error { return s.Scale(ctx, doc, pool, to, a.Terms(doc), stop, agreed) })
}

// on calls do with a new session, and closes the session with its store. It turns a panic into an error: the same process serves other clusters.
func (a *Autoscaling) on(ctx context.Context, o Options, do func(*Session) error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			a.Tell("the pools of cluster %s: panic: %v\n%s", a.Cluster, why, debug.Stack())
			err = fail.New(fail.Internal, "this is a defect of naupegos").At(a.Cluster)
		}
	}()
	st, err := a.Open(ctx)
	if err != nil {
		return err
	}
	s, _, err := OpenNamed(ctx, st, a.Cluster, o)
	if err != nil {
		return err
	}
	defer func() { err = s.CloseWith(err) }()
	return do(s)
}

// keep replaces the certificate whenever necessary until ctx ends, even if no autoscaler calls.
func (a *Autoscaling) keep(ctx context.Context) {
	every := identityLook
	if a.every > 0 {
		every = a.every
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := a.on(ctx, a.Options(false), func(s *Session) error { return a.issue(ctx, s.Cluster) })
		if err != nil && ctx.Err() == nil {
			a.Tell("the certificate for the autoscaler of cluster %s could not be looked at: %v", a.Cluster, err)
		}
	}
}

// issue replaces the listener's certificate unless the present one still fits.
func (a *Autoscaling) issue(ctx context.Context, c *cluster.Cluster) error {
	reached, err := a.Reached()
	if err != nil {
		return err
	}
	ca, err := c.AutoscaleAuthorities(ctx)
	if err != nil || a.fits(reached, ca) {
		return err
	}
	pair, ca, err := c.AutoscaleServer(ctx, reached)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = autoscale.Identity{Cert: pair.CertPEM, Key: pair.KeyPEM, CA: ca, Client: connect.AutoscalerName}
	a.names, a.issued = joined(reached), time.Now()
	return nil
}

// fits reports whether the listener's certificate is still young enough and matches the names and authorities.
func (a *Autoscaling) fits(reached []string, ca []byte) bool {
	age := identityAge
	if a.age > 0 {
		age = a.age
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.issued) < age && a.names == joined(reached) && bytes.Equal(a.now.CA, ca)
}

func joined(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), " ") }

// shown reports whether the listener has a certificate.
func (a *Autoscaling) shown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.issued.IsZero()
}

func (a *Autoscaling) identity() (autoscale.Identity, error) {
	if !a.shown() {
		return autoscale.Identity{}, fail.New(fail.NotReady, "the cluster was not looked at yet")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now, nil
}
