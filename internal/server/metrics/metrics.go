// Package metrics serves metrics to Prometheus: requests and jobs of this server, and the store's clusters, machines and unattended tasks.
//
// It reads the store at each scrape, so that all servers on a store report the same about it. It changes nothing.
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

// Expiry is the earliest expiry of a cluster's authorities, and of its other certificates. Zero: no certificate.
type Expiry struct{ Authority, Leaf time.Time }

// Config configures the metrics.
type Config struct {
	Store   store.Store
	Version string
	Log     *slog.Logger
	// Expiry returns when the certificates of a cluster expire. Results are cached. nil: the metric is omitted.
	Expiry func(ctx context.Context, cluster string) (Expiry, error)
	// Within is the time limit for reading the store; 0: 10 s.
	Within time.Duration
}

// Metrics counts events, and serves them with the store's metrics.
type Metrics struct {
	c        Config
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	jobs     *prometheus.CounterVec
	runs     *prometheus.CounterVec
	hooks    *prometheus.CounterVec
	failed   prometheus.Counter

	mu       sync.Mutex
	expiries map[string]looked
}

// looked is a cached expiry.
type looked struct {
	Expiry
	at time.Time
}

// New returns metrics with all counters at zero.
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
		hooks:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "naupegos_webhook_messages_total", Help: "Messages of this server to webhooks: sent, failed attempts, and dropped ones."}, []string{"webhook", "outcome"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "naupegos_scrape_errors_total", Help: "How often the store could not be read for this."}),
	}
	m.registry.MustRegister(m.requests, m.took, m.jobs, m.runs, m.hooks, m.failed, collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request counts an answered request.
func (m *Metrics) Request(r *http.Request, code int, took time.Duration) {
	route := r.Pattern
	if route == "" {
		route = "none" // unmounted paths have unlimited names
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch:
	default: // clients may send any method
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
	m.took.WithLabelValues(route).Observe(took.Seconds())
}

// Job counts an ended job; outcome is the kind of its error, or done.
func (m *Metrics) Job(verb, outcome string) { m.jobs.WithLabelValues(verb, outcome).Inc() }

// Unattended counts an ended run of an unattended task.
func (m *Metrics) Unattended(d store.Duty) {
	m.runs.WithLabelValues(d.Cluster, d.Kind, d.Outcome).Inc()
}

// Webhook counts the outcome of a message to a webhook: sent, failed (an attempt) or dropped.
func (m *Metrics) Webhook(name, outcome string) { m.hooks.WithLabelValues(name, outcome).Inc() }

// Part serves the metrics to operators with the role read for all clusters.
func (m *Metrics) Part() server.Part {
	tell := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(m.c.Log.Handler(), slog.LevelError), Timeout: 2 * m.c.Within, MaxRequestsInFlight: 4})
	return server.Part{Name: "metrics", Mounts: []server.Mount{{Pattern: "GET /metrics", Need: server.Read, Scope: server.Everything(), Handler: tell}}}
}
