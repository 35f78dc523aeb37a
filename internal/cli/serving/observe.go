package serving

import (
	"context"
	"log/slog"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/metrics"
	"github.com/naupegos/naupegos/internal/store"
)

// metrics returns the server's Prometheus metrics.
func (h Host) metrics(st store.Store, log *slog.Logger) *metrics.Metrics {
	return metrics.New(metrics.Config{Store: st, Version: h.Version, Log: log, Expiry: h.expiry})
}

// expiry returns when a cluster's certificates expire.
func (h Host) expiry(ctx context.Context, name string) (e metrics.Expiry, err error) {
	err = h.observe(ctx, name, func(s *operate.Session) (err error) {
		e.Authority, e.Leaf, err = s.Expiry(ctx)
		return err
	})
	return e, err
}

// observe calls look with a session that only reads a cluster. The session waits for no turn, because the server looks at its own pace: requests must
// not delay it.
func (h Host) observe(ctx context.Context, name string, look func(*operate.Session) error) error {
	st, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	o := h.Look(name)
	o.Turns = nil
	s, _, err := operate.OpenNamed(ctx, st, name, o)
	if err != nil {
		return err
	}
	return s.CloseWith(look(s))
}

// ended returns a function that counts a finished job.
func ended(m *metrics.Metrics) func(string, error) {
	return func(verb string, err error) {
		outcome := "done"
		if err != nil {
			outcome = fail.KindOf(err).String()
		}
		m.Job(verb, outcome)
	}
}
