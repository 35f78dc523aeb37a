package dns

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/recordsets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// StepID is the ID of the step that Step returns.
const StepID = "dns-record"

// Values of a record's status and action.
const (
	active   = "ACTIVE"
	deleting = "DELETE"
)

// Step returns the step that creates, changes or removes the API's record; nil if it is as wanted and there are no needs. It waits for needs,
// which are steps of the plan that may change the API's address.
func (k *Keeper) Step(ctx context.Context, needs ...string) (*plan.Step, error) {
	s := &plan.Step{
		ID: StepID, Action: plan.Change, Title: "change the DNS record of the API's name", Subject: "cluster", Needs: needs, Apart: true, Timeout: k.opts.Step,
		Run: k.run,
	}
	mine, others := k.own()
	for _, r := range others {
		s.Reason, s.Details = "it is no longer wanted", append(s.Details, "remove "+describe(r)+" from zone "+bare(r.ZoneName))
	}
	if k.opts.DNS == nil {
		if s.Title = "remove the DNS record of the API's name"; len(others) == 0 {
			return nil, nil
		}
		return s, nil
	}
	address, err := k.address(ctx)
	if err != nil && fail.KindOf(err) != fail.NotReady {
		return nil, err
	}
	if len(mine) == 0 {
		s.Action, s.Title, s.Reason = plan.Create, "create the DNS record of the API's name", "it does not exist"
	} else if lack := k.lack(mine[0], address); lack != "" {
		s.Reason = lack
	} else if len(others) == 0 && len(needs) == 0 {
		return nil, nil
	} else if s.Reason == "" {
		s.Reason = "the API's address may change before"
	}
	if address == "" {
		address = "the API's address"
	}
	s.Details = append(s.Details, fmt.Sprintf("%s leads to %s, for %d s, in zone %s", bare(k.host()), address, k.opts.DNS.Seconds(), bare(k.opts.DNS.ZoneName())))
	return s, nil
}

// own splits the cluster's records: those at the wanted place, of which one is left in the end, and the others.
func (k *Keeper) own() (mine, others []recordsets.RecordSet) {
	for _, r := range k.records.All() {
		if k.opts.DNS != nil && r.Name == k.host() && r.ZoneName == k.opts.DNS.ZoneName() && r.Action != deleting {
			mine = append(mine, r)
		} else {
			others = append(others, r)
		}
	}
	return mine, others
}

// lack describes how a record at the wanted place differs; empty if it does not. An empty address is not known yet.
func (k *Keeper) lack(r recordsets.RecordSet, address string) string {
	ttl := k.opts.DNS.Seconds()
	switch {
	case address == "":
		return "the API's address is not known yet"
	case r.Type != kindOf(address) || !slices.Equal(r.Records, []string{address}):
		return "it leads to " + strings.Join(r.Records, ", ") + ", the API's address is " + address
	case r.TTL != ttl:
		return fmt.Sprintf("resolvers may keep it for %d s, %d s are wanted", r.TTL, ttl)
	case r.Status != active:
		return "Designate says that it is " + r.Status
	}
	return ""
}

// run makes the record what it should be, and waits until Designate's name servers have it.
func (k *Keeper) run(ctx context.Context, progress plan.Progress) error {
	if err := k.records.Fresh(ctx); err != nil {
		return err
	}
	client, err := k.client(ctx)
	if err != nil {
		return err
	}
	for {
		address, err := "", error(nil)
		if k.opts.DNS != nil {
			if address, err = k.address(ctx); err != nil {
				return err
			}
			if err := k.ensure(ctx, client, address); err != nil {
				return err
			}
		}
		if err := k.removeOthers(ctx, client, address); err != nil {
			return err
		}
		wait := k.pending(address)
		if wait == "" {
			return nil
		}
		progress.Status("%s", wait)
		if err := cloud.Sleep(ctx, k.opts.Poll); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "wait for Designate: %s", wait)
		}
		if err := k.records.Load(ctx); err != nil {
			return err
		}
	}
}

// pending says what is still to be waited for; empty if nothing is.
func (k *Keeper) pending(address string) string {
	mine, others := k.own()
	for _, r := range others {
		return describe(r) + " is being removed (" + r.Status + ")"
	}
	for _, r := range mine {
		if lack := k.lack(r, address); lack != "" {
			return describe(r) + ": " + lack
		}
	}
	if k.opts.DNS != nil && len(mine) == 0 {
		return "the record has vanished"
	}
	return ""
}

// ensure creates the record, or changes it.
func (k *Keeper) ensure(ctx context.Context, client *gophercloud.ServiceClient, address string) error {
	mine, others := k.own()
	ttl := k.opts.DNS.Seconds()
	for _, r := range mine {
		if r.Type != kindOf(address) {
			continue
		}
		if r.TTL == ttl && slices.Equal(r.Records, []string{address}) {
			return nil
		}
		got, err := recordsets.Update(ctx, client, r.ZoneID, r.ID, recordsets.UpdateOpts{TTL: &ttl, Records: []string{address}}).Extract()
		if err != nil {
			k.records.Invalidate()
			return cloud.Wrap(err, "change DNS record %s", describe(r))
		}
		k.records.Keep(*got)
		return nil
	}
	for _, r := range others {
		if r.Name == k.host() && r.ZoneName == k.opts.DNS.ZoneName() && r.Type == kindOf(address) {
			return fail.New(fail.NotReady, "Designate still removes the former DNS record %s", describe(r))
		}
	}
	zone, err := k.zone(ctx, client)
	if err != nil {
		return err
	}
	if err := k.vacant(ctx, client, zone); err != nil {
		return err
	}
	got, err := recordsets.Create(ctx, client, zone.ID, recordsets.CreateOpts{
		Name: k.host(), Type: kindOf(address), Records: []string{address}, TTL: ttl, Description: k.opts.Names.Mark(),
	}).Extract()
	if err == nil {
		k.records.Keep(*got)
		return nil
	}
	k.records.Invalidate() // a killed run's request may have been carried out by now
	err = cloud.Wrap(err, "create DNS record %s in zone %s", bare(k.host()), bare(zone.Name))
	if cloud.Status(err) == http.StatusConflict {
		if loadErr := k.records.Load(ctx); loadErr != nil {
			return loadErr
		}
		if now, _ := k.own(); len(now) > len(mine) {
			return nil
		}
		if taken := k.vacant(ctx, client, zone); taken != nil {
			return taken
		}
	}
	return err
}

// removeOthers removes the cluster's records that are not wanted.
func (k *Keeper) removeOthers(ctx context.Context, client *gophercloud.ServiceClient, address string) error {
	mine, others := k.own()
	for _, r := range mine {
		if r.Type != kindOf(address) {
			others = append(others, r)
		}
	}
	return k.remove(ctx, client, others)
}

// remove asks Designate to remove records. They are listed until its name servers have dropped them.
func (k *Keeper) remove(ctx context.Context, client *gophercloud.ServiceClient, all []recordsets.RecordSet) error {
	for _, r := range all {
		if r.Action == deleting {
			continue
		}
		err := recordsets.Delete(ctx, client, r.ZoneID, r.ID).ExtractErr()
		switch {
		case cloud.Gone(err):
			k.records.Drop(r.ID)
		case err != nil:
			k.records.Invalidate()
			return cloud.Wrap(err, "remove DNS record %s", describe(r))
		default:
			k.records.Change(r.ID, func(r *recordsets.RecordSet) { r.Action, r.Status = deleting, "PENDING" })
		}
	}
	return nil
}

// Remove asks Designate to remove all records of the cluster. The next Observe shows those that are not gone yet.
func (k *Keeper) Remove(ctx context.Context) error {
	if err := k.records.Fresh(ctx); err != nil {
		return err
	}
	all := k.records.All()
	if len(all) == 0 {
		return nil
	}
	client, err := k.client(ctx)
	if err != nil {
		return err
	}
	return k.remove(ctx, client, all)
}

// client returns the client of Designate, or an error if the cloud has none.
func (k *Keeper) client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	return c.DNS()
}
