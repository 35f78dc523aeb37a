package openstack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// maxMakes bounds how often one step creates a server if Nova fails to build it.
const maxMakes = 2

// machinePlan returns the step that brings a machine from its observed state to running.
func (p *Provider) machinePlan(m provider.MachineSpec, seen provider.Machine, found bool) *plan.Step {
	t := p.opts.Timeouts
	shape := p.shape(m.Role, m.Pool)
	s := &plan.Step{
		ID: provider.MachineStep(m.Name), Action: plan.Create, Title: "boot machine " + m.Name, Subject: m.Name,
		Reason: "it does not exist", Timeout: t.Volume + maxMakes*t.Boot + t.Console + time.Minute,
		Details: []string{"server of flavor " + shape.Flavor + ", " + strings.ReplaceAll(marks.Shape(shape), ";", ", ")},
	}
	for _, v := range shape.Volumes {
		s.Details = append(s.Details, fmt.Sprintf("volume %s: %d GiB", v.Name, v.SizeGiB))
		s.Timeout += t.Volume
	}
	for _, n := range shape.Networks {
		s.Details = append(s.Details, "port in network "+n.Network)
	}
	makes := 0
	s.Run = func(ctx context.Context, progress plan.Progress) error {
		return p.ensureMachine(ctx, m, &makes, progress)
	}
	if shape.WantsFloatingIP() {
		s.Details, s.Needs = append(s.Details, "floating IP"), append(s.Needs, routerStep)
	}
	if !found {
		return s
	}
	s.Reason = "it is " + string(seen.State)
	if seen.Detail != "" {
		s.Reason += ": " + seen.Detail
	}
	switch {
	case seen.State == provider.Running:
		s.Action, s.Title, s.Reason, s.Details = plan.Change, "complete machine "+m.Name, strings.Join(p.incomplete(m), ", "), nil
	case seen.State != provider.Partial:
		s.Action, s.Title, s.Details = plan.Change, "start machine "+m.Name, nil
	}
	if lost := p.floating.Unwanted(m); len(lost) > 0 {
		s.Consent, s.Details = provider.ConsentAddresses, append(s.Details, lost...)
	}
	return s
}

// incomplete lists the missing and the surplus resources of a running machine.
func (p *Provider) incomplete(m provider.MachineSpec) []string {
	var out []string
	if lacks := p.floating.Lack(m); lacks != "" {
		out = append(out, lacks)
	}
	if len(p.serversOf(m.Name)) > 1 {
		out = append(out, "there is a duplicate server")
	}
	out = append(out, p.volumes.Lacks(m)...)
	if s, ok := p.serverOf(m.Name); ok && len(p.opts.HostKeys.Get(s.ID)) == 0 && !p.spec().TrustOnFirstUse {
		out = append(out, "its SSH host keys are not known")
	}
	return out
}

// ensureMachine carries out a machine's step: it adopts or removes half-made resources, creates missing ones, waits until the machine runs and
// reads its SSH host keys. makes counts the created servers over all attempts of the step.
func (p *Provider) ensureMachine(ctx context.Context, m provider.MachineSpec, makes *int, progress plan.Progress) error {
	k := &p.known
	if err := cache.Fresh(ctx, k.ports, k.servers, k.volumes, k.floating, k.serverGroups, k.groups); err != nil {
		return err
	}
	for {
		s, err := p.ensureServer(ctx, m, makes, progress)
		if err != nil {
			return err
		}
		if err := p.ensurePublic(ctx, m, progress); err != nil {
			return err
		}
		s, err = p.waitServer(ctx, m.Name, s.ID, progress)
		var failed *errFailed
		switch {
		case errors.As(err, &failed) && *makes < maxMakes:
			progress.Status("Nova failed, trying again: %s", failed.fault)
			continue
		case errors.As(err, &failed):
			return fail.New(fail.Refused, "Nova could not make its server: %s", failed.fault).At(m.Name).Do("%s", p.remedy(m, failed.fault))
		case err != nil:
			return err
		}
		if err := p.volumes.EnsureData(ctx, m, s, progress); err != nil {
			return err
		}
		return p.pinHostKeys(ctx, m.Name, s, progress)
	}
}

// ensureServer returns the machine's server, and creates it if necessary. It first removes duplicates, and a server that never ran if it is in
// ERROR or its shape differs from the wanted one.
func (p *Provider) ensureServer(ctx context.Context, m provider.MachineSpec, makes *int, progress plan.Progress) (servers.Server, error) {
	s, ok := p.serverOf(m.Name)
	var rest []servers.Server
	for _, o := range p.serversOf(m.Name) {
		bad := o.ID != s.ID || halfMade(o) && (o.Status == serverError || len(marks.Drift(o.Metadata[marks.Underscored(marks.KeyShape)], p.shape(m.Role, m.Pool))) > 0)
		if bad {
			rest = append(rest, o)
			ok = ok && o.ID != s.ID
		}
	}
	if err := p.removeServers(ctx, rest, progress); err != nil {
		return s, err
	}
	if ok {
		return s, nil
	}
	if err := cache.Fresh(ctx, p.known.volumes, p.known.ports); err != nil {
		return s, err
	}
	if len(p.portsOf(m.Name)) == 0 { // removed together with the machine that this one replaces
		if err := p.ensurePorts(ctx, []provider.MachineSpec{m}, progress); err != nil {
			return s, err
		}
	}
	*makes++
	s, err := p.createServer(ctx, m, progress)
	var held *volume.HeldError
	if errors.As(err, &held) { // Nova shows its server now, or will soon
		*makes--
		return p.ensureServer(ctx, m, makes, progress)
	}
	return s, err
}

// ensurePublic assigns a machine its floating IP if its shape asks for one, and removes it otherwise.
func (p *Provider) ensurePublic(ctx context.Context, m provider.MachineSpec, progress plan.Progress) error {
	if !p.shape(m.Role, m.Pool).WantsFloatingIP() {
		return p.floating.Remove(ctx, p.floating.OfMachine(m.Name))
	}
	port, ok := p.portOf(m.Name)
	if !ok {
		return fail.New(fail.NotReady, "its port is not made yet").At(m.Name)
	}
	progress.Status("floating IP")
	_, err := p.floating.Ensure(ctx, port.ID, p.n.Tags(m))
	return err
}

// remedy suggests what to do about a server that Nova fails to build.
func (p *Provider) remedy(m provider.MachineSpec, fault string) string {
	if !strings.Contains(fault, "No valid host") {
		return "see openstack server show, and the cloud's operators; apply again recreates it"
	}
	out := "no hypervisor has room for flavor " + p.shape(m.Role, m.Pool).Flavor
	if z := existing.Zone(p.shape(m.Role, m.Pool), m.Index); z != "" {
		out += " in zone " + z
	}
	if p.shape(m.Role, m.Pool).AntiAffinity == "hard" {
		out += " that holds no other machine of its kind: antiAffinity soft would allow for one that does"
	}
	return out
}

// switchOn starts the action that brings a server from its current state to ACTIVE; it returns false if there is none and the caller can only wait.
func (p *Provider) switchOn(ctx context.Context, s servers.Server) (bool, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return false, err
	}
	switch s.Status {
	case serverShutoff:
		err = servers.Start(ctx, c.Compute, s.ID).ExtractErr()
	case "PAUSED":
		err = servers.Unpause(ctx, c.Compute, s.ID).ExtractErr()
	case "SUSPENDED":
		err = servers.Resume(ctx, c.Compute, s.ID).ExtractErr()
	case "SHELVED", "SHELVED_OFFLOADED":
		err = servers.Unshelve(ctx, c.Compute, s.ID, servers.UnshelveOpts{}).ExtractErr()
	default:
		return false, nil
	}
	if cloud.Status(err) == 409 { // already changing its state
		return false, nil
	}
	return err == nil, cloud.Wrap(err, "start server %s (%s)", s.Name, s.ID)
}

// Power starts ("on") or stops a machine's server, and waits until Nova reports that state. Nova asks the server to shut down and powers it
// off after a timeout (os_shutdown_timeout of the image, 60 seconds by default). Nova has no immediate power-off, so "kill" equals "off" here.
func (p *Provider) Power(ctx context.Context, name, state string) error {
	if err := cache.Fresh(ctx, p.known.servers, p.known.ports); err != nil {
		return err
	}
	s, ok := p.serverOf(name)
	if !ok {
		return p.noMachine(name)
	}
	switch state {
	case "on":
		_, err := p.waitServer(ctx, name, s.ID, silent{})
		return err
	case "off", "kill":
		return p.switchOff(ctx, s)
	}
	return fail.New(fail.Invalid, "power %q: say on, off or kill", state).At(name)
}

func (p *Provider) switchOff(ctx context.Context, s servers.Server) error {
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	if s.Status == serverActive {
		if err := servers.Stop(ctx, c.Compute, s.ID).ExtractErr(); err != nil && cloud.Status(err) != 409 {
			return cloud.Wrap(err, "stop server %s (%s)", s.Name, s.ID)
		}
	}
	limit := time.Now().Add(p.opts.Timeouts.Boot)
	for {
		if err := p.known.servers.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
			return err
		}
		now, ok := p.known.servers.Find(func(o servers.Server) bool { return o.ID == s.ID })
		switch {
		case !ok || now.Status == serverShutoff:
			return nil
		case time.Now().After(limit):
			return fail.New(fail.NotReady, "its server %s is still %s", s.ID, stateText(now)).At(s.Name)
		}
	}
}

// silent is a plan.Progress that discards its messages.
type silent struct{}

// Status says nothing.
func (silent) Status(string, ...any) {}

// maxUserData is Nova's limit for user-data, in characters of base64.
const maxUserData = 65535

// encodeUserData encodes user-data for Nova; it returns fail.Refused if the result is too long.
func encodeUserData(m provider.MachineSpec) ([]byte, error) {
	text := base64.StdEncoding.EncodeToString(m.UserData)
	if len(text) > maxUserData {
		return nil, fail.New(fail.Refused, "its user-data is %d characters long in base64, OpenStack takes at most %d", len(text), maxUserData).
			At(m.Name).Do("give fewer keys in spec.access.sshKeys")
	}
	return []byte(text), nil
}
