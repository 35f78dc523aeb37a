package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("naupegos_"+name, help, labels, nil)
}

// Metrics from the store.
var (
	info      = describe("build_info", "The version of this server.", "version")
	servers   = describe("servers", "Servers that are at work on the store.")
	clusters  = describe("clusters", "Clusters that the store knows.")
	jobsNow   = describe("jobs", "Jobs that have not ended, by state.", "state")
	leases    = describe("lease_held", "Clusters on which a command or server works, by verb.", "cluster", "verb")
	machines  = describe("machines", "Physical machines, by state.", "state")
	dutyLast  = describe("unattended_last_success_timestamp_seconds", "When an unattended task last succeeded.", "cluster", "kind")
	dutyFails = describe("unattended_failures", "How often it has failed since.", "cluster", "kind")
	dutyDue   = describe("unattended_due_timestamp_seconds", "When it is due next.", "cluster", "kind")
	healthy   = describe("cluster_healthy", "Whether everything of a cluster works; a cluster that did not answer counts as broken.", "cluster")
	drifted   = describe("cluster_drifted", "Whether a cluster works but is not as its document wants it.", "cluster")
	lookedAt  = describe("cluster_looked_timestamp_seconds", "When a server last looked at a cluster.", "cluster")
	ready     = describe("cluster_nodes_ready", "Nodes that are Ready.", "cluster")
	nodes     = describe("cluster_nodes_wanted", "Nodes that the document wants.", "cluster")
	votersUp  = describe("cluster_etcd_voters_healthy", "Members of etcd that vote and answer.", "cluster")
	voters    = describe("cluster_etcd_voters", "Members of etcd that vote.", "cluster")
	backupAge = describe("cluster_backup_age_seconds", "Age of the last backup.", "cluster")
	provenAge = describe("cluster_proven_backup_age_seconds", "Age of the last backup that a rehearsal has proven.", "cluster")
	certDays  = describe("cluster_certificate_days", "Days until the first certificate of a cluster expires.", "cluster")
	expires   = describe("certificate_expiry_timestamp_seconds", "When the first certificate of a cluster ends: of its authorities, or of all others.", "cluster", "authority")
)

// collector reads the store at each scrape.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{info, servers, clusters, jobsNow, leases, machines, dutyLast, dutyFails, dutyDue, expires,
		healthy, drifted, lookedAt, ready, nodes, votersUp, voters, backupAge, provenAge, certDays} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It omits and counts metrics that can't be read.
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
				err = tellHealth(ctx, m.c.Store, all, gauge)
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
			m.c.Log.Error("the metrics lack values that the store could not return", "what", what, "error", err.Error())
		}
	}
}

// keepExpiry is how long the expiry of certificates is cached: they last for months, and each look decrypts secrets.
const keepExpiry = 5 * time.Minute

// tellExpiries emits the expiry of certificates.
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

// unix converts a time for Prometheus; zero becomes 0, which means never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// tellHealth emits the last recorded health of clusters. It omits clusters that no server has looked at yet.
func tellHealth(ctx context.Context, st store.Store, all []store.Cluster, gauge func(d *prometheus.Desc, v float64, labels ...string)) error {
	known, err := watch.All(ctx, st)
	if err != nil {
		return err
	}
	yes := map[bool]float64{true: 1}
	for _, c := range all {
		h, ok := known[c.ID]
		if !ok {
			continue
		}
		gauge(healthy, yes[h.State == watch.Healthy || h.State == watch.Drifted], c.Name)
		gauge(drifted, yes[h.State == watch.Drifted], c.Name)
		gauge(lookedAt, unix(h.Looked), c.Name)
		if h.Answered.IsZero() {
			continue
		}
		gauge(ready, float64(h.Summary.Nodes.Well), c.Name)
		gauge(nodes, float64(h.Summary.Nodes.Wanted), c.Name)
		gauge(votersUp, float64(h.Summary.Voters.Well), c.Name)
		gauge(voters, float64(h.Summary.Voters.Wanted), c.Name)
		if at := h.Summary.Backup; !at.IsZero() {
			gauge(backupAge, time.Since(at).Seconds(), c.Name)
		}
		if at := h.Summary.Proven; !at.IsZero() {
			gauge(provenAge, time.Since(at).Seconds(), c.Name)
		}
		if at := h.Summary.Certificate; !at.IsZero() {
			gauge(certDays, time.Until(at).Hours()/24, c.Name)
		}
	}
	return nil
}
