package routes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// authorize: GET /install-authorization/<selector>.
func (h routes) authorize(w http.ResponseWriter, r *http.Request) error {
	m, err := h.machine(r, r.PathValue("selector"))
	if err != nil {
		return err
	}
	a, err := h.Registry.Authorize(r.Context(), m)
	if err != nil {
		return err
	}
	if !a.Granted {
		return say(w, http.StatusForbidden, a.Why)
	}
	w.Header().Set("Expires", a.Expires.Format(http.TimeFormat))
	return say(w, http.StatusOK, "Granted")
}

// finish: POST /lifecycle/coreos-install/<success|fail>/<selector>; the body is the log.
func (h routes) finish(w http.ResponseWriter, r *http.Request) error {
	result := strings.ToLower(r.PathValue("result"))
	if result != "success" && result != "fail" {
		return as(http.StatusUnprocessableEntity, fail.New(fail.Invalid, "an installation ends with success or fail, not %q", result))
	}
	m, err := h.machine(r, r.PathValue("selector"))
	if err != nil {
		return err
	}
	log, err := body(r)
	if err != nil {
		return err
	}
	if err := h.Registry.Finish(r.Context(), m, result == "success", lines(log)); err != nil {
		return err
	}
	return say(w, http.StatusOK, result)
}

// lines splits a log into lines, whatever its content.
func lines(log []byte) []string {
	text := strings.TrimRight(strings.ToValidUTF8(string(log), "\ufffd"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// canonical returns JSON in canonical form: sorted keys, no spaces. Numbers stay as they are written.
func canonical(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	err := d.Decode(&v)
	if err == nil && d.More() {
		err = fail.New(fail.Invalid, "there is more than one object")
	}
	if err != nil || v == nil {
		return nil, fail.New(fail.Invalid, "it is no JSON object")
	}
	return json.Marshal(v)
}

// digest returns the digest of an Ignition configuration, independent of its formatting.
func digest(ignition []byte) (string, error) {
	data, err := canonical(ignition)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// statusOutdated is the older system's status for an outdated machine; it is not a standard HTTP status.
const statusOutdated = 210

// reportIgnition: POST /lifecycle/ignition/<selector>; the body is the installed configuration.
func (h routes) reportIgnition(w http.ResponseWriter, r *http.Request) error {
	selector := r.PathValue("selector")
	m, err := h.machine(r, selector)
	if err != nil {
		return err
	}
	data, err := body(r)
	if err != nil {
		return err
	}
	has, err := digest(data)
	if err != nil {
		return as(http.StatusNotAcceptable, fail.Wrap(fail.Invalid, err, "read the Ignition configuration that is installed"))
	}
	if h.Ignition != nil && m.Approval == string(registry.Approved) { // strangers' reports must not change a machine's wanted digest
		if err := h.want(r, m, selector); err != nil {
			return err
		}
	}
	current, err := h.Registry.Report(r.Context(), m, "", has, 0)
	if err != nil {
		return err
	}
	if !current {
		return say(w, statusOutdated, "Outdated")
	}
	return say(w, http.StatusOK, "Up-to-date")
}

// want stores the digest of the configuration that the machine would get now, if there is one.
func (h routes) want(r *http.Request, m *registry.Machine, selector string) error {
	data, err := h.Ignition(r.Context(), selector)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	wanted, err := digest(data)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read the Ignition configuration that the machine is to have").At(m.UUID)
	}
	if wanted == m.Record.Wanted {
		return nil
	}
	_, err = h.Registry.Want(r.Context(), m.UUID, wanted)
	m.Record.Wanted = wanted
	return err
}

// reporting is an agent's report, which it sends each minute.
type reporting struct {
	UUID     string `json:"uuid"`
	BootID   string `json:"boot_id"`
	Digest   string `json:"digest"`   // of the installed configuration
	Sequence int64  `json:"sequence"` // grows with each report
	// Fields from the agent of an installed machine.
	Slot     string   `json:"slot,omitempty"`
	HostKeys []string `json:"host_keys,omitempty"`
	Refused  string   `json:"refused,omitempty"` // digest of a system that it tried and fell back from
}

// reported is the answer to a report.
type reported struct {
	UpToDate bool   `json:"up_to_date"`
	Wanted   string `json:"wanted,omitempty"` // digest of what should be installed
	Strategy string `json:"strategy,omitempty"`
}

// report: POST /api/v1/report.
func (h routes) report(w http.ResponseWriter, r *http.Request) error {
	var in reporting
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Sequence < 1 {
		return fail.New(fail.Invalid, "a report needs a sequence number above zero, greater than the one before")
	}
	uuid, err := facts.ParseUUID(in.UUID)
	if err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	m, err := h.Registry.Selected(r.Context(), facts.Selector{UUID: uuid})
	if err != nil {
		return err
	}
	if err := h.mayActFor(r, m); err != nil {
		return err
	}
	current, err := h.Registry.Report(r.Context(), m, in.BootID, in.Digest, in.Sequence)
	if err != nil {
		return err
	}
	if in.Slot != "" {
		if err := h.Registry.Tell(r.Context(), m, registry.Told{HostKeys: in.HostKeys, Slot: in.Slot, Refused: in.Refused, Address: from(r)}); err != nil {
			return err
		}
	}
	out := reported{UpToDate: current, Wanted: m.Record.Wanted}
	if s := m.Record.Strategy; !s.Disabled {
		out.Strategy = s.Kind
	}
	return write(w, out)
}

// from returns the client address of a request.
func from(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// strategy: GET /lifecycle/rolling/<selector>.
func (h routes) strategy(w http.ResponseWriter, r *http.Request) error {
	m, err := h.machine(r, r.PathValue("selector"))
	if err != nil {
		return err
	}
	s := m.Record.Strategy
	if s.Kind == "" {
		w.WriteHeader(http.StatusUnauthorized) // the older system's status for a machine without a strategy
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Disabled {
		w.WriteHeader(http.StatusForbidden)
	}
	return write(w, map[string]any{"enable": !s.Disabled, "strategy": s.Kind})
}

// setStrategy: POST /lifecycle/rolling/<selector>; the body is the strategy's name.
func (h routes) setStrategy(w http.ResponseWriter, r *http.Request) error {
	data, err := body(r)
	if err != nil {
		return err
	}
	kind := strings.Trim(strings.TrimSpace(string(data)), `"`)
	var object struct {
		Strategy string `json:"strategy"`
	}
	if json.Unmarshal(data, &object) == nil && object.Strategy != "" {
		kind = object.Strategy
	}
	if kind == "" {
		return as(http.StatusUnprocessableEntity, fail.New(fail.Invalid, "the body names no strategy").Do("send one of %v", registry.Strategies()))
	}
	return h.changeStrategy(w, r, kind)
}

// dropStrategy: DELETE /lifecycle/rolling/<selector>.
func (h routes) dropStrategy(w http.ResponseWriter, r *http.Request) error {
	return h.changeStrategy(w, r, "")
}

func (h routes) changeStrategy(w http.ResponseWriter, r *http.Request, kind string) error {
	s, err := facts.ParseSelector(r.PathValue("selector"))
	if err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	m, err := h.Registry.Selected(r.Context(), s)
	if err != nil {
		return err
	}
	after, err := h.Registry.SetStrategy(r.Context(), m.UUID, kind)
	if err != nil {
		return as(http.StatusUnprocessableEntity, err)
	}
	return write(w, map[string]any{"enable": kind != "", "strategy": after.Record.Strategy.Kind})
}

// lifeRow is a machine in the lists of the lifecycle.
type lifeRow struct {
	MAC        string     `json:"mac"`
	FQDN       string     `json:"fqdn"`
	Success    *bool      `json:"success,omitempty"`
	UpToDate   *bool      `json:"up-to-date,omitempty"`
	Enable     *bool      `json:"enable,omitempty"`
	Strategy   string     `json:"strategy,omitempty"`
	Updated    *time.Time `json:"updated-date,omitempty"`
	LastChange *time.Time `json:"last-change-date,omitempty"`
}

// life lists the machines for which put fills a row.
func (h routes) life(w http.ResponseWriter, r *http.Request, put func(m registry.Machine, row *lifeRow) bool) error {
	all, err := h.all(r, metal.Query{})
	if err != nil {
		return err
	}
	out := []lifeRow{}
	for _, m := range all {
		row := lifeRow{MAC: macOf(m), FQDN: m.Record.DomainName}
		if put(m, &row) {
			out = append(out, row)
		}
	}
	return write(w, out)
}

// installs: GET /lifecycle/coreos-install.
func (h routes) installs(w http.ResponseWriter, r *http.Request) error {
	return h.life(w, r, func(m registry.Machine, row *lifeRow) bool {
		ok := m.Record.Failures == 0
		row.Success, row.Updated = &ok, &m.Record.StateAt
		if ok {
			row.Updated = &m.Record.Installed
		}
		return !ok || !m.Record.Installed.IsZero()
	})
}

// reports: GET /lifecycle/ignition.
func (h routes) reports(w http.ResponseWriter, r *http.Request) error {
	return h.life(w, r, func(m registry.Machine, row *lifeRow) bool {
		if m.Report == nil {
			return false
		}
		if is, known := m.UpToDate(); known {
			row.UpToDate = &is
		}
		row.Updated, row.LastChange = &m.Report.At, &m.Changed
		return true
	})
}

// strategies: GET /lifecycle/rolling.
func (h routes) strategies(w http.ResponseWriter, r *http.Request) error {
	return h.life(w, r, func(m registry.Machine, row *lifeRow) bool {
		enabled := !m.Record.Strategy.Disabled
		row.Enable, row.Strategy = &enabled, m.Record.Strategy.Kind
		return row.Strategy != ""
	})
}

// viewRow is a machine in the form of the older system's page.
type viewRow struct {
	MAC            string     `json:"MAC"`
	CIDR           string     `json:"CIDR"`
	FQDN           string     `json:"FQDN"`
	DiskProfile    string     `json:"DiskProfile"`
	Roles          string     `json:"Roles"`
	LastState      string     `json:"LastState"`
	UpdateStrategy string     `json:"UpdateStrategy"`
	UpToDate       *bool      `json:"UpToDate"`
	LastReport     *time.Time `json:"LastReport"`
	LastChange     *time.Time `json:"LastChange"`
}

// view: GET /ui/view/machine.
func (h routes) view(w http.ResponseWriter, r *http.Request) error {
	all, err := h.all(r, metal.Query{})
	if err != nil {
		return err
	}
	out := []viewRow{}
	for _, m := range all {
		row := viewRow{MAC: macOf(m), CIDR: m.Record.Address, FQDN: m.Record.DomainName, DiskProfile: m.Record.Disks, Roles: strings.Join(m.Roles, ","),
			LastState: m.State, UpdateStrategy: "Disable", LastChange: &m.Changed}
		if s := m.Record.Strategy; s.Kind != "" && !s.Disabled {
			row.UpdateStrategy = s.Kind
		}
		if is, known := m.UpToDate(); known {
			row.UpToDate = &is
		}
		if m.Report != nil {
			row.LastReport = &m.Report.At
		}
		out = append(out, row)
	}
	return write(w, out)
}
