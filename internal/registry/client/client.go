// Package client is the API of the registry of machines as those use it who ask a server over the network: its bodies, and calls.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Machine is a machine in lists.
type Machine struct {
	UUID        string            `json:"uuid"`
	Name        string            `json:"name,omitempty"`
	MAC         string            `json:"mac"` // that it boots by
	Address     string            `json:"address,omitempty"`
	Disks       string            `json:"disks,omitempty"` // in words
	State       string            `json:"state"`
	Why         string            `json:"why,omitempty"` // it is in its state
	Approval    string            `json:"approval"`
	Asks        string            `json:"asks,omitempty"`   // fingerprint of a key that waits for approval
	Claims      []Claim           `json:"claims,omitempty"` // where several claim to be this machine: all of them
	Rivals      []string          `json:"rivals,omitempty"` // UUIDs of other machines that wait for approval and claim its MAC addresses
	Cluster     string            `json:"cluster,omitempty"`
	Pool        string            `json:"pool,omitempty"`
	Seat        int               `json:"seat,omitempty"` // its place in the pool
	Roles       []string          `json:"roles,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Maintenance string            `json:"maintenance,omitempty"` // why it is not to be used now
	Unusable    string            `json:"unusable,omitempty"`    // why it can't be given to a cluster
	Strategy    string            `json:"strategy,omitempty"`    // how it takes updates; empty: not at all
	UpToDate    *bool             `json:"upToDate,omitempty"`    // absent: not known
	Seen        time.Time         `json:"seen"`
	Reported    time.Time         `json:"reported,omitzero"` // when its installed system was heard of last
}

// Of is a machine as lists have it. Whether it can be used is said where its facts are known.
func Of(m registry.Machine) Machine {
	rec := m.Record
	out := Machine{UUID: m.UUID, Name: m.Name, Address: rec.Address, Disks: rec.Disks, State: m.State, Why: rec.Why, Approval: m.Approval,
		Cluster: m.Claim.Cluster, Pool: m.Claim.Pool, Seat: m.Claim.Seat, Roles: m.Roles, Labels: m.Labels, Maintenance: rec.Maintenance, Seen: m.Seen}
	if len(m.MACs) > 0 {
		out.MAC = m.MACs[0]
	}
	if rec.Asks != nil {
		out.Asks = rec.Asks.Key
	}
	if m.Disputed() {
		for _, a := range m.Claims() {
			out.Claims = append(out.Claims, Claim{Key: a.Name(), From: a.From, MACs: a.MACs, Since: a.Since, Seen: a.Seen})
		}
	}
	if !rec.Strategy.Disabled {
		out.Strategy = rec.Strategy.Kind
	}
	if is, known := m.UpToDate(); known {
		out.UpToDate = &is
	}
	if m.Report != nil {
		out.Reported = m.Report.At
	}
	if m.Facts != nil {
		out.Unusable = registry.Unusable(m)
	}
	return out
}

// Claim is one of several claims to be the same machine.
type Claim struct {
	Key   string    `json:"key"`            // what approve names it by: the fingerprint of its key, or mac:ADDRESS where it has shown none
	From  string    `json:"from,omitempty"` // the address that it came from; of IPv6 the /64
	MACs  []string  `json:"macs"`           // the first ones
	Since time.Time `json:"since"`
	Seen  time.Time `json:"seen,omitzero"`
}

// NewLockToken asks for a token of a group of machines that reboot in turn.
type NewLockToken struct {
	Group   string `json:"group"`
	Seconds int64  `json:"seconds,omitempty"` // for which it is valid; 0: for ever
}

// MadeLockToken is a token that was made.
type MadeLockToken struct {
	metal.LockToken
	Token string `json:"token"` // is shown here alone
}

// LockTokens are the tokens of groups.
type LockTokens struct {
	Items []metal.LockToken `json:"items"`
}

// Page is a part of a list.
type Page struct {
	Items []Machine `json:"items"`
	Total int       `json:"total"` // of the whole list
}

// Detail is all that is known of a machine.
type Detail struct {
	Machine
	Key        string        `json:"key,omitempty"` // fingerprint of the approved key
	ApprovedBy string        `json:"approvedBy,omitempty"`
	ApprovedAt time.Time     `json:"approvedAt,omitzero"`
	Installed  time.Time     `json:"installed,omitzero"` // when that succeeded last
	Failures   int           `json:"failures,omitempty"` // of installations since then
	Wanted     string        `json:"wanted,omitempty"`   // digest of what should be installed
	Report     *metal.Report `json:"report,omitempty"`
	// Order is what is to be installed, and Progress how far that is.
	Order    *order.Order       `json:"order,omitempty"`
	Progress *registry.Progress `json:"progress,omitempty"`
	HostKeys []string           `json:"hostKeys,omitempty"` // by which SSH knows its installed system
	Slot     string             `json:"slot,omitempty"`     // that it runs from
	Refused  string             `json:"refused,omitempty"`  // digest of what it has tried, and has gone back from
	Facts    *facts.Discovery   `json:"facts,omitempty"`
	Boots    []metal.Boot       `json:"boots"`  // the newest first
	Events   []metal.Event      `json:"events"` // the newest first
}

// Order is what an operator wants of a machine. Which fields a verb reads is said by it.
type Order struct {
	Key     string            `json:"key,omitempty"`     // approve: the fingerprint that is meant
	Name    string            `json:"name,omitempty"`    // name: empty takes the name away
	Labels  map[string]string `json:"labels,omitempty"`  // label
	Without []string          `json:"without,omitempty"` // label: those to take away
	Why     string            `json:"why,omitempty"`     // maintenance: empty ends it
	Cluster string            `json:"cluster,omitempty"` // assign
	Pool    string            `json:"pool,omitempty"`    // assign
	Digest  string            `json:"digest,omitempty"`  // want
	// Strategy is how the machine takes updates from then on: one of registry.Strategies; empty: it takes none.
	Strategy string `json:"strategy,omitempty"`
	// Address, User and Password are of a BMC, and so are the next ones; an empty address forgets it.
	Address  string `json:"address,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"` // is never answered with
	Protocol string `json:"protocol,omitempty"` // ipmi, or redfish; the rest is of that
	// Fingerprint (sha256:HEX) or Authorities (PEM) say which certificate of it is trusted.
	Fingerprint string `json:"fingerprint,omitempty"`
	Authorities string `json:"authorities,omitempty"`
	System      string `json:"system,omitempty"` // the machine's ID there, where it has several
}

// Switching says what is to be done with a machine's power.
type Switching struct {
	Action string `json:"action"`         // status, on, off, cycle, reset or shutdown
	Boot   string `json:"boot,omitempty"` // what it boots from next, once: network or disk; empty: as usual
}

// Switched says how a machine's power is.
type Switched struct {
	On bool `json:"on"`
}

// Scheduling asks for a cluster's machines.
type Scheduling struct {
	registry.Wanted
	DryRun bool `json:"dryRun,omitempty"`
}

// Query is a list's.
type Query struct {
	metal.Query
}

// Values is the query as a URL has it.
func (q Query) Values() url.Values {
	v := url.Values{}
	for key, value := range map[string]string{"state": q.State, "approval": q.Approval, "cluster": q.Cluster, "pool": q.Pool, "role": q.Role, "text": q.Text, "order": q.Order, "unusable": q.Unusable} {
		if value != "" {
			v.Set(key, value)
		}
	}
	for label, value := range q.Labels {
		v.Add("label", label+"="+value)
	}
	if q.Free {
		v.Set("free", "true")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Offset > 0 {
		v.Set("offset", strconv.Itoa(q.Offset))
	}
	return v
}

// QueryOf reads what Values has written.
func QueryOf(v url.Values) (metal.Query, error) {
	q := metal.Query{State: v.Get("state"), Approval: v.Get("approval"), Cluster: v.Get("cluster"), Pool: v.Get("pool"), Role: v.Get("role"),
		Text: v.Get("text"), Order: v.Get("order"), Unusable: v.Get("unusable"), Free: v.Get("free") == "true", Labels: map[string]string{}}
	for _, l := range v["label"] {
		k, value, _ := strings.Cut(l, "=")
		q.Labels[k] = value
	}
	if words := append(registry.Obstacles(), metal.AnyWord); q.Unusable != "" && !slices.Contains(words, q.Unusable) {
		return q, fail.New(fail.Invalid, "unusable=%q says nothing of why machines can't be used", q.Unusable).Do("say one of %s", strings.Join(words, ", "))
	}
	for key, to := range map[string]*int{"limit": &q.Limit, "offset": &q.Offset} {
		if text := v.Get(key); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > 100_000 {
				return q, fail.New(fail.Invalid, "%s=%q is not a number of machines", key, text)
			}
			*to = n
		}
	}
	return q, nil
}

// Client asks a server.
type Client struct {
	Server string       // https://HOST:PORT
	HTTP   *http.Client // believes the server's certificate, and shows whoever asks
}

// List returns a page of machines.
func (c *Client) List(ctx context.Context, q Query) (page Page, err error) {
	return page, c.call(ctx, http.MethodGet, "/api/v1/machines?"+q.Values().Encode(), nil, &page)
}

// Show returns all that is known of a machine: by UUID, MAC address or name.
func (c *Client) Show(ctx context.Context, machine string) (d Detail, err error) {
	return d, c.call(ctx, http.MethodGet, "/api/v1/machines/"+url.PathEscape(machine), nil, &d)
}

// Journal returns a journal of a machine.
func (c *Client) Journal(ctx context.Context, machine, boot, kind string) (j metal.Journal, err error) {
	v := url.Values{"boot": {boot}, "kind": {kind}}
	return j, c.call(ctx, http.MethodGet, "/api/v1/machines/"+url.PathEscape(machine)+"/journal?"+v.Encode(), nil, &j)
}

// Do has something done with a machine: approve, reject, name, label, maintenance, strategy, assign, unassign, reinstall, want or bmc.
func (c *Client) Do(ctx context.Context, machine, verb string, o Order) (m Machine, err error) {
	return m, c.call(ctx, http.MethodPost, "/api/v1/machines/"+url.PathEscape(machine)+"/"+verb, o, &m)
}

// Power does something with a machine's power.
func (c *Client) Power(ctx context.Context, machine string, s Switching) (out Switched, err error) {
	return out, c.call(ctx, http.MethodPost, "/api/v1/machines/"+url.PathEscape(machine)+"/power", s, &out)
}

// Systems are the system images that machines can be installed with.
type Systems struct {
	Items []order.System `json:"items"`
}

// Systems lists them.
func (c *Client) Systems(ctx context.Context) (out Systems, err error) {
	return out, c.call(ctx, http.MethodGet, "/api/v1/systems", nil, &out)
}

// Install says what is to be installed on a machine; nil takes that back.
func (c *Client) Install(ctx context.Context, machine string, o *order.Order) (m Machine, err error) {
	var body any = o
	if o == nil {
		body = struct{}{}
	}
	return m, c.call(ctx, http.MethodPost, "/api/v1/machines/"+url.PathEscape(machine)+"/order", body, &m)
}

// Forget forgets a machine.
func (c *Client) Forget(ctx context.Context, machine string) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/machines/"+url.PathEscape(machine), nil, nil)
}

// Schedule gives a cluster its machines.
func (c *Client) Schedule(ctx context.Context, s Scheduling) (d registry.Decision, err error) {
	return d, c.call(ctx, http.MethodPost, "/api/v1/schedule", s, &d)
}

// Locks returns who is being installed, or may reboot.
func (c *Client) Locks(ctx context.Context) (l Locks, err error) {
	return l, c.call(ctx, http.MethodGet, "/api/v1/locks", nil, &l)
}

// Unlock takes a place away from its holder.
func (c *Client) Unlock(ctx context.Context, group, holder string) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/locks?"+url.Values{"group": {group}, "holder": {holder}}.Encode(), nil, nil)
}

// NewLockToken makes a token of a group.
func (c *Client) NewLockToken(ctx context.Context, in NewLockToken) (out MadeLockToken, err error) {
	return out, c.call(ctx, http.MethodPost, "/api/v1/lock-tokens", in, &out)
}

// LockTokens lists the tokens of groups.
func (c *Client) LockTokens(ctx context.Context) (out LockTokens, err error) {
	return out, c.call(ctx, http.MethodGet, "/api/v1/lock-tokens", nil, &out)
}

// DropLockToken revokes one.
func (c *Client) DropLockToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/lock-tokens/"+url.PathEscape(id), nil, nil)
}

// Locks are places that are held.
type Locks struct {
	Items []metal.Slot `json:"items"`
}

// maxAnswer bounds what is read of a server's answer.
const maxAnswer = 256 << 20

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "write the request")
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.Server, "/")+path, body)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "ask the server").At(c.Server)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fail.Wrap(fail.Unreachable, err, "ask the server").Do("see that it runs, and that its address and its certificate are the right ones")
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return problem.Read(res)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fail.Wrap(fail.Unreachable, err, "read the server's answer").At(c.Server)
	}
	return nil
}
