package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/site"
)

// accountPrefix is the prefix of the secrets that keep what a document refers to.
const accountPrefix = "account-"

// accountName returns the name of the secret that keeps the credential for the service at a URL.
func accountName(auth *v1alpha1.BasicAuth, url string) string {
	sum := sha256.Sum256([]byte(url + "\n" + auth.Credential + "\n" + auth.CredentialsFile))
	return accountPrefix + hex.EncodeToString(sum[:8])
}

// accountNames lists the secrets of all references in a document.
func accountNames(doc *v1alpha1.Cluster) (names []string) {
	add := func(auth *v1alpha1.BasicAuth, url string) {
		if auth != nil {
			names = append(names, accountName(auth, url))
		}
	}
	if p := doc.Spec.Proxy; p != nil {
		add(p.Auth, p.HTTP)
		add(p.Auth, p.HTTPS)
	}
	for _, r := range doc.Spec.Registries {
		add(r.Auth, site.ServerURL(r.Host))
		for _, m := range r.Mirrors {
			add(m.Auth, m.URL)
		}
	}
	for _, w := range doc.Spec.Identity.AuthorizationWebhooks {
		add((*v1alpha1.BasicAuth)(w.Auth), w.URL)
	}
	if w := doc.Spec.Kubernetes.APIServer.AuditWebhook; w != nil {
		add((*v1alpha1.BasicAuth)(w.Auth), w.URL)
	}
	if a := doc.Addon(v1alpha1.AddonExternalDNS); a != nil && a.ExternalDNS != nil && a.ExternalDNS.RFC2136 != nil {
		add(a.ExternalDNS.RFC2136.Auth, updateServer(*a.ExternalDNS.RFC2136))
	}
	return names
}

// ForgetAccounts deletes the kept credentials that the document no longer refers to.
func (c *Renderer) ForgetAccounts(ctx context.Context) error {
	names, err := c.Secrets.Names(ctx)
	if err != nil {
		return err
	}
	used := accountNames(c.Doc)
	for _, name := range names {
		if !strings.HasPrefix(name, accountPrefix) || slices.Contains(used, name) {
			continue
		}
		if err := c.Secrets.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
