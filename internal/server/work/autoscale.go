package work

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/store"
)

// Answering a cluster's autoscaler is a duty without an end: one server keeps it, and the others check that it still does. Each cluster has its own
// port, with a certificate of its own authorities. A common port would need another authority in addition: a server shows its certificate before it
// sees the autoscaler's, and an autoscaler that uses an IP address sends no server name.

// autoscales returns how soon the duty begins again after a change of the document; 0: the document does not want it.
func autoscales(u *v1alpha1.Unattended) time.Duration {
	if u.Autoscale {
		return time.Millisecond
	}
	return 0
}

// errNoMore is the cause of stopping an answer that the document no longer wants in this form.
var errNoMore = errors.New("the document says otherwise, or the cluster is gone")

// answer answers a cluster's autoscaler until ctx ends, another server takes over, or the document no longer wants it, which is no error.
func (b *Board) answer(ctx context.Context, d *store.Duty) (_ string, err error) {
	rec, err := b.c.Store.Cluster(ctx, d.Cluster)
	if err != nil {
		return "", err
	}
	doc, err := validation.Parse("the stored document of "+d.Cluster, rec.Document)
	if err != nil || !doc.Spec.Unattended.Autoscale {
		return "", err
	}
	asked := operate.Asked{Verb: operate.Autoscale, Cluster: d.Cluster}
	o := b.c.Options(asked, Need{Look: true})
	if err := o.Admit(ctx, b.c.Store, doc); err != nil { // before it takes the port
		return "", err
	}
	l, err := b.listen(ctx, d.Cluster, doc.Spec.Unattended.AutoscalePort)
	if err != nil {
		return "", err
	}
	defer b.hush(d.Cluster)
	log := b.c.Log.With("cluster", d.Cluster, "at", l.Addr().String())
	s := &operate.Autoscaling{
		Cluster: d.Cluster, Reached: b.c.Reached, Open: b.c.Open, Drain: b.c.Drain,
		Options: func(carry bool) operate.Options { return b.c.Options(asked, Need{Look: !carry, CarryOut: carry}) },
		Terms: func(doc *v1alpha1.Cluster) operate.Terms {
			return operate.Terms{Front: willing{}, Step: doc.Spec.Timeouts.Step.Duration, Meta: map[string]string{"version": b.c.Version, "by": "cluster-autoscaler"}}
		},
		Tell: func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) },
	}
	answering, stop := context.WithCancelCause(ctx)
	up := make(chan []string, 1)
	d.Outcome = "" // until the listener is up, the last outcome stays
	var kept sync.WaitGroup
	kept.Go(func() {
		b.keepAnswering(answering, d, rec.ID, doc.Spec.Unattended.AutoscalePort, stop, up, l.Addr().String())
	})
	err = s.Serve(answering, l, func(pools []string) {
		log.Info("answering a cluster's autoscaler", "pools", strings.Join(pools, " "))
		up <- pools
	})
	why := context.Cause(answering)
	stop(nil)
	kept.Wait()
	d.Outcome, d.Job = store.DutyNothing, ""
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(why, errNoMore):
		log.Info("the cluster's autoscaler is not answered any more", "why", why.Error())
		return "", nil
	case why != nil: // the duty was lost
		return "", why
	case err == nil:
		err = fail.New(fail.Internal, "its listener has closed").At(l.Addr().String())
	}
	return "", err
}

// listen listens on the port of a cluster.
func (b *Board) listen(ctx context.Context, name string, port int) (net.Listener, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(b.c.Here, strconv.Itoa(port)))
	if err == nil {
		b.answering[name] = port
		return l, nil
	}
	other := ""
	for n, p := range b.answering {
		if p == port {
			other = n
		}
	}
	const do = "give another spec.unattended.autoscalePort, and the autoscaler the Secret of naupegos autoscale --secret"
	if other != "" {
		return nil, fail.New(fail.Refused, "listen for its autoscaler: port %d on this server is another cluster's", port).At(name).Do(do).Confide("  it is %s's", other)
	}
	return nil, fail.Wrap(fail.Refused, err, "listen for its autoscaler").At(name).Do("find the listener with ss -ltnp, or " + do)
}

// hush records that this server no longer listens on the port of a cluster.
func (b *Board) hush(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.answering, name)
}

// keepAnswering renews the duty until ctx ends. It calls stop if another server has the duty or the document no longer wants it in this form. Once the
// listener is up, it records the address in the store.
func (b *Board) keepAnswering(ctx context.Context, d *store.Duty, id string, port int, stop func(error), up <-chan []string, at string) {
	look, keep := time.NewTicker(b.c.Tick), time.NewTicker(b.ttl/3)
	defer look.Stop()
	defer keep.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if b.saysOtherwise(ctx, d.Cluster, id, port) {
				stop(errNoMore)
				return
			}
			continue
		case pools := <-up:
			d.Failures, d.Outcome, d.Message = 0, store.DutyDone, fmt.Sprintf("answering at %s: %s", at, strings.Join(pools, ", "))
		case <-keep.C:
		}
		began := time.Now()
		err := b.c.Store.KeepDuty(ctx, d, b.ttl)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			last = began
		case fail.KindOf(err) == fail.Conflict || time.Since(last) > b.ttl*2/3:
			stop(fail.Wrap(fail.Conflict, err, "answer the cluster's autoscaler any further").At(d.Cluster))
			return
		default:
			b.c.Log.Warn("that a cluster's autoscaler is answered here could not be recorded; trying again", "cluster", d.Cluster, "error", err.Error())
		}
	}
}

// saysOtherwise reports whether the document no longer wants this answer, or the cluster is gone. An unreadable document changes nothing.
func (b *Board) saysOtherwise(ctx context.Context, name, id string, port int) bool {
	rec, err := b.c.Store.Cluster(ctx, name)
	if err != nil {
		return fail.KindOf(err) == fail.NotFound
	}
	doc, err := validation.Parse("the stored document of "+name, rec.Document)
	return rec.ID != id || err == nil && (!doc.Spec.Unattended.Autoscale || doc.Spec.Unattended.AutoscalePort != port)
}

// willing is the front for an autoscaler's requests: the document's setting is the user's agreement.
type willing struct{ unattendedFront }

// Agree implements operate.Front.
func (willing) Agree(string) error { return nil }
