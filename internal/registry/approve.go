package registry

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Rule approves machines by their facts: each key is a fact, each value a pattern of path.Match. All must match.
type Rule map[string]string

// FactsOf returns the facts that rules and pools can match.
func FactsOf(d *facts.Discovery) map[string][]string {
	s := d.System
	if s == nil {
		s = &facts.System{}
	}
	all := map[string][]string{"uuid": {d.Boot.UUID}, "mac": d.MACs(), "manufacturer": {s.Manufacturer}, "product": {s.Product}, "serial": {s.Serial}, "chassis": nil}
	for _, n := range d.LLDP.Data.Interfaces {
		all["chassis"] = append(all["chassis"], n.Chassis.ID, n.Chassis.Name)
	}
	return all
}

// ParseRule reads a rule: "manufacturer=Dell*,serial=ABC*".
func ParseRule(text string) (Rule, error) {
	r, known := Rule{}, FactsOf(&facts.Discovery{})
	for part := range strings.SplitSeq(text, ",") {
		key, pattern, ok := strings.Cut(part, "=")
		_, named := known[key]
		if _, err := path.Match(pattern, ""); !ok || !named || pattern == "" || err != nil {
			return nil, fail.New(fail.Invalid, "%q is not a rule for machines", text).
				Do("write FACT=PATTERN, several separated by commas; facts are uuid, mac, manufacturer, product, serial and chassis")
		}
		r[key] = pattern
	}
	return r, nil
}

// String returns the rule in ParseRule's form.
func (r Rule) String() string {
	parts := make([]string, 0, len(r))
	for k, v := range r {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// Warning returns a warning about the rule's risk for the operator who sets it.
func (r Rule) Warning() string {
	return "rule " + r.String() + " approves whatever machine says so, and anybody on the provisioning network can say it. Approved machines can become a control plane, " +
		"with the keys of a cluster: keep that network to machines and operators, or approve machines by their keys"
}

func (r Rule) matches(d *facts.Discovery) bool {
	all := FactsOf(d)
	for key, pattern := range r {
		if !slices.ContainsFunc(all[key], func(v string) bool { ok, err := path.Match(pattern, v); return ok && err == nil && v != "" }) {
			return false
		}
	}
	return len(r) > 0
}

func (r *Registry) ruleFor(d *facts.Discovery) (Rule, bool) {
	i := slices.IndexFunc(r.o.Rules, func(rule Rule) bool { return rule.matches(d) })
	if i < 0 {
		return nil, false
	}
	return r.o.Rules[i], true
}

// Approve approves a machine with the key of this fingerprint, and drops claims with other keys; by names the operator. If the machine has
// shown a key, an empty key is fail.Invalid. It is fail.Conflict if the machine does not ask with this key.
func (r *Registry) Approve(ctx context.Context, uuid, key, by string) (*Machine, error) {
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error { return r.settle(d, rec, key, by) })
}

// accept makes the key that waits for approval the machine's key, and issues its certificate.
func (r *Registry) accept(uuid string, rec *Record) error {
	rec.Key, rec.Sequence, rec.Certificate = rec.Asks.Key, rec.Asks.Sequence, ""
	if r.o.Issuer != nil {
		block, _ := pem.Decode([]byte(rec.Asks.Request))
		if block == nil {
			return fail.New(fail.Internal, "the machine's certificate request can't be read any more").At(uuid)
		}
		req, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "read the machine's certificate request").At(uuid)
		}
		cert, err := r.o.Issuer.IssueMachine(uuid, req.PublicKey)
		if err != nil {
			return err
		}
		rec.Certificate = string(cert)
	}
	rec.Asks = nil
	return nil
}

// Reject bars a machine from use, and drops its key and certificate.
func (r *Registry) Reject(ctx context.Context, uuid, by string) (*Machine, error) {
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		d.Approval, d.Waits, d.Rivals = string(Rejected), metal.Kept, []string{}
		rec.Key, rec.Certificate, rec.Asks, rec.Rivals, rec.Sequence = "", "", nil, nil, 0
		d.Note("rejected", "by "+by)
		return nil
	})
}

// Knows returns fail.Unauthorized unless a public key is the approved one of a machine.
func (r *Registry) Knows(m *Machine, public any) error {
	if Approval(m.Approval) != Approved || m.Record.Key == "" || facts.Fingerprint(public) != m.Record.Key {
		return fail.New(fail.Unauthorized, "the certificate is not that of the machine").At(m.UUID).Do("have it enrol, and approve it: naupegos machine approve %s", m.UUID)
	}
	return nil
}
