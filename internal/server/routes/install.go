package routes

import (
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// owner returns the machine in the path if the client has its approved key. Unlike machine, it makes no exception.
func (h routes) owner(r *http.Request) (*registry.Machine, error) {
	uuid, err := facts.ParseUUID(r.PathValue("uuid"))
	if err != nil {
		return nil, as(http.StatusUnprocessableEntity, err)
	}
	m, err := h.Registry.Selected(r.Context(), facts.Selector{UUID: uuid})
	if err != nil {
		return nil, err
	}
	if m.Record.Key == "" {
		return nil, fail.New(fail.Unauthorized, "the machine has no approved key").At(m.UUID).Do("naupegos machine approve %s", m.UUID)
	}
	return m, h.mayActFor(r, m)
}

// ordered: GET /api/v1/order/<uuid>: the machine's installation order.
func (h routes) ordered(w http.ResponseWriter, r *http.Request) error {
	m, err := h.owner(r)
	if err != nil {
		return err
	}
	o, err := h.Registry.Ordered(m)
	if err != nil {
		return err
	}
	return write(w, o)
}

// granted is an authorized installation.
type granted struct {
	Order   *order.Order `json:"order"`
	Expires time.Time    `json:"expires"`
}

// install: POST /api/v1/install/<uuid>: the machine wants to be installed.
func (h routes) install(w http.ResponseWriter, r *http.Request) error {
	m, err := h.owner(r)
	if err != nil {
		return err
	}
	if err := h.Registry.Heard(r.Context(), m); err != nil {
		return err
	}
	o, err := h.Registry.Ordered(m)
	if err != nil {
		return err
	}
	a, err := h.Registry.Authorize(r.Context(), m)
	if err != nil {
		return err
	}
	if !a.Granted {
		return statusError{fail.New(fail.NotReady, "%s", a.Why).At(m.UUID), http.StatusForbidden}
	}
	return write(w, granted{o, a.Expires})
}

// progressed: POST /api/v1/install/<uuid>/progress.
func (h routes) progressed(w http.ResponseWriter, r *http.Request) error {
	m, err := h.owner(r)
	if err != nil {
		return err
	}
	var p struct {
		Stage string `json:"stage"`
		Done  int64  `json:"done"`
		Total int64  `json:"total"`
	}
	if err := decode(r, &p); err != nil {
		return err
	}
	expires, err := h.Registry.Renew(r.Context(), m, registry.Progress{Stage: p.Stage, Done: p.Done, Total: p.Total})
	if err != nil {
		return err
	}
	return write(w, map[string]time.Time{"expires": expires})
}

// installed: POST /api/v1/install/<uuid>/finish.
func (h routes) installed(w http.ResponseWriter, r *http.Request) error {
	m, err := h.owner(r)
	if err != nil {
		return err
	}
	var in struct {
		OK       bool     `json:"ok"`
		HostKeys []string `json:"host_keys"`
		Log      []string `json:"log"`
	}
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.OK {
		if err := h.Registry.Tell(r.Context(), m, registry.Told{HostKeys: in.HostKeys}); err != nil {
			return err
		}
	}
	if err := h.Registry.Finish(r.Context(), m, in.OK, in.Log); err != nil {
		return err
	}
	return write(w, map[string]bool{"ok": in.OK})
}

// order: POST /api/v1/machines/<machine>/order; an empty object withdraws the order.
func (h routes) order(w http.ResponseWriter, r *http.Request) error {
	uuid, err := h.Registry.Resolve(r.Context(), r.PathValue("machine"))
	if err != nil {
		return err
	}
	data, err := body(r)
	if err != nil {
		return err
	}
	var o *order.Order
	if string(data) != "{}" {
		if o, err = order.Parse(data); err != nil {
			return err
		}
	}
	if _, err := h.Registry.SetOrder(r.Context(), uuid, o, h.who(r)); err != nil {
		return err
	}
	return h.machineAs(r.Context(), w, uuid)
}

// systems: GET /api/v1/systems.
func (h routes) systems(w http.ResponseWriter, _ *http.Request) error {
	out := client.Systems{Items: []order.System{}}
	if h.Systems != nil {
		all, err := h.Systems()
		if err != nil {
			return err
		}
		out.Items = append(out.Items, all...)
	}
	return write(w, out)
}
