package render

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// outside renders a machine's access to the proxy and registries; role is the configuration of the machine's role.
func (c *Renderer) outside(ctx context.Context, s wanted.Slot, role machine.Config) (machine.Config, error) {
	conf := machine.Config{Machine: s.Name}
	if p := c.Doc.Spec.Proxy; p != nil {
		inside, err := c.NoProxy(ctx)
		if err != nil {
			return conf, err
		}
		proxied := site.ProxyParams{Proxy: *p, Account: c.accountOf(ctx), Inside: inside}
		for _, r := range c.Doc.SettingsOf(string(s.Role), s.Pool).Repositories {
			proxied.Sources = append(proxied.Sources, r.URL)
		}
		for _, name := range c.ImageServers() {
			address, err := c.Address(ctx, name)
			if err != nil {
				return conf, err
			}
			proxied.Servers = append(proxied.Servers, address)
		}
		for _, u := range role.Units {
			if u.Name == "containerd.service" || u.Name == "kubelet.service" {
				proxied.Runtimes = append(proxied.Runtimes, u)
			}
		}
		layer, err := site.Proxy(proxied)
		if err != nil {
			return conf, err
		}
		conf.Files, conf.Units = layer.Files, layer.Units
	}
	if s.Role == provider.Gateway {
		return conf, nil
	}
	inside, err := c.insideRegistry(ctx, s, &conf)
	if err != nil {
		return conf, err
	}
	files, err := site.Registries(c.Doc.Spec.Registries, inside, c.accountOf(ctx))
	conf.Files = append(conf.Files, files...)
	return conf, err
}

// NoProxy lists the destinations that the cluster's machines reach without the proxy.
func (c *Renderer) NoProxy(ctx context.Context) ([]string, error) {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := c.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	var inside, networks []string
	for _, m := range machines {
		inside = append(inside, m.Name, m.Address)
	}
	if l := c.Doc.Spec.Provider.Local; l != nil {
		networks = append(networks, l.Network.CIDR)
	}
	if o := c.Doc.Spec.Provider.OpenStack; o != nil {
		networks = append(networks, o.Network.CIDR)
	}
	return site.NoProxy(c.Doc, endpoint, inside, networks), nil
}

func (c *Renderer) accountOf(ctx context.Context) site.AccountOf {
	return func(auth *v1alpha1.BasicAuth, url string) (*site.Account, error) { return c.account(ctx, auth, url) }
}

// account returns the user and password for the service at a URL, or nil if the document refers to none. If the file is missing, the last known
// credential is used, except on a server, which never uses a copy of a removed credential.
func (c *Renderer) account(ctx context.Context, auth *v1alpha1.BasicAuth, url string) (*site.Account, error) {
	if auth == nil {
		return nil, nil
	}
	found, err := c.referred(ctx, auth, url)
	if err != nil {
		return nil, err
	}
	user, password, ok := strings.Cut(strings.TrimRight(string(found), "\r\n"), ":")
	if !ok || user == "" || strings.ContainsFunc(user+password, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fail.New(fail.Invalid, "the credential for %s is not one line USER:PASSWORD", url).At(cmp.Or(auth.Credential, auth.CredentialsFile))
	}
	return &site.Account{User: user, Password: password}, nil
}

// referred returns the secret that a document refers to.
func (c *Renderer) referred(ctx context.Context, auth *v1alpha1.BasicAuth, url string) ([]byte, error) {
	secret := accountName(auth, url)
	found, missing := c.accountLine(ctx, auth, url)
	kept, err := c.Secrets.Get(ctx, secret)
	switch {
	case err != nil && fail.KindOf(err) != fail.NotFound:
		return nil, err
	case missing != nil && len(kept) > 0 && !c.Credentials.Closed:
		found = kept
	case missing != nil:
		return nil, missing
	case !bytes.Equal(found, kept):
		if err := c.Secrets.Put(ctx, secret, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// UpdateKey returns the TSIG key with which zones at a name server are changed. The key itself never leaves for the server.
func (c *Renderer) UpdateKey(ctx context.Context, s v1alpha1.RFC2136) (name, secret string, err error) {
	a, err := c.account(ctx, s.Auth, updateServer(s))
	if err != nil {
		return "", "", err
	}
	return a.User, a.Password, nil
}

// updateServer returns a URL for the name server, under which its key is kept.
func updateServer(s v1alpha1.RFC2136) string {
	return "https://" + net.JoinHostPort(s.Server, strconv.Itoa(s.Port))
}

// CheckUpdateKey returns an error if the document has the addon external-dns, and its key is missing.
func (c *Renderer) CheckUpdateKey(ctx context.Context) error {
	a := c.Doc.Addon(v1alpha1.AddonExternalDNS)
	if a == nil || a.ExternalDNS.RFC2136 == nil {
		return nil
	}
	_, _, err := c.UpdateKey(ctx, *a.ExternalDNS.RFC2136)
	return err
}

func (c *Renderer) accountLine(ctx context.Context, auth *v1alpha1.BasicAuth, url string) ([]byte, error) {
	if get := c.Credentials.Value(auth.Credential, url); get != nil {
		return get(ctx)
	}
	if c.Credentials.Closed {
		return nil, fail.New(fail.Refused, "no credential is named for %s, and documents may not name files of a server", url).At(c.Name()).Do("name one: auth.credential")
	}
	info, err := os.Stat(auth.CredentialsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail.Wrap(fail.NotFound, err, "read the credential for %s", url).Do("write it, with mode 0600: one line USER:PASSWORD, unless the field allows another form")
	case err != nil:
		return nil, fail.Wrap(fail.Invalid, err, "read the credential for %s", url)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fail.New(fail.Refused, "the credential for %s may be read by others than its owner", url).At(auth.CredentialsFile).Do("chmod 600 it")
	}
	line, err := os.ReadFile(auth.CredentialsFile)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the credential for %s", url)
	}
	return line, nil
}
