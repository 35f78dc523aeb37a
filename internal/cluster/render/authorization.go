package render

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
)

// Authorization returns how API servers authorize requests.
func (c *Renderer) Authorization(ctx context.Context) (layout.Authorization, error) {
	var out layout.Authorization
	var hooks []identity.Webhook
	configs := c.Doc.Spec.Identity.Authorizers()
	for i, w := range c.Doc.Spec.Identity.AuthorizationWebhooks {
		user, err := c.userFor(ctx, w.Auth, w.URL)
		if err != nil {
			return out, err
		}
		content := []byte(layout.WebhookKubeconfig(w.URL, w.CA, user))
		at := layout.WebhookPath(w.Name, content)
		out.Kubeconfigs = append(out.Kubeconfigs, machine.File{Path: at, Mode: 0o600, Content: content, Secret: user != nil})
		hooks = append(hooks, identity.Webhook{Name: w.Name, Kubeconfig: at, Config: configs[i]})
	}
	if len(hooks) == 0 {
		return out, nil
	}
	var err error
	out.Config, err = identity.AuthorizationConfig(hooks)
	return out, err
}

// userFor returns the user of a kubeconfig for the webhook at a URL, with the secret that the document refers to; nil if it refers to none.
func (c *Renderer) userFor(ctx context.Context, a *v1alpha1.WebhookAuth, url string) (map[string]any, error) {
	if a == nil {
		return nil, nil
	}
	secret, err := c.referred(ctx, (*v1alpha1.BasicAuth)(a), url)
	if err != nil {
		return nil, err
	}
	user := webhookUser(secret)
	if user == nil {
		return nil, fail.New(fail.Invalid, "the credential for %s has a form that webhooks do not take", url).At(cmp.Or(a.Credential, a.CredentialsFile)).
			Do("give it one line USER:PASSWORD, one line token=TOKEN, or a client certificate and its key in PEM")
	}
	return user, nil
}

// webhookUser returns the user of a kubeconfig with a secret; nil if the secret has no known form.
func webhookUser(secret []byte) map[string]any {
	text := strings.TrimSpace(string(secret))
	if strings.HasPrefix(text, "-----BEGIN ") {
		if _, err := tls.X509KeyPair(secret, secret); err != nil {
			return nil
		}
		var certs, key []byte
		for block, rest := pem.Decode(secret); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" {
				certs = append(certs, pem.EncodeToMemory(block)...)
			} else if strings.HasSuffix(block.Type, "PRIVATE KEY") {
				key = pem.EncodeToMemory(block)
			}
		}
		return map[string]any{"client-certificate-data": base64.StdEncoding.EncodeToString(certs), "client-key-data": base64.StdEncoding.EncodeToString(key)}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil
	}
	if token, ok := strings.CutPrefix(text, "token="); ok && token != "" {
		return map[string]any{"token": token}
	}
	if name, password, ok := strings.Cut(text, ":"); ok && name != "" {
		return map[string]any{"username": name, "password": password}
	}
	return nil
}
