package serving

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	oidc "github.com/naupegos/naupegos/internal/server/issuer"
)

// issuerFlags describe the issuer of the ID tokens that operators may present.
type issuerFlags struct {
	c     oidc.Config
	pages oidc.Pages
	rules []string
	ca    string
}

func (f *issuerFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.c.URL, "oidc-issuer", "", "OpenID Connect provider that operators sign in with (naupegos login), https://…")
	c.Flags().StringVar(&f.c.ClientID, "oidc-client-id", "naupegos", "client ID of naupegos at the provider: a public client with PKCE and http://127.0.0.1/callback")
	c.Flags().StringArrayVar(&f.rules, "oidc-role", nil, "role that a claim grants, [CLUSTER/]ROLE=CLAIM:VALUE[&CLAIM:VALUE], such as operate=groups:platform or, with a second factor, admin=groups:platform&amr:mfa; the first match counts (repeatable)")
	c.Flags().StringVar(&f.c.NameBy, "oidc-name", "email", "claim with the name of operators in the audit")
	c.Flags().StringSliceVar(&f.c.Scopes, "oidc-scope", []string{"openid", "profile", "email", "offline_access"}, "scopes to ask the provider for")
	c.Flags().StringVar(&f.pages.URL, "oidc-pages", "", "let operators sign in to the web pages with the provider as well: the address of this server in browsers, https://HOST:PORT; the provider redirects to "+oidc.CallbackPath+" there, and after a sign-out to "+oidc.LeftPath)
	c.Flags().StringVar(&f.pages.ClientID, "oidc-pages-client-id", "", "client ID of the web pages at the provider (default --oidc-client-id)")
	c.Flags().StringVar(&f.pages.Secret, "oidc-pages-secret", "", "file of mode 0600 with the secret of that client, read each time (default none: a public client)")
	c.Flags().DurationVar(&f.pages.Life, "oidc-pages-session", 8*time.Hour, "how long operators stay signed in to the web pages")
	c.Flags().StringVar(&f.ca, "oidc-ca", "", "file with the certificate authority of the provider (default: this host's authorities)")
}

// open returns the issuer, or nil if the flags name none.
func (f *issuerFlags) open() (*oidc.Issuer, error) {
	if f.c.URL == "" {
		if len(f.rules) > 0 || f.ca != "" || f.pages.URL != "" {
			return nil, fail.New(fail.Invalid, "--oidc-role, --oidc-ca and --oidc-pages need --oidc-issuer")
		}
		return nil, nil
	}
	if f.pages.URL != "" {
		if f.pages.ClientID == "" {
			f.pages.ClientID = f.c.ClientID
		}
		f.c.Pages = &f.pages
	} else if f.pages.ClientID != "" || f.pages.Secret != "" {
		return nil, fail.New(fail.Invalid, "--oidc-pages-client-id and --oidc-pages-secret need --oidc-pages")
	}
	for _, text := range f.rules {
		r, err := oidc.ParseRule(text)
		if err != nil {
			return nil, err
		}
		f.c.Rules = append(f.c.Rules, r)
	}
	if f.ca != "" {
		var err error
		if f.c.CA, err = os.ReadFile(f.ca); err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read --oidc-ca")
		}
	}
	return oidc.New(f.c)
}
