package serving

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	oidc "github.com/naupegos/naupegos/internal/server/issuer"
)

// issuerFlags say whose ID tokens operators may show.
type issuerFlags struct {
	c     oidc.Config
	rules []string
	ca    string
}

func (f *issuerFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.c.URL, "oidc-issuer", "", "let operators in who sign in with this OpenID Connect provider (naupegos login), https://…")
	c.Flags().StringVar(&f.c.ClientID, "oidc-client-id", "naupegos", "what the provider knows naupegos as: a public client with PKCE and http://127.0.0.1/callback")
	c.Flags().StringArrayVar(&f.rules, "oidc-role", nil, "which claim gives which role, [CLUSTER/]ROLE=CLAIM:VALUE, such as operate=groups:platform; the first that fits (repeatable)")
	c.Flags().StringVar(&f.c.NameBy, "oidc-name", "email", "the claim that operators are called by in the audit")
	c.Flags().StringSliceVar(&f.c.Scopes, "oidc-scope", []string{"openid", "profile", "email", "offline_access"}, "what operators ask the provider for")
	c.Flags().StringVar(&f.ca, "oidc-ca", "", "who signed the provider's certificate, a file (default those that hosts believe)")
}

// open returns the issuer; nil: none is named.
func (f *issuerFlags) open() (*oidc.Issuer, error) {
	if f.c.URL == "" {
		if len(f.rules) > 0 || f.ca != "" {
			return nil, fail.New(fail.Invalid, "--oidc-role and --oidc-ca need --oidc-issuer")
		}
		return nil, nil
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
