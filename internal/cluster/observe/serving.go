package observe

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Plane observes the programs of control-plane machines. Tests replace it.
type Plane interface {
	Settled(ctx context.Context, name string) error
	WaitEtcd(ctx context.Context) error
	WaitServer(ctx context.Context, name string) error
	Runs(ctx context.Context, name, version string) error
}

// Serving returns fail.NotReady while one of these control-plane machines does not run its present configuration, or does not serve.
func Serving(ctx context.Context, on Plane, names []string, p plan.Progress) error {
	all := strings.Join(names, ", ")
	settled := func() error {
		for _, name := range names {
			if err := on.Settled(ctx, name); err != nil {
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
	if err := on.WaitEtcd(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if err := on.WaitServer(ctx, name); err != nil {
			return err
		}
	}
	// The controller manager and the scheduler end when they can't renew their leases, and kubelet starts them again after a while.
	status(p, "waiting until all of the control plane runs on %s", all)
	return settled()
}

// Taken returns fail.NotReady until every control-plane machine runs its rendered pods, with servers of this release; "" allows any release. It asks the
// machines themselves, because an earlier apply may have ended between a machine's configuration and its gate.
func (c *Observer) Taken(ctx context.Context, version string, p plan.Progress) error {
	names := c.NamesOf(provider.ControlPlane)
	if err := Serving(ctx, c.Plane, names, p); err != nil || version == "" {
		return err
	}
	status(p, "asking all control-plane machines whether their servers are of %s", version)
	for _, name := range names {
		if err := c.Plane.Runs(ctx, name, version); err != nil {
			return err
		}
	}
	return nil
}

// Settled returns fail.NotReady while kubelet on a control-plane machine has not started the present static pods.
func (c *Observer) Settled(ctx context.Context, name string) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	pods := layout.Params{EtcdMode: c.Doc.Spec.Etcd.Mode}.StaticPods()
	args := []string{"settled"}
	for _, program := range slices.Sorted(maps.Keys(pods)) {
		args = append(args, program+"="+pods[program])
	}
	_, err = c.Dialer.Agent(ctx, h, nil, args...)
	return err
}

// serverPrograms are the programs of the control plane that share a release; etcd has its own.
const serverPrograms = "kube-apiserver kube-controller-manager kube-scheduler"

// Runs returns fail.NotReady while one of a control-plane machine's servers does not run or reports another release.
func (c *Observer) Runs(ctx context.Context, name, version string) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	out, err := c.Dialer.Run(ctx, h, nil, "sh", "-c", "for p in "+serverPrograms+"; do for i in $(pidof $p); do echo $p $(/proc/$i/exe --version); done; done")
	if err != nil {
		return err
	}
	return OfRelease(name, string(out), version)
}

// OfRelease checks the servers' own reports, one per line: "kube-scheduler Kubernetes v1.37.2".
func OfRelease(name, said, version string) error {
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

// lookAnew is how long to wait for members before listing the machines again, because others may have joined.
const lookAnew = 15 * time.Second

// WaitEtcd waits up to lookAnew until every voting member is healthy.
func (c *Observer) WaitEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookAnew)
	defer cancel()
	return c.WithEtcd(ctx, func(e *etcd.Client) error { return e.WaitHealthy(ctx, 1) })
}

// WaitServer waits until the API server on one machine is ready.
func (c *Observer) WaitServer(ctx context.Context, name string) error {
	client, err := c.KubeAt(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.WaitReady(ctx)
}

// status reports a running step's progress; p is nil outside of steps.
func status(p plan.Progress, format string, args ...any) {
	if p != nil {
		p.Status(format, args...)
	}
}
