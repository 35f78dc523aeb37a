package cluster

import (
	"context"
	"encoding/json"
	"path"
	"strconv"
	"time"

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

// checkFacts refuses machines that can't be what they should be, before anything is changed on them.
func (c *Cluster) checkFacts(s wanted.Slot, f machine.Facts) error {
	if !f.Systemd {
		return fail.New(fail.Refused, "its first process is not systemd").At(s.Name).Do("use a Debian or Ubuntu host that systemd runs")
	}
	if !f.Dpkg {
		return fail.New(fail.Refused, "its operating system (%s) has no Debian packages", f.OS).At(s.Name).
			Do("use Debian or Ubuntu; Fedora CoreOS, Flatcar and the like can't be machines of a cluster yet")
	}
	if f.Hostname != s.Name && !c.prov.Traits().Given {
		return fail.New(fail.Conflict, "it calls itself %q", f.Hostname).At(s.Name).Do("another machine answers at this address, or its hostname was changed")
	}
	if f.Fresh {
		if err := checkRoom(s, f, time.Now()); err != nil {
			return err
		}
	}
	return c.checkPorts(s, f)
}

// What a machine must have before anything is put on it.
const (
	nodeDisk    = 3 << 30         // bytes: programs, images, and what they become when they run
	gatewayDisk = 512 << 20       // bytes: programs and packages
	clockSkew   = 5 * time.Minute // by which its clock may differ from ours: certificates are valid from a little before they were made
)

// checkRoom refuses a machine whose disk is too full or whose clock is wrong.
func checkRoom(s wanted.Slot, f machine.Facts, now time.Time) error {
	need := int64(nodeDisk)
	if s.Role == provider.Gateway {
		need = gatewayDisk
	}
	if f.DiskFree > 0 && f.DiskFree < need {
		return fail.New(fail.Refused, "%d MiB are free below /var/lib, %d MiB are needed", f.DiskFree>>20, need>>20).At(s.Name).
			Do("make room there, or mount a larger disk")
	}
	if skew := f.Clock.Sub(now); !f.Clock.IsZero() && skew.Abs() > clockSkew {
		return fail.New(fail.Refused, "its clock says %s, which is %s off from here", f.Clock.UTC().Format(time.RFC3339), skew.Abs().Round(time.Second)).At(s.Name).
			Do("set it: timedatectl set-ntp true on %s; or is it this host's clock that is wrong?", s.Name)
	}
	return nil
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
