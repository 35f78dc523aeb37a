package approver

import (
	"context"
	"log/slog"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Options are the dependencies and settings of the approver.
type Options struct {
	Kubeconfig string // with one cluster (the machine's own API server) and one user, data inline
	Machines   string // {"nodes":{"NAME":["ADDRESS", …]}}; read again when it changes
	Log        *slog.Logger
	Retry      time.Duration // first pause after a failure, doubled up to 15 s; default 1 s
	Resync     time.Duration // interval between two lists of all requests; default 30 s
}

// Run approves and denies requests until ctx ends. It retries an API server that does not answer, because a service has no caller to return the error
// to. It returns an error only if it can't read its files at the start.
func Run(ctx context.Context, o Options) error {
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.Resync == 0 {
		o.Resync = 30 * time.Second
	}
	s := &service{
		o:        o,
		client:   cached[*client]{path: o.Kubeconfig, parse: parseKubeconfig},
		machines: cached[map[string][]string]{path: o.Machines, parse: parseMachines},
		left:     map[string]string{},
	}
	if _, err := s.client.get(); err != nil {
		return err
	}
	if _, err := s.machines.get(); err != nil {
		return err
	}
	s.loop(ctx)
	return nil
}

// service is a running approver.
type service struct {
	o        Options
	client   cached[*client]
	machines cached[map[string][]string]
	left     map[string]string // UID of each request left alone → reason, so that each is logged once
}

func (s *service) loop(ctx context.Context) {
	pause, last := s.o.Retry, ""
	for ctx.Err() == nil {
		err := s.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if last != "" {
				s.o.Log.Info("the API server answers again")
			}
			pause, last = s.o.Retry, ""
			continue
		}
		if err.Error() != last {
			s.o.Log.Warn("can't look at certificate signing requests; trying again", "error", err)
			last = err.Error()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 15*time.Second)
	}
}

// round handles all pending requests, then new ones until the next round.
func (s *service) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Resync+30*time.Second)
	defer cancel()
	c, err := s.client.get()
	if err != nil {
		return err
	}
	all, version, err := c.list(ctx)
	if err != nil {
		return err
	}
	seen := map[string]string{}
	for _, r := range all {
		s.handle(ctx, c, r)
		if why, ok := s.left[r.Metadata.UID]; ok {
			seen[r.Metadata.UID] = why
		}
	}
	s.left = seen // forgets requests that are gone
	return c.watch(ctx, version, max(1, int(s.o.Resync.Seconds())), func(r csr) { s.handle(ctx, c, r) })
}

func (s *service) handle(ctx context.Context, c *client, r csr) {
	if r.decided() || r.Spec.SignerName != signer {
		return
	}
	log := s.o.Log.With("request", r.Metadata.Name, "user", r.Spec.Username)
	nodes, err := s.machines.get()
	if err != nil {
		log.Warn("can't read the machines file; continuing with its previous content", "error", err)
	}
	v, why := decide(r.Spec, nodes)
	if v == leave {
		if s.left[r.Metadata.UID] != why {
			s.left[r.Metadata.UID] = why
			log.Warn("left pending", "why", why)
		}
		return
	}
	switch err := c.decideOn(ctx, r, v, why); {
	case err == nil && v == approve:
		log.Info("approved", "why", why)
	case err == nil:
		log.Warn("denied", "why", why)
	case fail.KindOf(err) == fail.Conflict || fail.KindOf(err) == fail.NotFound:
		// Another approver was faster, or the request is gone.
	default:
		log.Warn("can't record the verdict; the next round tries again", "error", err)
	}
}
