package routes

import (
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// discovered is the answer to a discovery.
type discovered struct {
	New         bool              `json:"new-discovery"`
	Approval    registry.Approval `json:"approval"`
	Proven      bool              `json:"proven"`                // the body was signed by the approved key
	Certificate string            `json:"certificate,omitempty"` // for that key, PEM
	Time        time.Time         `json:"time"`                  // the server's clock: a machine with a wrong clock sets its own by it
}

// discover: POST /discovery.
func (h routes) discover(w http.ResponseWriter, r *http.Request) error {
	data, err := body(r)
	if err != nil {
		return err
	}
	d, err := h.Registry.DiscoverFrom(r.Context(), data, r.Header.Get(facts.SignatureHeader), r.RemoteAddr)
	if fail.KindOf(err) == fail.NotReady {
		h.strangers.Warn(r.Context(), "too many discoveries", r.RemoteAddr)
		w.Header().Set("Retry-After", "10")
		return statusError{err, http.StatusTooManyRequests}
	}
	if err != nil {
		return as(http.StatusNotAcceptable, err)
	}
	return write(w, discovered{New: d.New, Approval: d.Approval, Proven: d.Proven, Certificate: d.Certificate, Time: time.Now().UTC()})
}

// all returns all machines, with their facts if the query asks for them.
func (h routes) all(r *http.Request, q metal.Query) ([]registry.Machine, error) {
	all, _, err := h.Registry.Find(r.Context(), q)
	return all, err
}

// discoveries: GET /discovery.
func (h routes) discoveries(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{Facts: true})
	if err != nil {
		return err
	}
	out := []*facts.Discovery{}
	for _, m := range all {
		if m.Facts != nil {
			out = append(out, m.Facts)
		}
	}
	return write(w, out)
}

// interfaceRow is one interface of one machine.
type interfaceRow struct {
	Machine string   `json:"machine"` // UUID
	MAC     string   `json:"mac"`
	Name    string   `json:"name"`
	Netmask int      `json:"netmask"`
	IPv4    string   `json:"ipv4"`
	CIDRv4  string   `json:"cidrv4"`
	AsBoot  bool     `json:"as_boot"`
	Gateway string   `json:"gateway"`
	FQDN    []string `json:"fqdn"`
	Chassis *string  `json:"chassis_name"`
}

// interfaces: GET /discovery/interfaces.
func (h routes) interfaces(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{Facts: true})
	if err != nil {
		return err
	}
	out := []interfaceRow{}
	for _, m := range all {
		if m.Facts == nil {
			continue
		}
		chassis := map[string]*string{}
		for _, n := range m.Facts.LLDP.Data.Interfaces {
			chassis[n.Name] = &n.Chassis.Name
		}
		for _, i := range m.Facts.Interfaces {
			if i.MAC != "" {
				out = append(out, interfaceRow{m.UUID, i.MAC, i.Name, i.Netmask, i.IPv4, i.CIDRv4, i.MAC == m.Facts.Boot.MAC, i.Gateway, i.FQDN, chassis[i.Name]})
			}
		}
	}
	return write(w, out)
}

// bootsRow is a machine with its boots, the newest first.
type bootsRow struct {
	UUID  string    `json:"uuid"`
	Boots []bootRow `json:"boot_id_list"`
}

type bootRow struct {
	Time float64 `json:"ctime"` // seconds since 1970
	ID   string  `json:"boot_id"`
}

// journals: GET /discovery/ignition-journal.
func (h routes) journals(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{})
	if err != nil {
		return err
	}
	out := []bootsRow{}
	for _, m := range all {
		boots, err := h.Registry.Boots(r.Context(), m.UUID)
		if err != nil {
			return err
		}
		row := bootsRow{UUID: m.UUID, Boots: []bootRow{}}
		for _, b := range boots {
			row.Boots = append(row.Boots, bootRow{float64(b.At.UnixMicro()) / 1e6, b.ID})
		}
		out = append(out, row)
	}
	return write(w, out)
}

// journal: GET /discovery/ignition-journal/<uuid>[/<boot>].
func (h routes) journal(w http.ResponseWriter, r *http.Request) error {
	uuid, err := facts.ParseUUID(r.PathValue("uuid"))
	if err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	if _, err := h.Registry.Selected(r.Context(), facts.Selector{UUID: uuid}); err != nil {
		return err
	}
	j, err := h.Registry.Journal(r.Context(), uuid, r.PathValue("boot"), registry.DiscoveryJournal)
	if err != nil {
		return err
	}
	return write(w, j.Lines)
}

// configs: GET /configs.
func (h routes) configs(w http.ResponseWriter, _ *http.Request) error {
	if h.Settings == nil {
		return write(w, map[string]any{})
	}
	return write(w, h.Settings)
}

// backup: POST /backup/db.
func (h routes) backup(w http.ResponseWriter, r *http.Request) error {
	if h.Backup == nil {
		return fail.New(fail.NotFound, "this server makes no backups of its store").Do("naupegos store backup makes one")
	}
	report, err := h.Backup(r.Context())
	if err != nil {
		return err
	}
	return write(w, report)
}

// shutdown: POST /shutdown.
func (h routes) shutdown(w http.ResponseWriter, r *http.Request) error {
	if h.Shutdown == nil {
		return fail.New(fail.NotFound, "this server is not stopped over the network")
	}
	h.Log.Warn("stopping, because an operator has asked for it", "who", h.who(r))
	h.Shutdown()
	return write(w, map[string]bool{"stopping": true})
}
