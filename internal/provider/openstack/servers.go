package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// States of a server, as Nova calls them.
const (
	serverActive  = "ACTIVE"
	serverBuild   = "BUILD"
	serverError   = "ERROR"
	serverShutoff = "SHUTOFF"
	serverDeleted = "DELETED"
)

// serversOf lists the servers of a machine: one, or more after an interrupted run. It omits servers that are being deleted, which Nova still
// lists for a moment.
func (p *Provider) serversOf(machine string) []servers.Server {
	return p.known.servers.Filter(isServerOf(machine))
}

// isServerOf returns a filter for the servers of a machine that are not being deleted.
func isServerOf(machine string) func(servers.Server) bool {
	return func(s servers.Server) bool {
		return s.Metadata[marks.Underscored(marks.KeyMachine)] == machine && s.Status != serverDeleted && s.TaskState != "deleting"
	}
}

// serverOf returns the server of a machine: if there are several, the one with the machine's port, else one that is not in ERROR.
func (p *Provider) serverOf(machine string) (servers.Server, bool) {
	all := p.serversOf(machine)
	if len(all) == 0 {
		return servers.Server{}, false
	}
	port, _ := p.portOf(machine)
	s, _ := cache.Best(all, func(s servers.Server) int {
		switch {
		case s.ID == port.DeviceID:
			return 2
		case s.Status != serverError:
			return 1
		}
		return 0
	})
	return s, true
}

// halfMade reports whether a server never ran, so that its removal loses no data.
func halfMade(s servers.Server) bool {
	return s.LaunchedAt.IsZero() && (s.Status == serverBuild || s.Status == serverError)
}

// faultOf returns Nova's reason why a server failed.
func faultOf(s servers.Server) string {
	if s.Fault.Message == "" {
		return "Nova gives no reason"
	}
	return cloud.OneLine(s.Fault.Message)
}

// createServer requests a machine's server from Nova. Its port must exist; createServer makes its root volume if it has one.
func (p *Provider) createServer(ctx context.Context, m provider.MachineSpec, progress plan.Progress) (servers.Server, error) {
	shape := p.shape(m.Role, m.Pool)
	data, err := encodeUserData(m)
	if err != nil {
		return servers.Server{}, err
	}
	flavor, err := p.existing.Flavor(ctx, shape.Flavor)
	if err != nil {
		return servers.Server{}, err
	}
	port, ok := p.portOf(m.Name)
	if !ok {
		return servers.Server{}, fail.New(fail.NotReady, "its port is not made yet").At(m.Name)
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return servers.Server{}, err
	}
	nics, err := ensureNICs(ctx, p, m)
	if err != nil {
		return servers.Server{}, err
	}
	meta := p.n.Metadata(m)
	meta[marks.Underscored(marks.KeyShape)] = marks.Shape(shape)
	o := servers.CreateOpts{
		Name: m.Name, FlavorRef: flavor.ID, UserData: data, AvailabilityZone: existing.Zone(shape, m.Index), ConfigDrive: shape.ConfigDrive,
		Networks: append([]servers.Network{{Port: port.ID}}, nics...), Metadata: meta, Tags: p.n.ServerTags(),
	}
	if shape.RootVolume() > 0 {
		v, err := p.volumes.Ensure(ctx, m, progress)
		if err != nil {
			return servers.Server{}, err
		}
		o.BlockDevice = []servers.BlockDevice{{
			UUID: v.ID, SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, DeleteOnTermination: true,
		}}
	} else {
		image, err := p.existing.Image(ctx, shape.Image)
		if err != nil {
			return servers.Server{}, err
		}
		o.ImageRef = image.ID
		// An interrupted run may have left a volume that is no longer wanted.
		if err := p.volumes.Remove(ctx, p.volumes.RootsOf(m.Name), progress); err != nil {
			return servers.Server{}, err
		}
	}
	var hints servers.SchedulerHintOptsBuilder
	if g := p.serverGroup(m); g != "" {
		hints = servers.SchedulerHintOpts{Group: g}
	}
	progress.Status("requesting the server")
	s, err := servers.Create(ctx, c.Compute, p.withKey(o), hints).Extract()
	if there, ok, err := cache.Late(ctx, p.known.servers, err, isServerOf(m.Name)); ok || err != nil {
		return there, err // it holds the machine's only port and volume
	}
	if err != nil && len(o.BlockDevice) > 0 {
		if err := p.volumes.TakenLate(ctx, o.BlockDevice[0].UUID, m.Name); err != nil {
			return servers.Server{}, err
		}
	}
	if err == nil { // Nova's answer contains little more than the ID
		s.Name, s.Status, s.Metadata = m.Name, serverBuild, meta
	}
	return cache.Made(p.known.servers, s, err, "make the server of %s", m.Name)
}

// withKey adds the keypair if there is one.
func (p *Provider) withKey(o servers.CreateOpts) servers.CreateOptsBuilder {
	if p.opts.PublicKey == "" {
		return o
	}
	return keypairs.CreateOptsExt{CreateOptsBuilder: o, KeyName: p.n.Name()}
}

// errFailed reports a server that Nova could not build.
type errFailed struct{ fault string }

// Error returns Nova's words.
func (e *errFailed) Error() string { return e.fault }

// waitServer waits until a server runs, and switches it on if it is off. It returns *errFailed for a server in ERROR that never ran.
func (p *Provider) waitServer(ctx context.Context, machine, id string, progress plan.Progress) (servers.Server, error) {
	limit := time.Now().Add(p.opts.Timeouts.Boot)
	started := ""
	for {
		s, ok := p.known.servers.Find(func(s servers.Server) bool { return s.ID == id })
		switch {
		case !ok || s.Status == serverDeleted || s.TaskState == "deleting":
			p.known.servers.Invalidate()
			return s, fail.New(fail.NotReady, "its server %s was deleted while it was waited for", id).At(machine)
		case s.Status == serverActive && s.TaskState == "":
			return s, nil
		case s.Status == serverError && halfMade(s):
			return s, &errFailed{faultOf(s)}
		case s.Status == serverError:
			return s, fail.New(fail.Refused, "its server %s is in state ERROR: %s", id, faultOf(s)).At(machine).
				Do("see openstack server show; if it can't be saved: naupegos node replace %s %s", p.n.Cluster, machine)
		case time.Now().After(limit):
			return s, fail.New(fail.Refused, "its server %s is %s, not ACTIVE, after %s", id, stateText(s), p.opts.Timeouts.Boot).At(machine).
				Do("see openstack server show; apply again waits longer, spec.timeouts.machineBoot says how long")
		}
		progress.Status("server is %s", stateText(s))
		if s.Status != started && s.TaskState == "" {
			switched, err := p.switchOn(ctx, s)
			if err != nil {
				return s, err
			}
			if switched {
				started = s.Status
			}
		}
		var look cache.Probe
		pause := p.opts.Timeouts.Poll
		if s.Status == serverBuild {
			look = p.glanceAtBuilding
			pause *= time.Duration(1 + len(p.known.servers.Filter(isBuilding))/manyAtOnce) // many servers make each poll expensive, and the cloud slow
		}
		if err := p.known.servers.Next(ctx, pause, look); err != nil {
			return s, err
		}
	}
}

// manyAtOnce is the number of concurrently built servers from which on the polls become less frequent.
const manyAtOnce = 10

func isBuilding(s servers.Server) bool { return s.Status == serverBuild }

// Bounds of clock differences. A larger difference makes a probe miss a change, and a full list follows. clockSkew: how far the cloud's clock may
// be behind ours until the cloud has sent its time. ownClockSkew: between the cloud's own machines.
const (
	clockSkew    = 10 * time.Second
	ownClockSkew = 4 * time.Second // includes the truncation of Date to seconds, and a server that ran before Nova answered its request
)

// glanceAtBuilding is a cache.Probe that updates the servers which were in BUILD and run by now. news reports that others left BUILD without
// running; all, that any left it. For servers with details, Nova asks Neutron for their ports and security groups, so glanceAtBuilding requests
// the details of changed servers only.
func (p *Provider) glanceAtBuilding(ctx context.Context, since time.Time) (news, all bool, err error) {
	known := p.known.servers.Filter(isBuilding)
	building, now, err := p.serverIDs(ctx, servers.ListOpts{Tags: p.n.ServerTag(), Status: serverBuild})
	if err != nil {
		return false, false, err
	}
	since = since.Add(-clockSkew)
	if !p.glanced.IsZero() {
		since = p.glanced
	}
	p.glanced = now
	built := slices.DeleteFunc(known, func(s servers.Server) bool { return building[s.ID] })
	if len(built) == 0 {
		return false, false, nil
	}
	running, err := p.serverDetails(ctx, servers.ListOpts{Status: serverActive, ChangesSince: since.UTC().Format(time.RFC3339)})
	for _, s := range built {
		i := slices.IndexFunc(running, func(o servers.Server) bool { return o.ID == s.ID })
		if i < 0 {
			news = true
			continue
		}
		p.known.servers.Change(s.ID, func(s *servers.Server) { *s = running[i] })
	}
	return news, true, err
}

// glanceAtAll is a cache.Probe that drops deleted servers; news reports whether there are unknown ones.
func (p *Provider) glanceAtAll(ctx context.Context, _ time.Time) (news, all bool, err error) {
	known := p.known.servers.All()
	left, _, err := p.serverIDs(ctx, servers.ListOpts{Tags: p.n.ServerTag()})
	if err != nil {
		return false, false, err
	}
	for _, s := range known {
		if !left[s.ID] {
			p.known.servers.Drop(s.ID)
		}
		delete(left, s.ID)
	}
	return len(left) > 0, false, nil
}

// serverIDs lists servers without their details. The list certainly includes every change before now, by the cloud's clock; now is zero if the
// cloud sends no time.
func (p *Provider) serverIDs(ctx context.Context, o servers.ListOpts) (ids map[string]bool, now time.Time, err error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, now, err
	}
	began := time.Now()
	pager := servers.ListSimple(c.Compute, o).WithPageCreator(func(r pagination.PageResult) pagination.Page {
		if at, err := http.ParseTime(r.Header.Get("Date")); err == nil && now.IsZero() {
			now = at.Add(-time.Since(began) - ownClockSkew)
		}
		return servers.ServerPage{LinkedPageBase: pagination.LinkedPageBase{PageResult: r}}
	})
	all, err := cloud.Pages(ctx, pager, servers.ExtractServers)
	ids = map[string]bool{}
	for _, s := range all {
		ids[s.ID] = true
	}
	return ids, now, cloud.Wrap(err, "list servers")
}

// stateText returns a server's state and Nova's current task on it.
func stateText(s servers.Server) string {
	if s.TaskState == "" {
		return s.Status
	}
	return fmt.Sprintf("%s (%s)", s.Status, s.TaskState)
}

// removeServers deletes servers and waits until Nova no longer lists them; Nova deletes their root volumes too.
func (p *Provider) removeServers(ctx context.Context, all []servers.Server, progress plan.Progress) error {
	if len(all) == 0 {
		return nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.TaskState == "deleting" {
			continue
		}
		if err := servers.Delete(ctx, c.Compute, s.ID).ExtractErr(); err != nil && !cloud.Gone(err) {
			p.known.servers.Invalidate()
			return cloud.Wrap(err, "remove server %s (%s)", s.Name, s.ID)
		}
	}
	limit := time.Now().Add(p.opts.Timeouts.Delete)
	for {
		if err := p.known.servers.Next(ctx, p.opts.Timeouts.Poll, p.glanceAtAll); err != nil {
			return err
		}
		var left []servers.Server
		for _, old := range all {
			if s, ok := p.known.servers.Find(func(s servers.Server) bool { return s.ID == old.ID }); ok && s.Status != serverDeleted {
				left = append(left, s)
			}
		}
		if len(left) == 0 {
			p.known.volumes.Invalidate() // Nova deleted root volumes with their servers
			p.letGo(all)
			return nil
		}
		progress.Status("server %s is %s", left[0].ID, stateText(left[0]))
		if time.Now().After(limit) {
			return fail.New(fail.Refused, "server %s (%s) is still %s %s after the request to delete it", left[0].Name, left[0].ID,
				stateText(left[0]), p.opts.Timeouts.Delete).Do("see openstack server show; run the same again later")
		}
	}
}

// letGo marks the ports of deleted servers as unattached: Nova detaches them before it forgets a server.
func (p *Provider) letGo(of []servers.Server) {
	for _, o := range p.known.ports.All() {
		if slices.ContainsFunc(of, func(s servers.Server) bool { return s.ID == o.DeviceID }) {
			o.DeviceID, o.DeviceOwner = "", ""
			p.known.ports.Keep(o)
		}
	}
}
