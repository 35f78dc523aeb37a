// Package client is a client of the machine registry's API over the network: bodies and calls.
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
	MAC         string            `json:"mac"` // of the boot interface
	Address     string            `json:"address,omitempty"`
	Disks       string            `json:"disks,omitempty"` // in words
	State       string            `json:"state"`
	Why         string            `json:"why,omitempty"` // why the machine is in its state
	Approval    string            `json:"approval"`
	Asks        string            `json:"asks,omitempty"`   // fingerprint of a key that waits for approval
	Claims      []Claim           `json:"claims,omitempty"` // if there are several claims to be this machine: all of them
	Rivals      []string          `json:"rivals,omitempty"` // UUIDs of other machines that wait for approval and claim its MAC addresses
	Cluster     string            `json:"cluster,omitempty"`
	Pool        string            `json:"pool,omitempty"`
	Seat        int               `json:"seat,omitempty"` // its place in the pool
	Roles       []string          `json:"roles,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Maintenance string            `json:"maintenance,omitempty"` // why it must not be used now
	Unusable    string            `json:"unusable,omitempty"`    // why it can't be given to a cluster
	Strategy    string            `json:"strategy,omitempty"`    // for updates; empty: none
	UpToDate    *bool             `json:"upToDate,omitempty"`    // absent: unknown
	Seen        time.Time         `json:"seen"`
	Reported    time.Time         `json:"reported,omitzero"` // last report of its installed system
}

// Of returns a machine in the form of lists. Unusable takes the facts into account if they are known.
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
	Key   string    `json:"key"`            // name for approve: the fingerprint of its key, or mac:ADDRESS if it has none
	From  string    `json:"from,omitempty"` // address that it came from; for IPv6 the /64
	MACs  []string  `json:"macs"`           // the first ones
	Since time.Time `json:"since"`
	Seen  time.Time `json:"seen,omitzero"`
}

// NewLockToken requests a token for a group of machines that reboot in turn.
type NewLockToken struct {
	Group   string `json:"group"`
	Seconds int64  `json:"seconds,omitempty"` // validity; 0: unlimited
}

// MadeLockToken is a new token.
type MadeLockToken struct {
	metal.LockToken
	Token string `json:"token"` // shown only here
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

// Detail is a machine's full record.
type Detail struct {
	Machine
	Key        string        `json:"key,omitempty"` // fingerprint of the approved key
	ApprovedBy string        `json:"approvedBy,omitempty"`
	ApprovedAt time.Time     `json:"approvedAt,omitzero"`
	Installed  time.Time     `json:"installed,omitzero"` // last successful installation
	Failures   int           `json:"failures,omitempty"` // of installations since then
	Wanted     string        `json:"wanted,omitempty"`   // digest of the configuration that should be installed
	Report     *metal.Report `json:"report,omitempty"`
	// Order is the installation order, and Progress its progress.
	Order    *order.Order       `json:"order,omitempty"`
	Progress *registry.Progress `json:"progress,omitempty"`
	HostKeys []string           `json:"hostKeys,omitempty"` // SSH host keys of its installed system
	Slot     string             `json:"slot,omitempty"`     // slot of the running system
	Refused  string             `json:"refused,omitempty"`  // digest of a system that it tried and fell back from
	Facts    *facts.Discovery   `json:"facts,omitempty"`
	Boots    []metal.Boot       `json:"boots"`  // the newest first
	Events   []metal.Event      `json:"events"` // the newest first
}

// Order holds the parameters of an operator's verb. Each verb reads its own fields.
type Order struct {
	Key     string            `json:"key,omitempty"`     // approve: fingerprint of the key
	Name    string            `json:"name,omitempty"`    // name: empty removes the name
	Labels  map[string]string `json:"labels,omitempty"`  // label
	Without []string          `json:"without,omitempty"` // label: labels to remove
	Why     string            `json:"why,omitempty"`     // maintenance: empty ends it
	Cluster string            `json:"cluster,omitempty"` // assign
	Pool    string            `json:"pool,omitempty"`    // assign
	Digest  string            `json:"digest,omitempty"`  // want
	Wipe    []string          `json:"wipe,omitempty"`    // reinstall: serial numbers or WWIDs of disks that may be overwritten
	// Strategy is the machine's strategy for updates: one of registry.Strategies; empty: none.
	Strategy string `json:"strategy,omitempty"`
	// Address and the following fields describe a BMC; an empty address removes it.
	Address  string `json:"address,omitempty"`
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"` // never in answers
	Protocol string `json:"protocol,omitempty"` // ipmi or redfish; the following fields are for redfish
	// Fingerprint (sha256:HEX) or Authorities (PEM) define the trusted certificate.
	Fingerprint string `json:"fingerprint,omitempty"`
	Authorities string `json:"authorities,omitempty"`
	System      string `json:"system,omitempty"` // the machine's ID on the BMC, if that has several
}

// Switching is a power action.
type Switching struct {
	Action string `json:"action"`         // status, on, off, cycle, reset or shutdown
	Boot   string `json:"boot,omitempty"` // device for the next boot only: network or disk; empty: as usual
}

// Switched is a machine's power state.
type Switched struct {
	On bool `json:"on"`
}

// Scheduling requests machines for a cluster.
type Scheduling struct {
	registry.Wanted
	DryRun bool `json:"dryRun,omitempty"`
}

// Query is the query of a list.
type Query struct {
	metal.Query
}

// Values returns the query in the form of a URL.
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

// QueryOf parses the result of Values.
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

// Client is a client of a server.
type Client struct {
	Server string       // https://HOST:PORT
	HTTP   *http.Client // verifies the server's certificate, and authenticates the operator
}

// List returns a page of machines.
func (c *Client) List(ctx context.Context, q Query) (page Page, err error) {
	return page, c.call(ctx, http.MethodGet, "/api/v1/machines?"+q.Values().Encode(), nil, &page)
}

// Show returns a machine's full record, by UUID, MAC address or name.
func (c *Client) Show(ctx context.Context, machine string) (d Detail, err error) {
	return d, c.call(ctx, http.MethodGet, "/api/v1/machines/"+url.PathEscape(machine), nil, &d)
}

// Journal returns a journal of a machine.
func (c *Client) Journal(ctx context.Context, machine, boot, kind string) (j metal.Journal, err error) {
	v := url.Values{"boot": {boot}, "kind": {kind}}
	return j, c.call(ctx, http.MethodGet, "/api/v1/machines/"+url.PathEscape(machine)+"/journal?"+v.Encode(), nil, &j)
}

// Do performs a verb on a machine: approve, reject, name, label, maintenance, strategy, assign, unassign, reinstall, keep (takes a reinstallation back),
// want or bmc.
func (c *Client) Do(ctx context.Context, machine, verb string, o Order) (m Machine, err error) {
	return m, c.call(ctx, http.MethodPost, "/api/v1/machines/"+url.PathEscape(machine)+"/"+verb, o, &m)
}

// Power performs a power action on a machine.
func (c *Client) Power(ctx context.Context, machine string, s Switching) (out Switched, err error) {
	return out, c.call(ctx, http.MethodPost, "/api/v1/machines/"+url.PathEscape(machine)+"/power", s, &out)
}

// Systems are the system images for installation.
type Systems struct {
	Items []order.System `json:"items"`
}

// Systems lists them.
func (c *Client) Systems(ctx context.Context) (out Systems, err error) {
	return out, c.call(ctx, http.MethodGet, "/api/v1/systems", nil, &out)
}

// Install sets the installation order of a machine; nil withdraws it.
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

// Schedule assigns machines to a cluster.
func (c *Client) Schedule(ctx context.Context, s Scheduling) (d registry.Decision, err error) {
	return d, c.call(ctx, http.MethodPost, "/api/v1/schedule", s, &d)
}

// Locks returns the held places for installations and reboots.
func (c *Client) Locks(ctx context.Context) (l Locks, err error) {
	return l, c.call(ctx, http.MethodGet, "/api/v1/locks", nil, &l)
}

// Unlock releases a holder's place.
func (c *Client) Unlock(ctx context.Context, group, holder string) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/locks?"+url.Values{"group": {group}, "holder": {holder}}.Encode(), nil, nil)
}

// NewLockToken creates a token of a group.
func (c *Client) NewLockToken(ctx context.Context, in NewLockToken) (out MadeLockToken, err error) {
	return out, c.call(ctx, http.MethodPost, "/api/v1/lock-tokens", in, &out)
}

// LockTokens lists the tokens of groups.
func (c *Client) LockTokens(ctx context.Context) (out LockTokens, err error) {
	return out, c.call(ctx, http.MethodGet, "/api/v1/lock-tokens", nil, &out)
}

// DropLockToken revokes a token.
func (c *Client) DropLockToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/api/v1/lock-tokens/"+url.PathEscape(id), nil, nil)
}

// Locks are held places.
type Locks struct {
	Items []metal.Slot `json:"items"`
}

// maxAnswer bounds the bytes read of a server's answer.
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
