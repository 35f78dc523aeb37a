// Package forward sends the audit log to other hosts as it grows: by syslog (RFC 5424) or as OpenTelemetry logs (OTLP over HTTP).
//
// It reads entries from the store in chain order, including entries of host commands and other servers, and stores the position of each sink. It holds
// one page of entries at a time. Each entry arrives at least once.
package forward

import (
	"context"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Limits of forwarding.
const (
	page    = 500              // entries per request
	look    = time.Second      // poll interval
	sending = 20 * time.Second // timeout of one page
	longest = time.Minute      // maximum wait between two attempts
)

// Sink is a destination of audit entries.
type Sink struct {
	name  string // without secrets
	store store.Auditing
	log   *slog.Logger
	send  func(ctx context.Context, all []store.AuditEntry) error
	wait  time.Duration // poll interval

	delivers atomic.Bool // the last page arrived
	tampered atomic.Bool // the store's record did not fit the log since this process started
}

// Health reports whether the sink receives the log, and whether the log was found whole.
func (s *Sink) Health(context.Context) map[string]bool {
	return map[string]bool{"delivered": s.delivers.Load(), "whole": !s.tampered.Load()}
}

// Open returns the sink of an address, without connecting to it.
func Open(to string, st store.Auditing, log *slog.Logger) (*Sink, error) {
	wrong := fail.New(fail.Invalid, "--audit-to %q is not a supported sink", to).Do("write syslog://HOST:PORT, syslogs://HOST:PORT, otlp+http://HOST:PORT or otlp+https://HOST:PORT")
	u, err := url.Parse(to)
	if err != nil {
		return nil, fail.New(fail.Invalid, "--audit-to is not a URL").Do("write syslog://HOST:PORT, or otlp+https://HOST:PORT") // cause withheld: it may quote a secret
	}
	if u.User != nil {
		return nil, fail.New(fail.Invalid, "--audit-to contains a password, but all users of this host can read command lines").Do("remove the password")
	}
	s := &Sink{name: u.Scheme + "://" + u.Host + u.Path, store: st, log: log, wait: look}
	s.delivers.Store(true)
	switch u.Scheme {
	case "syslog", "syslogs":
		y, err := newSyslog(u)
		if err != nil {
			return nil, err
		}
		s.send = y.send
	case "otlp+http", "otlp+https":
		if u.Host == "" || u.RawQuery != "" {
			return nil, wrong
		}
		s.send = newOTLP(u).send
	default:
		return nil, wrong
	}
	return s, nil
}

// Run forwards until ctx ends. It retries an unreachable sink with growing waits; the store keeps the entries.
func (s *Sink) Run(ctx context.Context) error {
	failed, pause := false, s.wait
	for {
		more, err := s.once(ctx)
		s.delivers.Store(err == nil || ctx.Err() != nil)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failed {
				s.log.Error("the audit log can't be forwarded", "to", s.name, "error", err.Error())
			}
			failed, pause = true, min(2*pause, longest)
		default:
			if failed {
				s.log.Info("the audit log is forwarded again", "to", s.name)
			}
			failed, pause = false, s.wait
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// once forwards one page of entries, and reports whether more may follow.
func (s *Sink) once(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	after, err := s.store.Forwarded(ctx, s.name)
	if fail.KindOf(err) == fail.Refused {
		s.log.Error("the audit log was tampered with, or the record of what was forwarded; all of it is forwarded again", "to", s.name, "error", err.Error())
		s.tampered.Store(true)
		after, err = 0, s.store.Unforward(ctx, s.name)
	}
	if err != nil {
		return false, err
	}
	all, err := s.store.AuditAfter(ctx, after, page)
	if err != nil || len(all) == 0 {
		return false, err
	}
	if err := s.send(ctx, all); err != nil {
		return false, err
	}
	return len(all) == page, s.store.Forward(ctx, s.name, all[len(all)-1])
}
