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

// Provisioning states of Octavia. Operating states are not looked at: they tell how the machines behind are doing.
const (
	Active  = "ACTIVE"
	Broken  = "ERROR"
	Deleted = "DELETED"
)

// errBroken says that Octavia gave a load balancer up: it can only be deleted.
var errBroken = errors.New("load balancer is in state ERROR")

// immutable reports whether Octavia refuses a change, or a deletion, because it still carries out another one.
func immutable(err error) bool {
	text := strings.ToLower(err.Error())
	return cloud.Status(err) == http.StatusConflict && (strings.Contains(text, "immutable") || strings.Contains(text, "invalid state pending"))
}

// Change makes one change to the load balancer and waits until it is carried out. Octavia takes one change at a time: where it
// refuses because another one is under way, that one is waited for.
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
		// It may be the very change that the last call, cut off on its way back, began; or a child that is behind.
		if err := cloud.Sleep(ctx, k.opts.Timeouts.Poll); err != nil {
			return k.stuck(ctx, c, lbID, what)
		}
	}
}

// settle waits until the load balancer is ACTIVE; errBroken where it gets ERROR. The error at the end names what is pending.
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

// notSettled says what a wait that ran out of time, or was stopped, was for.
func (k *Keeper) notSettled(ctx context.Context, c *gophercloud.ServiceClient, lb *loadbalancers.LoadBalancer, what string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fail.Wrap(fail.Interrupted, context.Cause(ctx), "%s", what).At(lb.Name)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // what is pending is worth a last call
	defer cancel()
	return fail.New(fail.NotReady, "%s: load balancer %s is still %s%s",
		what, lb.Name, lb.ProvisioningStatus, k.pending(late, c, lb.ID, "PENDING")).At(lb.ID).
		Do("apply again to go on waiting; if it stays so, ask the cloud's operator")
}

// stuck says what keeps a load balancer that is ACTIVE from being changed.
func (k *Keeper) stuck(ctx context.Context, c *gophercloud.ServiceClient, lbID, what string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fail.Wrap(fail.Interrupted, context.Cause(ctx), "%s", what).At(lbID)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return fail.New(fail.NotReady, "%s: load balancer %s takes no change%s", what, lbID, k.pending(late, c, lbID, "PENDING")).
		Do("if it stays so, delete it (openstack loadbalancer delete --cascade %s) and apply again", lbID)
}

// pending lists what of a load balancer is in a state that begins so, as " (listener x PENDING_UPDATE, …)". Empty where nothing is, or
// where it can't be told: it is only more about a failure.
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
