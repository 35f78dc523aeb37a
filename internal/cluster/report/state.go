package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/etcd"
)

// State describes a cluster in one word.
type State string

// The states of a cluster.
const (
	Healthy   State = "healthy"   // everything exists, runs, answers and matches the document
	Drifted   State = "drifted"   // everything serves, but something differs from the document: apply has work to do
	Unhealthy State = "unhealthy" // something is missing, down, silent or expired
)

// Cause is one reason for a state, with the command that fixes it.
type Cause struct {
	State    State    `json:"state"` // state that this cause alone leads to; healthy: only a remark
	Kind     string   `json:"kind"`  // such as "machine-off"
	Machines []string `json:"machines,omitempty"`
	Text     string   `json:"text"`             // such as "demo-cp-2 is off"
	Remedy   string   `json:"remedy,omitempty"` // a command to copy
	Does     string   `json:"does,omitempty"`   // what the remedy does, such as "starts it"
}

// String renders the cause and its remedy in one line.
func (c Cause) String() string {
	if c.Remedy == "" {
		return c.Text
	}
	return strings.TrimSpace(c.Text + ": " + c.Remedy + " " + c.Does)
}

// Quorum counts etcd's voters.
type Quorum struct {
	Voters    int `json:"voters"`
	Healthy   int `json:"healthy"`
	Needed    int `json:"needed"`
	Tolerates int `json:"tolerates"` // how many more voters may fail
}

// quorumOf returns the counts of a projection.
func quorumOf(p etcd.Projection) *Quorum {
	return &Quorum{Voters: p.Voters, Healthy: p.Healthy, Needed: p.Quorum, Tolerates: p.Tolerates}
}

// setState judges the cluster: it fills in the causes, the state, and the first cause and remedy. Status calls it last.
func (s *Status) setState(g signs) {
	s.Causes = causes(s, g)
	s.State, s.Cause, s.Remedy = Healthy, "", ""
	if len(s.Causes) > 0 {
		s.State = s.Causes[0].State // the most severe cause comes first
	}
	if s.State != Healthy {
		s.Cause, s.Remedy = s.Causes[0].Text, s.Causes[0].Remedy
	}
	s.Healthy = s.State == Healthy
}

// StateWord returns the state. For a server of an older release, which sends only whether the cluster is healthy, it returns Healthy or Unhealthy.
func (s *Status) StateWord() State {
	switch {
	case s.State != "":
		return s.State
	case s.Healthy:
		return Healthy
	}
	return Unhealthy
}

// Summary describes the cluster in one line: its state, the first cause, the command that fixes it, and the number of further causes.
func (s *Status) Summary() string {
	line := fmt.Sprintf("Cluster %s (%s, Kubernetes %s) is %s", s.Name, s.Provider, s.Kubernetes, s.StateWord())
	if len(s.Causes) == 0 {
		return line
	}
	line += ": " + s.Causes[0].String()
	if more := s.More(); len(more) > 0 {
		line += fmt.Sprintf(" (and %d more)", len(more))
	}
	return line
}

// More lists the causes after the first one.
func (s *Status) More() []Cause {
	if len(s.Causes) < 2 {
		return nil
	}
	return slices.Clone(s.Causes[1:])
}
