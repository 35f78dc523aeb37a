package observe

import (
	"context"
	"errors"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

// Unsigned returns the error of an issuer whose missing certificates prevented the comparison of a machine. The machine itself is fine.
func (o *Observed) Unsigned() error {
	for _, s := range o.Want {
		var no *pki.Unsigned
		if seen := o.Machines[s.Name]; seen != nil && errors.As(seen.Err, &no) {
			return seen.Err
		}
	}
	return nil
}

// IssuerReady returns an error if the issuer of the cluster's certificates can't sign before the cluster is built. A cluster that is up asks its issuer only
// when a certificate is due.
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

// CheckIssuer checks an issuer of the cluster's certificates other than naupegos.
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

// Authorities returns the certificates of the authorities that the cluster has already, by name.
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
