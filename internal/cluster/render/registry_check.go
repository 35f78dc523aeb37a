package render

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/registrycheck"
	"github.com/naupegos/naupegos/internal/cluster/site"
)

// RegistryCheck returns the request for a machine's check of registries and mirrors.
func (c *Renderer) RegistryCheck(ctx context.Context) (registrycheck.Request, error) {
	var r registrycheck.Request
	var err error
	r.Endpoints, err = site.Endpoints(c.Doc.Spec.Registries, func(auth *v1alpha1.BasicAuth, url string) (*site.Account, error) { return c.account(ctx, auth, url) })
	if err != nil || c.Doc.Spec.Proxy == nil {
		return r, err
	}
	p := c.Doc.Spec.Proxy
	account, err := c.account(ctx, p.Auth, cmp.Or(p.HTTPS, p.HTTP))
	if err != nil {
		return r, err
	}
	inside, err := c.NoProxy(ctx)
	if err != nil {
		return r, err
	}
	with := func(address string) string {
		u, err := url.Parse(address)
		if account == nil || address == "" || err != nil {
			return address
		}
		u.User = url.UserPassword(account.User, account.Password)
		return u.String()
	}
	r.HTTPProxy, r.HTTPSProxy, r.NoProxy = with(p.HTTP), with(p.HTTPS), strings.Join(inside, ",")
	return r, nil
}
