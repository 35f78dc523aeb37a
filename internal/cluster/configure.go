package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
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
	cfg, err := c.Config(ctx, s, facts)
	if err != nil {
		return machine.Report{}, err
	}
	if !dryRun {
		if err := c.rememberHost(ctx, s.Name); err != nil {
			return machine.Report{}, err
		}
	}
	return c.Dialer.Apply(ctx, h, cfg, remote.ApplyOptions{
		DryRun: dryRun, Blob: c.OpenBlob,
		Progress: func(text string) { status(p, "%s", text) },
	})
}

// rememberFacts keeps what the cluster as a whole depends on of what a machine is.
func (c *Cluster) rememberFacts(ctx context.Context, s wanted.Slot, f machine.Facts) error {
	if f.Container && !c.Prov.Traits().SharedKernel { // of local machines it is known beforehand
		if err := c.Facts.Set(ctx, memory.SharedKernel, "true"); err != nil {
			return err
		}
	}
	if first := c.NamesOf(provider.ControlPlane); len(first) > 0 && first[0] == s.Name {
		return c.Facts.Set(ctx, memory.CgroupVersion, strconv.Itoa(f.CgroupVersion))
	}
	return nil
}

// rememberHost notes, before anything is put on it, that a host given by address is in use.
func (c *Cluster) rememberHost(ctx context.Context, name string) error {
	if !c.Prov.Traits().Given {
		return nil
	}
	m, err := c.Prov.Machine(ctx, name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember host %s", name)
	}
	return c.Facts.SetOf(ctx, memory.Host, name, string(data))
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
		ID: id + "/" + name, Action: action, Subject: name, Title: title, Reason: reason, Timeout: env.LayTimeout,
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err == nil {
				_, err = c.Dialer.Run(ctx, h, nil, command...)
			}
			return err
		},
	}
}

// introduceStep has the others know a machine whose address only its creation tells, where it is there for a plan alone: the control plane
// approves no serving certificate of a kubelet at an address that it doesn't know, and without one nobody gets the logs of its pods.
func (c *Cluster) introduceStep(s wanted.Slot) *plan.Step {
	return &plan.Step{
		ID: "introduce/" + s.Name, Action: plan.Change, Subject: s.Name, Title: "tell the other machines the address of " + s.Name,
		Reason: "its address is known only after its creation",
		Run: func(ctx context.Context, p plan.Progress) error {
			c.introducing.Lock()
			defer c.introducing.Unlock()
			addr, err := c.Address(ctx, s.Name)
			if err != nil {
				return err
			}
			return introduce(c.Known(), s.Name, func(other wanted.Slot) error {
				if c.Fenced(other.Role) {
					if err := c.letIn(ctx, other.Name, []string{"admit", filter.Table, filter.Visitors, addr}); err != nil {
						return err
					}
				}
				if !other.IsControlPlane() {
					return nil
				}
				return quietly(func(dryRun bool) (machine.Report, error) { return c.configure(ctx, other, dryRun, p) })
			})
		},
	}
}

// introduce tells all nodes but one, one after another. Those that are not there yet, or don't answer, hear of it when they are configured.
func introduce(all []wanted.Slot, name string, tell func(wanted.Slot) error) error {
	for _, other := range all {
		if other.Name == name || other.Role == provider.Gateway {
			continue
		}
		err := tell(other)
		if kind := fail.KindOf(err); err != nil && kind != fail.Unreachable && kind != fail.NotReady && kind != fail.NotFound {
			return err
		}
	}
	return nil
}

// quietly changes a machine where that restarts nothing that others depend on: what does is left to a plan that says so.
func quietly(configure func(dryRun bool) (machine.Report, error)) error {
	r, err := configure(true)
	if err != nil || len(r.Changes) == 0 || disruptive(&r) {
		return err
	}
	_, err = configure(false)
	return err
}

func configureID(name string) string { return "configure/" + name }

// plane says what runs on control-plane machines: the Cluster, but in tests.
type plane interface {
	settled(ctx context.Context, name string, flags ...string) error
	waitEtcd(ctx context.Context) error
	waitServer(ctx context.Context, name string) error
	runs(ctx context.Context, name, version string) error
}

// serving is fail.NotReady while one of these control-plane machines does not run what lies there, or does not serve.
func serving(ctx context.Context, on plane, names []string, p plan.Progress) error {
	all := strings.Join(names, ", ")
	settled := func() error {
		for _, name := range names {
			if err := on.settled(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
	status(p, "waiting until kubelet on %s has started what its manifests say", all)
	if err := settled(); err != nil {
		return err
	}
	status(p, "waiting for etcd and the API server on %s", all)
	if err := on.waitEtcd(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if err := on.waitServer(ctx, name); err != nil {
			return err
		}
	}
	// The controller manager and the scheduler end when they can't renew their leases, and kubelet starts them again after a while.
	status(p, "waiting until all of the control plane runs on %s", all)
	return settled()
}

// taken is fail.NotReady while not all control-plane machines run what they are told, servers of this release among it; empty: of whatever one.
// A step that notes that they do asks themselves: the apply before may have ended between a machine's configuration and its gate.
func (c *Cluster) taken(ctx context.Context, version string, p plan.Progress) error {
	names := c.NamesOf(provider.ControlPlane)
	if err := serving(ctx, c.plane, names, p); err != nil || version == "" {
		return err
	}
	status(p, "asking all control-plane machines whether their servers are of %s", version)
	for _, name := range names {
		if err := c.plane.runs(ctx, name, version); err != nil {
			return err
		}
	}
	return nil
}

// settled is fail.NotReady while kubelet on a control-plane machine has not started the static pods that lie there now.
func (c *Cluster) settled(ctx context.Context, name string, flags ...string) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	pods := layout.Params{EtcdMode: c.Doc.Spec.Etcd.Mode}.StaticPods()
	args := append([]string{"settled"}, flags...)
	for _, program := range slices.Sorted(maps.Keys(pods)) {
		args = append(args, program+"="+pods[program])
	}
	_, err = c.Dialer.Agent(ctx, h, nil, args...)
	return err
}

// serverPrograms are those of the control plane that are of one release; etcd has its own.
const serverPrograms = "kube-apiserver kube-controller-manager kube-scheduler"

// runs is fail.NotReady while one of a control-plane machine's servers, by its own word, is not of a release, or does not run.
func (c *Cluster) runs(ctx context.Context, name, version string) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	out, err := c.Dialer.Run(ctx, h, nil, "sh", "-c", "for p in "+serverPrograms+"; do for i in $(pidof $p); do echo $p $(/proc/$i/exe --version); done; done")
	if err != nil {
		return err
	}
	return ofRelease(name, string(out), version)
}

// ofRelease reads what servers say of themselves, one a line: "kube-scheduler Kubernetes v1.37.2".
func ofRelease(name, said, version string) error {
	for program := range strings.FieldsSeq(serverPrograms) {
		found := false
		for line := range strings.Lines(said) {
			of, is, _ := strings.Cut(strings.TrimSpace(line), " ")
			found = found || of == program
			if of == program && is != "Kubernetes "+version {
				return fail.New(fail.NotReady, "%s is still %q, not of %s", program, is, version).At(name)
			}
		}
		if !found {
			return fail.New(fail.NotReady, "%s does not run", program).At(name)
		}
	}
	return nil
}

// behind says which programs of a control-plane machine still run as before their manifests were changed: the apply that changed these was cut off
// before it had waited for that. What does not run at all may end and begin again by itself; the steps that depend on it ask for that, too.
func (c *Cluster) behind(ctx context.Context, name string) string {
	err := c.plane.settled(ctx, name, "--former")
	if fail.KindOf(err) != fail.NotReady {
		return "" // it is asked whether it serves elsewhere
	}
	return err.Error()
}

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
		out = append(out, words.Count(n, "blob", "blobs")+" of the bundle to send")
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

// endsEtcd reports whether the agent would restart etcd, as far as is known.
func endsEtcd(r *machine.Report) bool {
	return r == nil || slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "file" && isManifest(ch.Name) && path.Base(ch.Name) == "etcd.yaml" || ch.Kind == "unit" && ch.Name == "etcd.service"
	})
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
		return "its machine is created or started"
	case s.Err != nil:
		return "it could not be examined: " + s.Err.Error()
	case s.Report == nil:
		return "it is not configured yet"
	}
	return "it differs from the document"
}

func details(s *Seen) []string {
	if s == nil {
		return nil
	}
	return describe(s.Report)
}
