package render

import (
	"context"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/registrycheck"
	"github.com/naupegos/naupegos/internal/cluster/site"
)

// RegistryCheck returns the request for a machine's check of registries and mirrors.
func (c *Renderer) RegistryCheck(ctx context.Context) (registrycheck.Request, error) {
	var r registrycheck.Request
	var err error
	r.Endpoints, err = site.Endpoints(c.Doc.Spec.Registries, c.accountOf(ctx))
	if err != nil || c.Doc.Spec.Proxy == nil {
		return r, err
	}
	p := c.Doc.Spec.Proxy
	inside, err := c.NoProxy(ctx)
	if err != nil {
		return r, err
	}
	r.NoProxy = strings.Join(inside, ",")
	if r.HTTPProxy, err = c.proxyAddress(ctx, p.Auth, p.HTTP); err != nil {
		return r, err
	}
	r.HTTPSProxy, err = c.proxyAddress(ctx, p.Auth, p.HTTPS)
	return r, err
}

// proxyAddress returns a proxy's address with the account for it. Each proxy has its own: a credential may be bound to one host.
func (c *Renderer) proxyAddress(ctx context.Context, auth *v1alpha1.BasicAuth, address string) (string, error) {
	if address == "" {
		return "", nil
	}
	account, err := c.account(ctx, auth, address)
	return site.WithAccount(address, account), err
}
