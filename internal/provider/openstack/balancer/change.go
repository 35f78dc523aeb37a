package balancer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Provisioning states of Octavia. Operating states are ignored, because they describe the health of the members.
const (
	Active  = "ACTIVE"
	Broken  = "ERROR"
	Deleted = "DELETED"
)

// errBroken reports that a load balancer is in ERROR and can only be deleted.
var errBroken = errors.New("load balancer is in state ERROR")

// immutable reports whether Octavia refuses a change or a deletion because another change is in progress.
func immutable(err error) bool {
	text := strings.ToLower(err.Error())
	return cloud.Status(err) == http.StatusConflict && (strings.Contains(text, "immutable") || strings.Contains(text, "invalid state pending"))
}

// Change makes one change to the load balancer and waits until it is carried out. Octavia accepts one change at a time; if another one is in
// progress, Change waits for it first.
func (k *Keeper) Change(
	ctx context.Context, c *gophercloud.ServiceClient, lbID, what string, progress plan.Progress, call func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeouts.Boot)
	defer cancel()
	for {
		progress.Status("%s", what)
		err := call(ctx)
		switch {
		case err == nil:
			return k.settle(ctx, c, lbID, what, progress)
		case !immutable(err):
			return cloud.Wrap(err, "%s", what)
		}
		if err := k.settle(ctx, c, lbID, what, progress); err != nil {
			return err
		}
		progress.Status("%s: the load balancer takes no change yet", what)
		// The change in progress may be this very one, begun by an earlier call whose answer was lost, or that of a child which lags behind.
		if err := cloud.Sleep(ctx, k.opts.Timeouts.Poll); err != nil {
			return k.stuck(ctx, c, lbID, what)
		}
	}
}

// settle waits until the load balancer is ACTIVE; it returns errBroken for ERROR. The error of a timeout names the pending parts.
func (k *Keeper) settle(ctx context.Context, c *gophercloud.ServiceClient, lbID, what string, progress plan.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeouts.Boot)
	defer cancel()
	pause := min(k.opts.Timeouts.Poll, 300*time.Millisecond)
	var last *loadbalancers.LoadBalancer
	for {
		lb, err := loadbalancers.Get(ctx, c, lbID).Extract()
		switch {
		case cloud.Interrupted(err) && last != nil:
			return k.notSettled(ctx, c, last, what)
		case err != nil:
			return cloud.Wrap(err, "look at load balancer %s", lbID)
		case lb.ProvisioningStatus == Active:
			return nil
		case lb.ProvisioningStatus == Broken:
			return fail.Wrap(fail.Refused, errBroken, "%s: load balancer %s%s", what, lb.Name, k.pending(ctx, c, lb.ID, Broken)).At(lbID).
				Do("Octavia keeps the reason to itself: ask the cloud's operator")
		}
		last = lb
		progress.Status("%s: load balancer is %s", what, lb.ProvisioningStatus)
		if cloud.Sleep(ctx, pause) != nil {
			return k.notSettled(ctx, c, last, what)
		}
		pause = min(pause*3/2, k.opts.Timeouts.Poll)
	}
}

// notSettled returns the error of a wait that timed out or was stopped.
func (k *Keeper) notSettled(ctx context.Context, c *gophercloud.ServiceClient, lb *loadbalancers.LoadBalancer, what string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fail.Wrap(fail.Interrupted, context.Cause(ctx), "%s", what).At(lb.Name)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // a last call to name the pending parts
	defer cancel()
	return fail.New(fail.NotReady, "%s: load balancer %s is still %s%s",
		what, lb.Name, lb.ProvisioningStatus, k.pending(late, c, lb.ID, "PENDING")).At(lb.ID).
		Do("apply again to go on waiting; if it stays so, ask the cloud's operator")
}

// stuck returns the error for a load balancer that is ACTIVE but refuses changes.
func (k *Keeper) stuck(ctx context.Context, c *gophercloud.ServiceClient, lbID, what string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fail.Wrap(fail.Interrupted, context.Cause(ctx), "%s", what).At(lbID)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return fail.New(fail.NotReady, "%s: load balancer %s takes no change%s", what, lbID, k.pending(late, c, lbID, "PENDING")).
		Do("if it stays so, delete it (openstack loadbalancer delete --cascade %s) and apply again", lbID)
}

// pending lists the parts of a load balancer whose state has the given prefix, as " (listener x PENDING_UPDATE, …)". It is empty if there are
// none or the call fails: the list only adds detail to an error.
func (k *Keeper) pending(ctx context.Context, c *gophercloud.ServiceClient, lbID, state string) string {
	tree, err := loadbalancers.GetStatuses(ctx, c, lbID).Extract()
	if err != nil || tree.Loadbalancer == nil {
		return ""
	}
	var out []string
	add := func(kind, name, s string) {
		if strings.HasPrefix(s, state) {
			out = append(out, kind+" "+name+" "+s)
		}
	}
	for _, l := range tree.Loadbalancer.Listeners {
		add("listener", l.Name, l.ProvisioningStatus)
		for _, pool := range l.Pools {
			add("pool", pool.Name, pool.ProvisioningStatus)
			add("monitor", pool.Monitor.Name, pool.Monitor.ProvisioningStatus)
			for _, m := range pool.Members {
				add("member", m.Name, m.ProvisioningStatus)
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return " (" + strings.Join(slices.Compact(out), ", ") + ")"
}
