// Package metrics is what the server tells Prometheus: its requests and jobs, and what the store knows of clusters, machines and duties.
//
// It reads the store when it is asked, so that what several servers on one store tell of it is the same. It changes nothing.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
)

// Expiry is when certificates of a cluster end: the earliest of its authorities, and of the others. Zero: there are none.
type Expiry struct{ Authority, Leaf time.Time }

// Config is what is told of.
type Config struct {
	Store   store.Store
	Version string
	Log     *slog.Logger
	// Expiry looks when the certificates of a cluster end. Answers are kept for a while. nil: it is not told.
	Expiry func(ctx context.Context, cluster string) (Expiry, error)
	// Within bounds how long the store may take; 0: 10 s.
	Within time.Duration
}

// Metrics counts, and tells.
type Metrics struct {
	c        Config
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	jobs     *prometheus.CounterVec
	runs     *prometheus.CounterVec
	failed   prometheus.Counter

	mu       sync.Mutex
	expiries map[string]looked
}

// looked is an expiry that was looked for.
type looked struct {
	Expiry
	at time.Time
}

// New returns metrics that have counted nothing yet.
func New(c Config) *Metrics {
	if c.Within == 0 {
		c.Within = 10 * time.Second
	}
	m := &Metrics{
		c: c, registry: prometheus.NewRegistry(), expiries: map[string]looked{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "naupegos_http_requests_total", Help: "Requests that were answered, by route."}, []string{"route", "method", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "naupegos_http_request_duration_seconds", Help: "How long answers took, by route.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60}}, []string{"route"}),
		jobs:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "naupegos_jobs_ended_total", Help: "Jobs that this server carried out to their end."}, []string{"verb", "outcome"}),
		runs:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "naupegos_unattended_runs_total", Help: "What this server did unattended."}, []string{"cluster", "kind", "outcome"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "naupegos_scrape_errors_total", Help: "How often the store could not be read for this."}),
	}
	m.registry.MustRegister(m.requests, m.took, m.jobs, m.runs, m.failed, collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request counts a request that was answered.
func (m *Metrics) Request(r *http.Request, code int, took time.Duration) {
	route := r.Pattern
	if route == "" {
		route = "none" // what is mounted nowhere is asked for by many names
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch:
	default: // anybody may make one up
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
	m.took.WithLabelValues(route).Observe(took.Seconds())
}

// Job counts a job that has ended; outcome is the kind of its error, or done.
func (m *Metrics) Job(verb, outcome string) { m.jobs.WithLabelValues(verb, outcome).Inc() }

// Unattended counts what was done unasked.
func (m *Metrics) Unattended(d store.Duty) {
	m.runs.WithLabelValues(d.Cluster, d.Kind, d.Outcome).Inc()
}

// Part serves the metrics to operators with the role read for all clusters.
func (m *Metrics) Part() server.Part {
	tell := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(m.c.Log.Handler(), slog.LevelError), Timeout: 2 * m.c.Within, MaxRequestsInFlight: 4})
	return server.Part{Name: "metrics", Mounts: []server.Mount{{Pattern: "GET /metrics", Need: server.Read, Scope: server.Everything(), Handler: tell}}}
}
