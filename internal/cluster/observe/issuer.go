package observe

import (
	"context"
	"errors"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

// Unsigned is why a machine could not be compared with what it should be: its certificates could not be had. Nothing is wrong with the machine.
func (o *Observed) Unsigned() error {
	for _, s := range o.Want {
		var no *pki.Unsigned
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &no) {
			return seen.Err
		}
	}
	return nil
}

// IssuerReady is nil where whoever signs the cluster's certificates can do so: a cluster is not begun before. One that is up asks for what it needs
// when it needs it, and goes on without where nothing is due.
func (c *Observer) IssuerReady(ctx context.Context) error {
	if c.Vault == nil || c.Facts.Bootstrapped() {
		return nil
	}
	have, err := c.Authorities(ctx)
	if err != nil {
		return err
	}
	return c.Vault.Ready(ctx, have)
}

// CheckIssuer looks at whoever signs the cluster's certificates, where that is not naupegos.
func (c *Observer) CheckIssuer(ctx context.Context) (out []provider.Check, _ error) {
	if c.Vault == nil {
		return nil, nil
	}
	have, err := c.Authorities(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range c.Vault.Check(ctx, have) {
		check := provider.Check{Name: f.Name, Result: provider.Fine, Detail: f.Detail}
		switch {
		case f.Err != nil:
			check.Result, check.Detail = provider.Failing, f.Err.Error()
		case f.Warning:
			check.Result = provider.Warning
		}
		out = append(out, check)
	}
	return out, nil
}

// Authorities are the certificates of those that the cluster has already, by their names.
func (c *Observer) Authorities(ctx context.Context) (map[string][]byte, error) {
	have := map[string][]byte{}
	for _, name := range pki.Authorities() {
		cert, err := c.PKI.Certificate(ctx, name, c.Generation(name))
		if fail.KindOf(err) == fail.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		have[name] = cert
	}
	return have, nil
}
