package observe

import (
	"context"
	"errors"
	"path"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/judge"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// CheckFacts returns an error if a machine can't fill its role.
func (c *Observer) CheckFacts(s wanted.Slot, f machine.Facts) error {
	subject := judge.Subject{
		Name: s.Name, Role: s.Role, Given: c.Prov.Traits().Given, Adopted: c.Facts.Of(memory.Host, s.Name) != "", Ports: c.portsOf(s.Role),
		Boots: len(c.Doc.SettingsOf(string(s.Role), s.Pool).KernelArguments) > 0,
	}
	if c.Doc.Spec.Kubernetes.CNI == layout.CNIFlannel {
		subject.Network = path.Base(layout.FlannelConflistPath)
	}
	if given := c.Doc.Spec.Provider.Hosts; given != nil {
		for _, h := range given.Machines {
			if h.Name != s.Name {
				continue
			}
			subject.Address = h.Address
			if e := c.Doc.Spec.Endpoint; e.Kind == v1alpha1.EndpointGateways {
				subject.VIP = e.VIP
			}
		}
	}
	return c.Judge.Facts(subject, f)
}

// portsOf lists the TCP ports that a role needs.
func (c *Observer) portsOf(r provider.Role) []judge.Port {
	kubelet := []judge.Port{{Number: 10250, Of: "kubelet"}, {Number: 10248, Of: "kubelet", Local: true}}
	for _, port := range v1alpha1.AddonPorts(c.Doc) {
		kubelet = append(kubelet, judge.Port{Number: port, Of: "the metrics of an addon"})
	}
	switch r {
	case provider.Gateway:
		needs := []judge.Port{{Number: c.Doc.Spec.Endpoint.Port, Of: "the endpoint's HAProxy"}, {Number: 8404, Of: "HAProxy's health page", Local: true}}
		if c.Doc.Spec.Endpoint.IngressWanted() != nil {
			needs = append(needs, judge.Port{Number: v1alpha1.HTTPPort, Of: "ingress"}, judge.Port{Number: v1alpha1.HTTPSPort, Of: "ingress"})
		}
		return needs
	case provider.ControlPlane:
		return append([]judge.Port{
			{Number: connect.APIPort, Of: "kube-apiserver"}, {Number: 2379, Of: "etcd"}, {Number: 2380, Of: "etcd"}, {Number: 2381, Of: "etcd", Local: true},
			{Number: 10257, Of: "kube-controller-manager", Local: true}, {Number: 10259, Of: "kube-scheduler", Local: true},
		}, kubelet...)
	}
	return kubelet
}

// Unfit returns an error if wanted machines can't fill their roles: nothing begins before they can.
func (o *Observed) Unfit() error {
	var all []error
	for _, s := range o.Want {
		var no *unfitError
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &no) {
			all = append(all, no.error)
		}
	}
	if len(all) < 2 {
		return errors.Join(all...)
	}
	return fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "%d machines can't be used as they are", len(all))
}

// unfitError is the reason why a machine can't fill its role.
type unfitError struct{ error }

// Unwrap returns the reason.
func (e *unfitError) Unwrap() error { return e.error }

// examine reads a machine's facts, and refuses a machine that can't fill its role.
func (c *Observer) examine(ctx context.Context, s wanted.Slot) (machine.Facts, error) {
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return machine.Facts{}, err
	}
	f, err := c.Dialer.Facts(ctx, h)
	if err != nil {
		return f, c.NeverReached(s, err)
	}
	return f, c.fit(s, f)
}

// fit refuses a machine that can't fill its role.
func (c *Observer) fit(s wanted.Slot, f machine.Facts) error {
	if err := c.CheckFacts(s, f); err != nil {
		return &unfitError{err}
	}
	return nil
}

// UnreadyError is why a host that was never in use can't be used yet.
type UnreadyError struct{ error }

// Unwrap returns the reason.
func (e *UnreadyError) Unwrap() error { return e.error }

// NeverReached marks the error of a host that the document gives by address, that the cluster has not used yet, and whose agent has never answered:
// apply does not begin. A host that was in use may come back, and apply continues without it.
func (c *Observer) NeverReached(s wanted.Slot, err error) error {
	if !c.Prov.Traits().Given || c.Facts.Of(memory.Host, s.Name) != "" || fail.KindOf(err) == fail.Interrupted {
		return err
	}
	if fail.KindOf(err) == fail.Internal {
		err = fail.Wrap(fail.Refused, err, "the first contact failed")
	}
	return &UnreadyError{err}
}

// Unreached notes why a machine that its provider could not reach was not asked, and reports whether that is so.
func (c *Observer) Unreached(s wanted.Slot, seen *Seen) bool {
	if seen.Machine.State != provider.Unreachable {
		return false
	}
	seen.Err = c.NeverReached(s, fail.New(fail.Unreachable, "%s", seen.Machine.Detail))
	return true
}

// Unready reports the wanted machines that can't be used yet; nil if all can.
func (o *Observed) Unready() (all []error) {
	for _, s := range o.Want {
		var not *UnreadyError
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &not) {
			all = append(all, not.error)
		}
	}
	return all
}

// examineFresh examines the running machines whose configuration is not known yet. Without a bundle, it examines only new hosts that the document gives
// by address: a bundle takes long to fetch, and such a host may not be usable at all.
func (c *Observer) examineFresh(ctx context.Context, o *Observed) {
	var wg sync.WaitGroup
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		given := c.Prov.Traits().Given && c.Facts.Of(memory.Host, s.Name) == ""
		if seen == nil || c.CanRender(s) || c.Current == nil && !given || c.Unreached(s, seen) || seen.Machine.State != provider.Running {
			continue
		}
		wg.Go(func() { _, seen.Err = c.examine(ctx, s) })
	}
	wg.Wait()
}
