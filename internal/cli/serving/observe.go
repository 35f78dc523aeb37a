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
	st, err := h.OpenStore(ctx)
	if err != nil {
		return e, err
	}
	o := h.Look(name)
	o.Turns = nil // the server looks at its own pace: requests must not hold it up
	s, _, err := operate.OpenNamed(ctx, st, name, o)
	if err != nil {
		return e, err
	}
	e.Authority, e.Leaf, err = s.Expiry(ctx)
	return e, s.CloseWith(err)
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
