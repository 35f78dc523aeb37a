package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
)

// The states of a cluster.
const (
	Healthy   = "healthy"
	Drifted   = "drifted"   // everything works; apply would change something
	Unhealthy = "unhealthy" // something does not work
	Unknown   = "unknown"   // the cluster did not answer
)

// Summary is the part of a cluster's health that lists and metrics show.
type Summary struct {
	Kubernetes    string    `json:"kubernetes"`
	Endpoint      string    `json:"endpoint,omitempty"`
	ControlPlane  Members   `json:"controlPlane"`
	Workers       Members   `json:"workers"`
	Gateways      Members   `json:"gateways"`
	Nodes         Members   `json:"nodes"`
	Voters        Members   `json:"voters"`
	Backup        time.Time `json:"backup,omitzero"` // time of the last backup
	Proven        time.Time `json:"proven,omitzero"` // time of the last backup that a rehearsal proved
	BackupProblem string    `json:"backupProblem,omitempty"`
	Certificate   time.Time `json:"certificate,omitzero"` // expiry of the first certificate to expire
	CertificateOf string    `json:"certificateOf,omitempty"`
	Note          string    `json:"note,omitempty"` // stage of an upgrade, a rotation or a reset
}

// Members counts the healthy members among the wanted ones.
type Members struct {
	Well   int `json:"well"`
	Wanted int `json:"wanted"`
}

// String returns "2/3".
func (m Members) String() string { return fmt.Sprintf("%d/%d", m.Well, m.Wanted) }

// Full reports whether all wanted members are healthy.
func (m Members) Full() bool { return m.Well >= m.Wanted }

func (m *Members) add(well bool) {
	m.Wanted++
	if well {
		m.Well++
	}
}

// Health is a cluster's health when a server last looked.
type Health struct {
	State, Cause, Remedy string
	Looked               time.Time // zero: no server has looked yet
	Answered             time.Time // time of Summary and Status; zero: the cluster never answered
	Summary              Summary
	Status               *report.Status // only from Of; nil: the cluster never answered
}

// All returns the health of all clusters by ID, without their statuses.
func All(ctx context.Context, st store.Store) (map[string]Health, error) {
	found, err := st.Health().All(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Health{}
	for id, r := range found {
		if all[id], err = of(&r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Of returns the health of a cluster. Its state is unknown if no server has looked yet.
func Of(ctx context.Context, st store.Store, clusterID string) (Health, error) {
	r, err := st.Health().Get(ctx, clusterID)
	if err != nil || r == nil {
		return Health{State: Unknown}, err
	}
	return of(r)
}

func of(r *health.Record) (h Health, err error) {
	h = Health{State: r.State, Cause: r.Cause, Remedy: r.Remedy, Looked: r.Looked, Answered: r.Answered}
	if len(r.Summary) > 0 {
		err = json.Unmarshal(r.Summary, &h.Summary)
	}
	if err == nil && len(r.Report) > 0 {
		h.Status = &report.Status{}
		err = json.Unmarshal(r.Report, h.Status)
	}
	if err != nil {
		err = fail.Wrap(fail.Internal, err, "read the health of a cluster")
	}
	return h, err
}

// Sum returns the summary of a status.
func Sum(s *report.Status) Summary {
	out := Summary{Kubernetes: s.Kubernetes, Endpoint: s.Endpoint, Certificate: s.Expires, CertificateOf: s.ExpiresOf}
	for _, note := range []string{s.Upgrade, s.Rotation, s.Reset} {
		if out.Note == "" {
			out.Note = note
		}
	}
	if b := s.Backups; b != nil {
		out.Backup, out.Proven, out.BackupProblem = b.Last, b.Proven, b.Problem
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		if m.State == unwanted {
			continue
		}
		well := m.State == running && (m.Node == "" || ready(m.Node))
		switch m.Role {
		case "gateway":
			out.Gateways.add(well)
			continue
		case "control-plane":
			out.ControlPlane.add(well)
		default:
			out.Workers.add(well)
		}
		out.Nodes.add(well)
	}
	if q := s.Quorum; q != nil {
		out.Voters = Members{Well: q.Healthy, Wanted: q.Voters}
	}
	return out
}

const (
	running  = "running"
	unwanted = "unwanted"
)

func ready(node string) bool { return node == "Ready" || strings.HasPrefix(node, "Ready,") }

// Judge returns the state of a cluster, the cause in one line, and the command that helps. Cause and command are empty if the cluster is healthy.
func Judge(name string, s *report.Status, seen error) (state, cause, remedy string) {
	if seen != nil {
		return Unknown, line(fail.Public(seen).Error()), "naupegos status " + name
	}
	return string(s.State), line(s.Cause), s.Remedy
}

// line returns the first line of a text, shortened.
func line(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > 200 {
		return string(r[:199]) + "…"
	}
	return text
}
