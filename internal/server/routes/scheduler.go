package routes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// macOf returns the MAC address of a machine's boot interface.
func macOf(m registry.Machine) string {
	if len(m.MACs) == 0 {
		return ""
	}
	return m.MACs[0]
}

// schedules: GET /scheduler.
func (h routes) schedules(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{})
	if err != nil {
		return err
	}
	out := map[string][]string{}
	for _, m := range all {
		if len(m.Roles) > 0 {
			out[macOf(m)] = m.Roles
		}
	}
	return write(w, out)
}

// scheduling is the body of POST /scheduler, and of its answer.
type scheduling struct {
	Roles    []string `json:"roles"`
	Selector struct {
		MAC string `json:"mac"`
	} `json:"selector"`
}

// setRoles: POST /scheduler. It gives the machine exactly these roles; an empty list removes all.
func (h routes) setRoles(w http.ResponseWriter, r *http.Request) error {
	data, err := body(r)
	if err != nil {
		return err
	}
	var s scheduling
	if err := json.Unmarshal(data, &s); err != nil {
		return as(http.StatusNotAcceptable, fail.New(fail.Invalid, "the body is not {roles, selector: {mac}}: %v", err))
	}
	if s.Roles == nil || s.Selector.MAC == "" {
		return as(http.StatusNotAcceptable, fail.New(fail.Invalid, "the body lacks roles or selector.mac").Do("send {\"roles\": [], \"selector\": {\"mac\": …}} to take roles away"))
	}
	mac, err := facts.ParseMAC(s.Selector.MAC)
	if err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	m, err := h.Registry.Selected(r.Context(), facts.Selector{MAC: mac})
	if err != nil {
		return err
	}
	if err := h.Registry.SetRoles(r.Context(), m.UUID, s.Roles); err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	return write(w, s)
}

// scheduledRow is a machine in lists of the scheduler.
type scheduledRow struct {
	MAC     string   `json:"mac"`
	UUID    string   `json:"uuid"`
	IPv4    string   `json:"ipv4"`
	CIDRv4  string   `json:"cidrv4"`
	Gateway string   `json:"gateway"`
	Netmask int      `json:"netmask"`
	FQDN    []string `json:"fqdn"`
	AsBoot  bool     `json:"as_boot"`
	Name    string   `json:"name"`
	Roles   []string `json:"roles,omitempty"`
}

// row returns a machine's row, with its boot interface.
func row(m registry.Machine) scheduledRow {
	out := scheduledRow{MAC: macOf(m), UUID: m.UUID, Roles: m.Roles, AsBoot: true, FQDN: []string{}}
	if m.Facts != nil {
		if n := m.Facts.BootInterface(); n != nil {
			out.IPv4, out.CIDRv4, out.Gateway, out.Netmask, out.FQDN, out.Name = n.IPv4, n.CIDRv4, n.Gateway, n.Netmask, n.FQDN, n.Name
		}
	}
	return out
}

// scheduled: GET /scheduler/<role[&role]>: machines that have the role, or exactly these roles.
func (h routes) scheduled(w http.ResponseWriter, r *http.Request) error {
	roles := strings.Split(r.PathValue("roles"), "&")
	all, err := h.all(r, metal.Query{Role: roles[0], Facts: true})
	if err != nil {
		return err
	}
	slices.Sort(roles)
	out := []scheduledRow{}
	for _, m := range all {
		if len(roles) == 1 || slices.Equal(m.Roles, roles) {
			out = append(out, row(m))
		}
	}
	return write(w, out)
}

// available: GET /scheduler/available.
func (h routes) available(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{Free: true, Facts: true})
	if err != nil {
		return err
	}
	out := []scheduledRow{}
	for _, m := range all {
		out = append(out, row(m))
	}
	return write(w, out)
}

// addresses: GET /scheduler/ip-list/<role>: the addresses of the machines' boot interfaces.
func (h routes) addresses(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{Role: r.PathValue("role"), Facts: true})
	if err != nil {
		return err
	}
	out := []string{}
	for _, m := range all {
		if ip := row(m).IPv4; ip != "" {
			out = append(out, ip)
		}
	}
	return write(w, out)
}
