package observe

import (
	"path"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// Describe lists the agent's changes in words, for the printed plan.
func Describe(r *machine.Report) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, d := range deltas(r) {
		out = append(out, d.Detail())
	}
	if n := len(r.Missing); n > 0 {
		out = append(out, words.Count(n, "blob", "blobs")+" of the bundle to send")
	}
	return out
}

// servers are the units that others depend on while they run.
var servers = map[string]bool{
	"kubelet.service": true, "containerd.service": true, "etcd.service": true, "haproxy.service": true, "keepalived.service": true,
}

// Disruptive reports whether the agent would restart anything that others depend on.
func Disruptive(r *machine.Report) bool {
	if r == nil {
		return true
	}
	for _, ch := range r.Changes {
		if ch.Kind == "unit" && servers[ch.Name] && (ch.Action == "restart" || ch.Action == "stop") {
			return true
		}
		if ch.Kind == "file" && isManifest(ch.Name) {
			return true
		}
	}
	return false
}

// EndsEtcd reports whether the agent would restart etcd, as far as is known.
func EndsEtcd(r *machine.Report) bool {
	return r == nil || slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "file" && isManifest(ch.Name) && path.Base(ch.Name) == "etcd.yaml" || ch.Kind == "unit" && ch.Name == "etcd.service"
	})
}

// MayRestart reports whether configuring the machine may be disruptive: a machine that does not answer now may answer later, and a configuration
// that needs unknown addresses can't be compared yet.
func (s *Seen) MayRestart() bool {
	if s.Report == nil {
		kind := fail.KindOf(s.Err)
		return kind == fail.Unreachable || kind == fail.NotReady
	}
	return Disruptive(s.Report)
}

// isManifest reports whether a file is a static pod's manifest, whose change restarts the pod.
func isManifest(file string) bool { return path.Dir(file) == "/etc/kubernetes/manifests" }

// ActionFor reports whether a machine is configured for the first time. One that runs and could not be examined may well be configured.
func ActionFor(s *Seen) plan.Action {
	switch {
	case s == nil:
		return plan.Create
	case s.Report == nil && s.Err != nil && s.Machine.MayRun():
		return plan.Change
	case s.Report == nil:
		return plan.Create
	}
	for _, ch := range s.Report.Changes {
		if ch.Action != "create" && ch.Action != "start" && ch.Action != "enable" {
			return plan.Change
		}
	}
	return plan.Create
}

// ReasonFor returns the reason for configuring a machine.
func ReasonFor(s *Seen, fresh bool) string {
	switch {
	case s == nil:
		return "it is new"
	case s.Machine.State == provider.Unreachable:
		return "it does not answer: " + s.Machine.Detail
	case s.Machine.State != provider.Running:
		return "it is " + string(s.Machine.State)
	case fresh:
		return "its machine is created or started"
	case s.Err != nil:
		return "it could not be examined: " + s.Err.Error()
	case s.Report == nil:
		return "it is not configured yet"
	}
	return "it differs from the document"
}

// Details lists what the agent would change on a machine.
func Details(s *Seen) []string {
	if s == nil {
		return nil
	}
	return Describe(s.Report)
}
