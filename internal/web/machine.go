package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// shownEvents is the number of events on a machine's page.
const shownEvents = 60

// machineData is the data of a machine's page.
type machineData struct {
	Row     machineRow
	Record  registry.Record
	Labels  map[string]string
	Facts   *facts.Discovery
	Wires   []wire
	Height  int // of the drawing of wires
	Events  []metal.Event
	Boots   []metal.Boot
	Journal *metal.Journal
	Kind    string // of the journal
	// Switches are the power actions.
	Switches   []string
	Name       string
	Ref        string   // the machine's name in commands
	MayChange  bool     // whether the reader may
	Strategies []string // update strategies to choose from
	Claims     []claim  // waiting for approval
}

// wire is a cable from the machine to a switch, as the page draws it.
type wire struct {
	Interface, MAC, About string // About: addresses and speed
	Port, Switch, ID      string
	Link                  bool
	Y                     int
}

// machinePage shows one machine.
func (p *Pages) machinePage(r *http.Request, who *access.Operator) (*view, error) {
	ctx := r.Context()
	m, err := p.c.Machines.Machine(ctx, r.PathValue("uuid"))
	if err != nil {
		return nil, err
	}
	d := machineData{Row: rowOf(m), Record: m.Record, Labels: m.Labels, Facts: m.Facts, Kind: registry.DiscoveryJournal, Name: m.Name, Ref: m.UUID,
		Switches: registry.PowerActions(), MayChange: who.May(server.Operate, "") == nil, Strategies: registry.Strategies(), Claims: claimsOf(m)}
	if m.Name != "" {
		d.Ref = quote(m.Name)
	}
	d.Record.Certificate = "" // not secret, but long
	if m.Facts != nil {
		d.Wires = wires(m.Facts)
		d.Height = 58 * len(d.Wires)
	}
	if d.Events, err = p.c.Machines.Events(ctx, m.UUID, shownEvents); err != nil {
		return nil, err
	}
	if d.Boots, err = p.c.Machines.Boots(ctx, m.UUID); err != nil {
		return nil, err
	}
	if r.URL.Query().Get("journal") == registry.InstallJournal {
		d.Kind = registry.InstallJournal
	}
	d.Journal, err = p.c.Machines.Journal(ctx, m.UUID, r.URL.Query().Get("boot"), d.Kind)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return nil, err
	}
	return &view{name: "machine", Title: m.Title(), Command: "naupegos machine show " + m.UUID, Live: liveOf(r), Data: d}, nil
}

// switching is the time limit of a power action.
const switching = 5 * time.Minute

// wires returns the cables of a machine: one for each interface, with the port and the switch at its other end if LLDP reported them.
func wires(d *facts.Discovery) (all []wire) {
	for i, nic := range d.Interfaces {
		w := wire{Interface: nic.Name, MAC: nic.MAC, About: strings.Join(nic.Addresses, " "), Link: nic.Link, Y: 4 + 58*i}
		if w.About == "" { // machines of the older system report it here
			w.About = nic.CIDRv4
		}
		if nic.Speed > 0 {
			w.About = strings.TrimSpace(w.About + " " + speed(nic.Speed))
		}
		for _, n := range d.LLDP.Data.Interfaces {
			if n.Name == nic.Name {
				w.Port, w.Switch, w.ID = n.Port.ID, n.Chassis.Name, n.Chassis.ID
			}
		}
		all = append(all, w)
	}
	return all
}

// speed formats the speed of a link, which is in Mbit/s.
func speed(mbit int) string {
	if mbit >= 1000 {
		return strconv.FormatFloat(float64(mbit)/1000, 'g', 4, 64) + " Gbit/s"
	}
	return strconv.Itoa(mbit) + " Mbit/s"
}

// approvalsData is the data of the page of approvals.
type approvalsData struct {
	Rows      []asking
	Total     int
	MayChange bool // whether the reader may
}

// asking is a machine that waits for approval.
type asking struct {
	machineRow
	Claims []claim
	Rivals []string // UUIDs of other machines that claim its MAC addresses
	Facts  *facts.Discovery
}

// claim is one claim to a machine's identity.
type claim struct {
	registry.Asking
	Named string // name for the approval; empty: the machine has no key, and there is no other claim
}

// claimsOf returns the claims of a machine that wait for approval.
func claimsOf(m *registry.Machine) (all []claim) {
	claims := m.Claims()
	for _, a := range claims {
		c := claim{Asking: a}
		if a.Key != "" || len(claims) > 1 {
			c.Named = a.Name()
		}
		all = append(all, c)
	}
	return all
}

// approvalsPage lists the machines that wait for approval, with facts to compare at the machine itself.
func (p *Pages) approvalsPage(r *http.Request, who *access.Operator) (*view, error) {
	found, total, err := p.c.Machines.Find(r.Context(), metal.Query{Approval: string(registry.Pending), Order: "seen", Limit: inPage, Facts: true})
	if err != nil {
		return nil, err
	}
	d := approvalsData{Total: total, MayChange: who.May(server.Operate, "") == nil}
	for i := range found {
		a := asking{machineRow: rowOf(&found[i]), Claims: claimsOf(&found[i]), Facts: found[i].Facts}
		if a.Rivals, err = p.c.Machines.Claimants(r.Context(), found[i].UUID); err != nil {
			return nil, err
		}
		d.Rows = append(d.Rows, a)
	}
	return &view{name: "approvals", Title: "Approvals", Command: "naupegos machine list --approval pending\nnaupegos machine approve UUID --key FINGERPRINT", Live: liveOf(r), Data: d}, nil
}

// machineActions returns the actions of operators on machines.
func (p *Pages) machineActions() map[string]action {
	m := p.c.Machines
	each := func(what string, do func(r *http.Request, who *access.Operator, uuid string) error, done string) action {
		return action{what: what, need: server.Operate, scope: server.Everything(), do: func(r *http.Request, who *access.Operator) (string, string, error) {
			uuid, err := facts.ParseUUID(r.PathValue("uuid"))
			if err != nil {
				return "", "", err
			}
			to := local(r.PostFormValue("to"))
			if to == "/ui/" {
				to = "/ui/machines/" + uuid
			}
			return uuid, to + "?done=" + done, do(r, who, uuid)
		}}
	}
	all := map[string]action{
		"/ui/machines/{uuid}/approve": each("approved a machine", func(r *http.Request, who *access.Operator, uuid string) error {
			_, err := m.Approve(r.Context(), uuid, r.PostFormValue("key"), who.Name)
			return err
		}, "approved"),
		"/ui/machines/{uuid}/reject": each("rejected a machine", func(r *http.Request, who *access.Operator, uuid string) error {
			_, err := m.Reject(r.Context(), uuid, who.Name)
			return err
		}, "rejected"),
		"/ui/machines/{uuid}/name": each("named a machine", func(r *http.Request, _ *access.Operator, uuid string) error {
			_, err := m.Rename(r.Context(), uuid, strings.TrimSpace(r.PostFormValue("name")))
			return err
		}, "changed"),
		"/ui/machines/{uuid}/label": each("labelled a machine", func(r *http.Request, _ *access.Operator, uuid string) error {
			set, without, err := labels(r.PostForm)
			if err == nil {
				_, err = m.Label(r.Context(), uuid, set, without)
			}
			return err
		}, "changed"),
		"/ui/machines/{uuid}/maintenance": each("put a machine in maintenance, or took it out", func(r *http.Request, _ *access.Operator, uuid string) error {
			_, err := m.Maintain(r.Context(), uuid, strings.TrimSpace(r.PostFormValue("why")))
			return err
		}, "changed"),
		"/ui/machines/{uuid}/reinstall": each("requested a machine's reinstallation", func(r *http.Request, who *access.Operator, uuid string) error {
			err := ticked(r, uuid)
			if err == nil {
				_, err = m.Reinstall(r.Context(), uuid, nil, who.Name)
			}
			return err
		}, "changed"),
		"/ui/machines/{uuid}/keep": each("took a machine's reinstallation back", func(r *http.Request, who *access.Operator, uuid string) error {
			_, err := registry.Keep(r.Context(), m, uuid, who.Name)
			return err
		}, "changed"),
		"/ui/machines/{uuid}/strategy": each("set a machine's update strategy", func(r *http.Request, _ *access.Operator, uuid string) error {
			_, err := m.SetStrategy(r.Context(), uuid, r.PostFormValue("strategy"))
			return err
		}, "changed"),
		"/ui/machines/{uuid}/assign": each("assigned a machine to a pool", func(r *http.Request, _ *access.Operator, uuid string) error {
			return m.Assign(r.Context(), uuid, strings.TrimSpace(r.PostFormValue("cluster")), strings.TrimSpace(r.PostFormValue("pool")))
		}, "changed"),
		"/ui/machines/{uuid}/power": {what: "controlled a machine's power, or asked for its state", need: server.Operate, scope: server.Everything(), within: switching, do: switchAction(p)},
		"/ui/machines/{uuid}/unassign": each("removed a machine from its pool", func(r *http.Request, _ *access.Operator, uuid string) error {
			if err := ticked(r, uuid); err != nil {
				return err
			}
			return m.Unassign(r.Context(), uuid)
		}, "changed"),
		"/ui/machines/{uuid}/forget": {what: "forgot a machine", need: server.Operate, scope: server.Everything(), do: func(r *http.Request, _ *access.Operator) (string, string, error) {
			uuid, err := facts.ParseUUID(r.PathValue("uuid"))
			if err != nil {
				return "", "", err
			}
			if err := ticked(r, uuid); err != nil {
				return uuid, "", err
			}
			return uuid, "/ui/machines?done=forgotten", m.Forget(r.Context(), uuid)
		}},
	}
	return all
}

// ticked refuses what can't be taken back if the form's box is not ticked.
func ticked(r *http.Request, about string) error {
	if r.PostFormValue("sure") == "yes" {
		return nil
	}
	return fail.New(fail.Invalid, "nothing was done: the box was not ticked").At(about)
}

// cuts reports whether a power action cuts off what runs on a machine.
func cuts(act string) bool { return act != "on" && act != "status" }

// switchAction returns what controls a machine's power.
func switchAction(p *Pages) func(r *http.Request, who *access.Operator) (on, to string, err error) {
	return func(r *http.Request, who *access.Operator) (string, string, error) {
		uuid, err := facts.ParseUUID(r.PathValue("uuid"))
		if err != nil {
			return "", "", err
		}
		act, boot := r.PostFormValue("action"), r.PostFormValue("boot")
		if !slices.Contains(registry.PowerActions(), act) {
			return uuid, "", fail.New(fail.Invalid, "%q is not a power action of these pages", act).At(uuid)
		}
		if cuts(act) {
			if err := ticked(r, uuid); err != nil {
				return uuid, "", err
			}
		}
		if act == "status" {
			boot = ""
		}
		on, err := p.c.Machines.SwitchPower(r.Context(), uuid, act, boot, who.Name)
		done := "off"
		if on {
			done = "on"
		}
		return uuid, "/ui/machines/" + uuid + "?done=" + done, err
	}
}

// labels parses the form of labels: "rack=r12" sets a label, "rack-" removes it.
func labels(form url.Values) (set map[string]string, without []string, err error) {
	set = map[string]string{}
	for word := range strings.FieldsSeq(form.Get("labels")) {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case ok:
			set[key] = value
		case strings.HasSuffix(word, "-"):
			without = append(without, strings.TrimSuffix(word, "-"))
		default:
			return nil, nil, fail.New(fail.Invalid, "%q is not a label", word).Do("KEY=VALUE sets a label, KEY- removes it")
		}
	}
	return set, without, nil
}
