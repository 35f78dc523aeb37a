package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/naupegos/naupegos/internal/store"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("naupegos_"+name, help, labels, nil)
}

// What is read from the store.
var (
	info      = describe("build_info", "The version of this server.", "version")
	servers   = describe("servers", "Servers that are at work on the store.")
	clusters  = describe("clusters", "Clusters that the store knows.")
	jobsNow   = describe("jobs", "Jobs that have not ended, by state.", "state")
	leases    = describe("lease_held", "A cluster that somebody is at work on, by verb.", "cluster", "verb")
	machines  = describe("machines", "Physical machines, by state.", "state")
	dutyLast  = describe("unattended_last_success_timestamp_seconds", "When an unattended task last succeeded.", "cluster", "kind")
	dutyFails = describe("unattended_failures", "How often it has failed since.", "cluster", "kind")
	dutyDue   = describe("unattended_due_timestamp_seconds", "When it is due next.", "cluster", "kind")
	expires   = describe("certificate_expiry_timestamp_seconds", "When the first certificate of a cluster ends: of its authorities, or of all others.", "cluster", "authority")
)

// collector reads the store whenever it is asked.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{info, servers, clusters, jobsNow, leases, machines, dutyLast, dutyFails, dutyDue, expires} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What can't be read is left out, and counted.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	m := c.m
	ctx, cancel := context.WithTimeout(context.Background(), m.c.Within)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(info, 1, m.c.Version)
	for what, read := range map[string]func() error{
		"servers": func() error {
			all, err := m.c.Store.Servers(ctx)
			if err == nil {
				gauge(servers, float64(len(all)))
			}
			return err
		},
		"clusters": func() error {
			all, err := m.c.Store.Clusters(ctx)
			if err == nil {
				gauge(clusters, float64(len(all)))
				m.tellExpiries(ctx, all, gauge)
			}
			return err
		},
		"jobs": func() error {
			all, err := m.c.Store.Jobs(ctx, "", store.KeepJobs)
			if err != nil {
				return err
			}
			n := map[string]int{store.JobQueued: 0, store.JobRunning: 0}
			for _, j := range all {
				if j.State != store.JobEnded {
					n[j.State]++
				}
			}
			for state, count := range n {
				gauge(jobsNow, float64(count), state)
			}
			return nil
		},
		"leases": func() error {
			all, err := m.c.Store.Leases(ctx)
			for _, l := range all {
				gauge(leases, 1, l.Cluster, l.Verb)
			}
			return err
		},
		"machines": func() error {
			all, err := m.c.Store.Metal().Counts(ctx)
			for state, n := range all {
				if state == "" {
					state = "unseen"
				}
				gauge(machines, float64(n), state)
			}
			return err
		},
		"duties": func() error {
			all, err := m.c.Store.Duties(ctx, "")
			for _, d := range all {
				gauge(dutyFails, float64(d.Failures), d.Cluster, d.Kind)
				gauge(dutyDue, unix(d.Due), d.Cluster, d.Kind)
				gauge(dutyLast, unix(d.Succeeded), d.Cluster, d.Kind)
			}
			return err
		},
	} {
		if err := read(); err != nil {
			m.failed.Inc()
			m.c.Log.Error("the metrics lack what the store could not tell", "what", what, "error", err.Error())
		}
	}
}

// keepExpiry is how long an answer about certificates is good for: they end in months, and each look opens secrets.
const keepExpiry = 5 * time.Minute

// tellExpiries tells when certificates end.
func (m *Metrics) tellExpiries(ctx context.Context, all []store.Cluster, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if m.c.Expiry == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := map[string]looked{}
	for _, c := range all {
		was, ok := m.expiries[c.ID]
		if !ok || time.Since(was.at) > keepExpiry {
			e, err := m.c.Expiry(ctx, c.Name)
			if err != nil {
				m.failed.Inc()
				m.c.Log.Error("the metrics lack when certificates end", "cluster", c.Name, "error", err.Error())
				continue
			}
			was = looked{e, time.Now()}
		}
		fresh[c.ID] = was
		if !was.Authority.IsZero() {
			gauge(expires, unix(was.Authority), c.Name, "true")
		}
		if !was.Leaf.IsZero() {
			gauge(expires, unix(was.Leaf), c.Name, "false")
		}
	}
	m.expiries = fresh
}

// unix is a time as Prometheus has it; 0: never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
