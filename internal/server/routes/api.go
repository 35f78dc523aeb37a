package routes

import (
	"context"
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// Limits of lists.
const (
	usualPage = 200
	maxPage   = 1000
	events    = 100
)

// list: GET /api/v1/machines.
func (h routes) list(w http.ResponseWriter, r *http.Request) error {
	q, err := client.QueryOf(r.URL.Query())
	if err != nil {
		return err
	}
	if q.Limit == 0 {
		q.Limit = usualPage
	}
	q.Limit = min(q.Limit, maxPage)
	q.Facts = true // whether a machine can be used depends on its disks
	all, total, err := h.Registry.Find(r.Context(), q)
	if err != nil {
		return err
	}
	page := client.Page{Items: make([]client.Machine, 0, len(all)), Total: total}
	for _, m := range all {
		item := client.Of(m)
		if item.Rivals, err = h.rivals(r.Context(), &m); err != nil {
			return err
		}
		page.Items = append(page.Items, item)
	}
	return write(w, page)
}

// show: GET /api/v1/machines/<machine>.
func (h routes) show(w http.ResponseWriter, r *http.Request) error {
	m, err := h.Registry.Machine(r.Context(), r.PathValue("machine"))
	if err != nil {
		return err
	}
	rec := m.Record
	d := client.Detail{Machine: client.Of(*m), Key: rec.Key, ApprovedBy: rec.ApprovedBy, ApprovedAt: rec.ApprovedAt, Installed: rec.Installed,
		Failures: rec.Failures, Wanted: rec.Wanted, Report: m.Report, Facts: m.Facts, Order: rec.Order, Progress: rec.Progress,
		HostKeys: rec.HostKeys, Slot: rec.Slot, Refused: rec.Refused}
	if d.Rivals, err = h.rivals(r.Context(), m); err != nil {
		return err
	}
	if d.Boots, err = h.Registry.Boots(r.Context(), m.UUID); err != nil {
		return err
	}
	if d.Events, err = h.Registry.Events(r.Context(), m.UUID, events); err != nil {
		return err
	}
	return write(w, d)
}

// rivals returns the other machines that claim the MAC addresses of a machine that waits for approval.
func (h routes) rivals(ctx context.Context, m *registry.Machine) ([]string, error) {
	if m.Approval == string(registry.Approved) {
		return nil, nil
	}
	return h.Registry.Claimants(ctx, m.UUID)
}

// showJournal: GET /api/v1/machines/<machine>/journal?boot=…&kind=….
func (h routes) showJournal(w http.ResponseWriter, r *http.Request) error {
	uuid, err := h.Registry.Resolve(r.Context(), r.PathValue("machine"))
	if err != nil {
		return err
	}
	kind := r.URL.Query().Get("kind")
	if kind == "" {
		kind = registry.DiscoveryJournal
	}
	j, err := h.Registry.Journal(r.Context(), uuid, r.URL.Query().Get("boot"), kind)
	if err != nil {
		return err
	}
	return write(w, j)
}

// act: POST /api/v1/machines/<machine>/<verb>.
func (h routes) act(w http.ResponseWriter, r *http.Request) error {
	ctx, by := r.Context(), h.who(r)
	uuid, err := h.Registry.Resolve(ctx, r.PathValue("machine"))
	if err != nil {
		return err
	}
	var o client.Order
	if err := decode(r, &o); err != nil {
		return err
	}
	reg := h.Registry
	verbs := map[string]func() error{
		"approve":     func() error { return done(reg.Approve(ctx, uuid, o.Key, by)) },
		"reject":      func() error { return done(reg.Reject(ctx, uuid, by)) },
		"name":        func() error { return done(reg.Rename(ctx, uuid, o.Name)) },
		"label":       func() error { return done(reg.Label(ctx, uuid, o.Labels, o.Without)) },
		"maintenance": func() error { return done(reg.Maintain(ctx, uuid, o.Why)) },
		"strategy":    func() error { return done(reg.SetStrategy(ctx, uuid, o.Strategy)) },
		"reinstall":   func() error { return done(reg.Reinstall(ctx, uuid, o.Wipe, by)) },
		"keep":        func() error { return done(registry.Keep(ctx, reg, uuid, by)) },
		"bmc": func() error {
			return done(reg.SetBMC(ctx, uuid, registry.BMC{Protocol: o.Protocol, Address: o.Address, User: o.User, Fingerprint: o.Fingerprint, Authorities: o.Authorities,
				System: o.System}, []byte(o.Password)))
		},
		"want":     func() error { return done(reg.Want(ctx, uuid, o.Digest)) },
		"assign":   func() error { return reg.Assign(ctx, uuid, o.Cluster, o.Pool) },
		"unassign": func() error { return reg.Unassign(ctx, uuid) },
	}
	do, ok := verbs[r.PathValue("verb")]
	if !ok {
		return fail.New(fail.NotFound, "machines have no verb %q", r.PathValue("verb"))
	}
	if err := do(); err != nil {
		return err
	}
	return h.machineAs(ctx, w, uuid)
}

// power: POST /api/v1/machines/<machine>/power.
func (h routes) power(w http.ResponseWriter, r *http.Request) error {
	uuid, err := h.Registry.Resolve(r.Context(), r.PathValue("machine"))
	if err != nil {
		return err
	}
	var s client.Switching
	if err := decode(r, &s); err != nil {
		return err
	}
	on, err := h.Registry.SwitchPower(r.Context(), uuid, s.Action, s.Boot, h.who(r))
	if err != nil {
		return err
	}
	return write(w, client.Switched{On: on})
}

// machineAs answers with a machine in the form of lists.
func (h routes) machineAs(ctx context.Context, w http.ResponseWriter, uuid string) error {
	m, err := h.Registry.Machine(ctx, uuid)
	if err != nil {
		return err
	}
	return write(w, client.Of(*m))
}

func done(_ *registry.Machine, err error) error { return err }

// forget: DELETE /api/v1/machines/<machine>.
func (h routes) forget(w http.ResponseWriter, r *http.Request) error {
	uuid, err := h.Registry.Resolve(r.Context(), r.PathValue("machine"))
	if err != nil {
		return err
	}
	if err := h.Registry.Forget(r.Context(), uuid); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// schedule: POST /api/v1/schedule.
func (h routes) schedule(w http.ResponseWriter, r *http.Request) error {
	var s client.Scheduling
	if err := decode(r, &s); err != nil {
		return err
	}
	d, err := h.Registry.Fill(r.Context(), s.Wanted, s.DryRun)
	if err != nil {
		return err
	}
	return write(w, d)
}

// locks: GET /api/v1/locks.
func (h routes) locks(w http.ResponseWriter, r *http.Request) error {
	all, err := h.Registry.Holders(r.Context())
	if err != nil {
		return err
	}
	return write(w, client.Locks{Items: append(client.Locks{}.Items, all...)})
}

// unlock: DELETE /api/v1/locks?group=…&holder=….
func (h routes) unlock(w http.ResponseWriter, r *http.Request) error {
	group, holder := r.URL.Query().Get("group"), r.URL.Query().Get("holder")
	held, err := h.Registry.Release(r.Context(), group, holder)
	if err != nil {
		return err
	}
	if !held {
		return fail.New(fail.NotFound, "%s has no place in %s", holder, group).Do("naupegos machine locks shows the holders")
	}
	h.Log.Warn("a place was taken away", "group", group, "holder", holder, "by", h.who(r))
	w.WriteHeader(http.StatusNoContent)
	return nil
}
