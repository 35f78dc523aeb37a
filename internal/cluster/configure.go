package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// configure makes one machine as it should be, or with dryRun asks what would change.
func (c *Cluster) configure(ctx context.Context, s wanted.Slot, dryRun bool, p plan.Progress) (machine.Report, error) {
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return machine.Report{}, err
	}
	status(p, "asking %s what it is", s.Name)
	facts, err := c.examine(ctx, s)
	if err != nil {
		return machine.Report{}, err
	}
	if err := c.rememberFacts(ctx, s, facts); err != nil {
		return machine.Report{}, err
	}
	cfg, err := c.render(ctx, s, facts)
	if err != nil {
		return machine.Report{}, err
	}
	if !dryRun {
		if err := c.rememberHost(ctx, s.Name); err != nil {
			return machine.Report{}, err
		}
	}
	return c.dialer.Apply(ctx, h, cfg, remote.ApplyOptions{
		DryRun: dryRun, Blob: c.openBlob,
		Progress: func(text string) { status(p, "%s", text) },
	})
}

// rememberFacts keeps what the cluster as a whole depends on of what a machine is.
func (c *Cluster) rememberFacts(ctx context.Context, s wanted.Slot, f machine.Facts) error {
	if f.Container && !c.prov.Traits().SharedKernel { // of local machines it is known beforehand
		if err := c.facts.Set(ctx, memory.SharedKernel, "true"); err != nil {
			return err
		}
	}
	if first := c.namesOf(provider.ControlPlane); len(first) > 0 && first[0] == s.Name {
		return c.facts.Set(ctx, memory.CgroupVersion, strconv.Itoa(f.CgroupVersion))
	}
	return nil
}

// rememberHost notes, before anything is put on it, that a host given by address is in use.
func (c *Cluster) rememberHost(ctx context.Context, name string) error {
	if !c.prov.Traits().Given {
		return nil
	}
	m, err := c.prov.Machine(ctx, name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember host %s", name)
	}
	return c.facts.SetOf(ctx, memory.Host, name, string(data))
}

// configureStep is the step that makes one machine as it should be.
func (c *Cluster) configureStep(s wanted.Slot, action plan.Action, reason string, details []string) *plan.Step {
	verb := "configure"
	return &plan.Step{
		ID: configureID(s.Name), Action: action, Subject: s.Name, Reason: reason, Details: details,
		Title: verb + " " + string(s.Role) + " " + s.Name,
		Run: func(ctx context.Context, p plan.Progress) error {
			_, err := c.configure(ctx, s, false, p)
			return err
		},
	}
}

// onMachine is a step that runs a command on a machine.
func (c *Cluster) onMachine(id string, action plan.Action, name, title, reason string, command ...string) *plan.Step {
	return &plan.Step{
		ID: id + "/" + name, Action: action, Subject: name, Title: title, Reason: reason, Timeout: layTimeout,
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err == nil {
				_, err = c.dialer.Run(ctx, h, nil, command...)
			}
			return err
		},
	}
}

func configureID(name string) string { return "configure/" + name }

// describe tells in words what the agent would change, for the printed plan.
func describe(r *machine.Report) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, ch := range r.Changes {
		line := ch.Action + " " + ch.Kind + " " + ch.Name
		if ch.Why != "" {
			line += ": " + ch.Why
		}
		out = append(out, line)
	}
	if n := len(r.Missing); n > 0 {
		out = append(out, plural(n, "blob")+" of the bundle to send")
	}
	return out
}

// servers are the units that others depend on while they run.
var servers = map[string]bool{
	"kubelet.service": true, "containerd.service": true, "etcd.service": true, "haproxy.service": true, "keepalived.service": true,
}

// disruptive reports whether the agent would restart anything that others depend on.
func disruptive(r *machine.Report) bool {
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

// mayRestart reports whether configuring the machine is disruptive, as far as is known: one that does not answer now may well do later, and
// what one should be can't be compared yet while it names machines that are still to be made.
func (s *Seen) mayRestart() bool {
	if s.Report == nil {
		kind := fail.KindOf(s.Err)
		return kind == fail.Unreachable || kind == fail.NotReady
	}
	return disruptive(s.Report)
}

// status tells a running step's progress; p is nil outside of steps.
func status(p plan.Progress, format string, args ...any) {
	if p != nil {
		p.Status(format, args...)
	}
}

// isManifest reports whether a file is a static pod's manifest, whose change restarts the pod.
func isManifest(file string) bool { return path.Dir(file) == "/etc/kubernetes/manifests" }

// actionFor reports whether a machine is configured for the first time. One that runs and could not be examined may well be configured.
func actionFor(s *Seen) plan.Action {
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

// reasonFor says why a machine is configured.
func reasonFor(s *Seen, fresh bool) string {
	switch {
	case s == nil:
		return "it is new"
	case s.Machine.State == provider.Unreachable:
		return "it does not answer: " + s.Machine.Detail
	case s.Machine.State != provider.Running:
		return "it is " + string(s.Machine.State)
	case fresh:
		return "its machine is made or started"
	case s.Err != nil:
		return "it could not be examined: " + s.Err.Error()
	case s.Report == nil:
		return "it is not configured yet"
	}
	return "it differs from what the document says"
}

func details(s *Seen) []string {
	if s == nil {
		return nil
	}
	return describe(s.Report)
}

func join(parts []string) string { return strings.Join(parts, ",") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
