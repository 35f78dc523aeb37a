package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// inPage is the number of machines on a page.
const inPage = 100

// usualOrder is the default order of the list.
const usualOrder = "name"

// machineRow is a machine in the list.
type machineRow struct {
	UUID, Title, MAC, Address, Domain, State, Why, Approval, Strategy, UpToDate, Cluster, Pool, Unusable string
	Disks, Roles                                                                                         []string
	Seen, Updated                                                                                        time.Time
}

// chip is a filter that is a link.
type chip struct {
	Text, Href string
	Here       bool
}

// machinesData is the data of the list of machines.
type machinesData struct {
	Rows              []machineRow
	Total, From, To   int
	Text              string
	Hidden            map[string]string // fields that the filter's form preserves
	States, Approvals []chip
	Uses              []chip // by cluster, by role, and free ones
	Obstacles         []chip // why free machines can't be used
	Heads             []head
	Before, After     string // addresses of the pages before and after this one
}

// machineColumns returns the columns of the list of machines. The store sorts them.
func machineColumns() []column[machineRow] {
	return []column[machineRow]{
		{Text: "Machine", By: "name"}, {Text: "MAC address"}, {Text: "Address, name"}, {Text: "Disks"}, {Text: "Cluster, roles"}, {Text: "State", By: "state"},
		{Text: "Strategy"}, {Text: "Up to date"}, {Text: "Last seen", By: "seen", Falls: true}, {Text: "Installed"},
	}
}

// machinesPage lists machines.
func (p *Pages) machinesPage(r *http.Request, _ *access.Operator) (*view, error) {
	q := r.URL.Query()
	page, _ := strconv.Atoi(q.Get("page")) // an invalid number means the first page
	page = max(page, 1)
	ask := metal.Query{
		Text: strings.TrimSpace(q.Get("text")), State: q.Get("state"), Approval: q.Get("approval"), Cluster: q.Get("cluster"), Role: q.Get("role"),
		Free: q.Get("free") != "", Unusable: obstacle(q), Order: orderOf(r.URL, usualOrder, machineColumns()), Limit: inPage, Offset: (page - 1) * inPage,
		Facts: true, // the disks come from the facts
	}
	found, total, err := p.c.Machines.Find(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	d := machinesData{Total: total, From: min(ask.Offset+1, total), To: ask.Offset + len(found), Text: ask.Text, Hidden: map[string]string{}}
	for i := range found {
		d.Rows = append(d.Rows, rowOf(&found[i]))
	}
	for _, key := range []string{"state", "approval", "cluster", "role", "free", "unusable", "order"} {
		if v := q.Get(key); v != "" {
			d.Hidden[key] = v
		}
	}
	d.States = chips(r.URL, "state", "", "discovered", "granted", "denied", "installed", "running", "failed")
	d.Approvals = chips(r.URL, "approval", "", "pending", "approved", "rejected")
	if d.Uses, err = p.uses(r); err != nil {
		return nil, err
	}
	d.Obstacles = obstacles(r.URL, ask.Unusable)
	d.Heads = headsOf(r.URL, ask.Order, machineColumns())
	if page > 1 {
		d.Before = with(r.URL, "page", strconv.Itoa(page-1))
	}
	if d.To < total {
		d.After = with(r.URL, "page", strconv.Itoa(page+1))
	}
	return &view{name: "machines", Title: "Machines", Command: "naupegos machine list" + listFlags(ask), Live: liveOf(r), Data: d}, nil
}

// rowOf returns a machine's row of the list.
func rowOf(m *registry.Machine) machineRow {
	row := machineRow{
		UUID: m.UUID, Title: m.Title(), Address: m.Record.Address, Domain: m.Record.DomainName, Disks: strings.FieldsFunc(m.Record.Disks, func(r rune) bool { return r == ',' }), State: m.State,
		Approval: m.Approval, Strategy: m.Record.Strategy.Kind, Roles: m.Roles, Seen: m.Seen, Updated: m.Record.Installed, UpToDate: "unknown",
		Unusable: registry.Unusable(*m),
	}
	if s := registry.State(m.State); s == registry.Denied || s == registry.Failed {
		row.Why = m.Record.Why
	}
	if len(m.MACs) > 0 {
		row.MAC = m.MACs[0]
	}
	if m.Claim.Cluster != "" {
		row.Cluster, row.Pool = m.Claim.Cluster, m.Claim.Pool
	}
	if is, known := m.UpToDate(); known {
		row.UpToDate = map[bool]string{true: "up to date", false: "outdated"}[is]
	}
	return row
}

// chips returns the filters of one field, one for each value; the empty value removes the filter.
func chips(u *url.URL, key string, values ...string) (all []chip) {
	now := u.Query().Get(key)
	for _, v := range values {
		text := v
		if v == "" {
			text = "any " + key
		}
		all = append(all, chip{text, with(u, key, v), v == now})
	}
	return all
}

// uses returns the filters by use: free machines, and the machines of each cluster and role. It omits clusters of other providers.
func (p *Pages) uses(r *http.Request) ([]chip, error) {
	q := r.URL.Query()
	known, err := p.c.Store.Clusters(r.Context())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range known {
		if c.Provider == metalProvider {
			names = append(names, c.Name)
		}
	}
	if here := q.Get("cluster"); here != "" && !slices.Contains(names, here) {
		names = append(names, here)
	}
	rest, is := unused(r.URL), func(key, value string) bool { return q.Get(key) == value }
	all := []chip{
		{"any use", with(rest, "free", ""), is("free", "") && is("cluster", "") && is("role", "") && obstacle(q) == ""},
		{"free", with(rest, "free", "yes"), !is("free", "")},
	}
	for _, name := range names {
		all = append(all, chip{"of " + name, with(rest, "cluster", name), is("cluster", name)})
	}
	for _, role := range []string{registry.RoleControlPlane, registry.RoleEtcd, registry.RoleNode, registry.RoleGateway} {
		all = append(all, chip{role, with(rest, "role", role), is("role", role)})
	}
	return all, nil
}

// unused returns an address without the filters by use, which exclude each other.
func unused(u *url.URL) *url.URL {
	rest, q := *u, u.Query()
	for _, key := range []string{"free", "cluster", "role", "unusable"} {
		q.Del(key)
	}
	rest.RawQuery = q.Encode()
	return &rest
}

// obstacle returns the obstacle that the list is filtered by, or "".
func obstacle(q url.Values) string {
	if word := q.Get("unusable"); word == metal.AnyWord || slices.Contains(registry.Obstacles(), word) {
		return word
	}
	return ""
}

// obstacles returns the filters for free machines by the reason why they can't be used.
func obstacles(u *url.URL, now string) (all []chip) {
	text := map[string]string{registry.Unapproved: "not approved", registry.Maintenance: "in maintenance", registry.Broken: "installation failed", registry.Diskless: "no disk"}
	all = append(all, chip{"can't be used", with(unused(u), "unusable", metal.AnyWord), now == metal.AnyWord})
	for _, word := range registry.Obstacles() {
		all = append(all, chip{text[word], with(unused(u), "unusable", word), now == word})
	}
	return all
}

// metalProvider is the provider of clusters of physical machines.
const metalProvider = "metal"

// with returns the address of a page with one field of its query changed. Unless that is the page number, it leads to the first page of a list.
func with(u *url.URL, key, value string) string {
	q := u.Query()
	q.Del("done")
	q.Del("look") // a look takes seconds
	if key != "page" {
		q.Del("page")
	}
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	if len(q) == 0 {
		return u.Path
	}
	return u.Path + "?" + q.Encode()
}

// listFlags returns the flags of the command that lists the same machines.
func listFlags(q metal.Query) string {
	var b strings.Builder
	for _, f := range []struct{ name, value string }{
		{"--state", q.State}, {"--approval", q.Approval}, {"--cluster", q.Cluster}, {"--role", q.Role}, {"--unusable", q.Unusable}, {"--match", q.Text}, {"--sort", q.Order},
	} {
		if f.value != "" && f.value != usualOrder {
			b.WriteString(" " + f.name + between(f.value) + quote(f.value))
		}
	}
	if q.Free {
		b.WriteString(" --free")
	}
	return b.String()
}

// between returns the separator between a flag and its value; it is = if the value could look like a flag.
func between(value string) string {
	if strings.HasPrefix(value, "-") {
		return "="
	}
	return " "
}

// quote quotes a word for a shell if needed.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:/=_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
