package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// CheckFacts refuses machines that can't be what they should be, before anything is changed on them.
func (c *Observer) CheckFacts(s wanted.Slot, f machine.Facts) error {
	if !f.Systemd {
		return fail.New(fail.Refused, "its first process is not systemd").At(s.Name).Do("use a Debian or Ubuntu host that systemd runs")
	}
	if !f.Dpkg {
		return fail.New(fail.Refused, "its operating system (%s) has no Debian packages", f.OS).At(s.Name).
			Do("use Debian or Ubuntu; Fedora CoreOS, Flatcar and the like can't be machines of a cluster yet")
	}
	if f.Hostname != s.Name && !c.Prov.Traits().Given {
		return fail.New(fail.Conflict, "its hostname is %q", f.Hostname).At(s.Name).Do("another machine answers at this address, or its hostname was changed")
	}
	if f.Fresh {
		if err := checkRoom(s, f, time.Now()); err != nil {
			return err
		}
	}
	return c.checkPorts(s, f)
}

const nodeDisk = 3 << 30 // bytes: programs, images, and what they become when they run

const gatewayDisk = 512 << 20 // bytes: programs and packages

const clockSkew = 5 * time.Minute // by which its clock may differ from ours: certificates are valid from a little before they were made

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
		return fail.New(fail.Refused, "its clock says %s, which differs from this host's by %s", f.Clock.UTC().Format(time.RFC3339), skew.Abs().Round(time.Second)).At(s.Name).
			Do("set it: timedatectl set-ntp true on %s; or correct this host's clock, if that is wrong", s.Name)
	}
	return nil
}

// portNeed is a TCP port that a role needs.
type portNeed struct {
	port  int
	who   string // what listens there
	local bool   // on the loopback address alone
}

// portsOf lists the TCP ports that a role cannot do without.
func (c *Observer) portsOf(r provider.Role) []portNeed {
	kubelet := []portNeed{{10250, "kubelet", false}, {10248, "kubelet", true}}
	switch r {
	case provider.Gateway:
		needs := []portNeed{{c.Doc.Spec.Endpoint.Port, "the endpoint's HAProxy", false}, {8404, "HAProxy's health page", true}}
		if c.Doc.Spec.Endpoint.IngressWanted() != nil {
			needs = append(needs, portNeed{v1alpha1.HTTPPort, "ingress", false}, portNeed{v1alpha1.HTTPSPort, "ingress", false})
		}
		return needs
	case provider.ControlPlane:
		return append([]portNeed{
			{connect.APIPort, "kube-apiserver", false}, {2379, "etcd", false}, {2380, "etcd", false}, {2381, "etcd", true},
			{10257, "kube-controller-manager", true}, {10259, "kube-scheduler", true},
		}, kubelet...)
	}
	return kubelet
}

// checkPorts refuses a machine that is not configured yet where another program listens on a port that its role needs.
func (c *Observer) checkPorts(s wanted.Slot, f machine.Facts) error {
	var taken, stop []string
	for _, need := range c.portsOf(s.Role) {
		for _, l := range f.Listeners {
			if l.Port != need.port || need.local && l.Address != "0.0.0.0" && l.Address != "::" && l.Address != "127.0.0.1" {
				continue
			}
			taken = append(taken, fmt.Sprintf("port %d, which %s needs, is in use by %s", need.port, need.who, listener(l)))
			if advice := evict(l); !strings.Contains(strings.Join(stop, "; "), advice) {
				stop = append(stop, advice)
			}
			break // it may listen on several addresses
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "%s", strings.Join(taken, "; ")).At(s.Name).
		Do("nothing was changed on it; on %s, %s, or give the program another port; then apply again", s.Name, strings.Join(stop, "; "))
}

// listener names the process behind a port.
func listener(l machine.Listener) string {
	switch {
	case l.PID == 0:
		return "the kernel or a process of another container"
	case l.Unit != "":
		return fmt.Sprintf("%s (process %d of %s)", l.Process, l.PID, l.Unit)
	}
	return fmt.Sprintf("%s (process %d)", l.Process, l.PID)
}

// evict says how to make a program let go of its port.
func evict(l machine.Listener) string {
	switch {
	case l.PID == 0:
		return fmt.Sprintf("find out what uses it: ss -ltnp sport = :%d", l.Port)
	case l.Unit != "":
		return "systemctl disable --now " + l.Unit
	case l.PID == 1:
		return "disable the socket unit: systemctl list-sockets names it"
	}
	return fmt.Sprintf("stop process %d", l.PID)
}

// Unfit reports which of the wanted machines can't be what they should be: nothing is begun before that is mended.
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

// unfitError is why a machine can't be what it should be.
type unfitError struct{ error }

// Unwrap returns the reason.
func (e *unfitError) Unwrap() error { return e.error }

// examine asks a machine what it is and refuses it where it can't be what it should be.
func (c *Observer) examine(ctx context.Context, s wanted.Slot) (machine.Facts, error) {
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return machine.Facts{}, err
	}
	f, err := c.Dialer.Facts(ctx, h)
	if err != nil {
		return f, c.NeverReached(s, err)
	}
	if err := c.CheckFacts(s, f); err != nil {
		return f, &unfitError{err}
	}
	return f, nil
}

// UnreadyError is why a host that was never in use can't be used yet.
type UnreadyError struct{ error }

// Unwrap returns the reason.
func (e *UnreadyError) Unwrap() error { return e.error }

// NeverReached marks the error of a host that is given by address, was not in use before, and failed before the agent's first answer: the document
// is wrong about it, or it is not ready, and apply does not begin. A host that was in use may come back, and apply continues without it.
func (c *Observer) NeverReached(s wanted.Slot, err error) error {
	holds := slices.Contains([]fail.Kind{fail.Unreachable, fail.Unauthorized, fail.Refused}, fail.KindOf(err))
	if !holds || !c.Prov.Traits().Given || c.Facts.Of(memory.Host, s.Name) != "" {
		return err
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

// Unready reports which of the wanted machines can't be used yet; nil where all can.
func (o *Observed) Unready() (all []error) {
	for _, s := range o.Want {
		var not *UnreadyError
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &not) {
			all = append(all, not.error)
		}
	}
	return all
}

// examineFresh examines the running machines whose configuration can't be known yet.
func (c *Observer) examineFresh(ctx context.Context, o *Observed) {
	var wg sync.WaitGroup
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		if seen == nil || c.CanRender(s) || c.Current == nil || c.Unreached(s, seen) || seen.Machine.State != provider.Running {
			continue
		}
		wg.Go(func() { _, seen.Err = c.examine(ctx, s) })
	}
	wg.Wait()
}
