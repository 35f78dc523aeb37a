// Package signin implements naupegos login and logout, with which operators sign in to a server through their organisation's OpenID Connect provider.
//
// It stores the session in a file of the operator, and renews it. The server decides which rights an ID token gives.
package signin

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/issuer"
)

// Host holds the parts of the operator's command that these verbs need.
type Host struct {
	Out, Err io.Writer
	Server   func() (client.Config, error) // for the server that the user named; an empty URL if none
	Dir      func() (string, error)        // this user's own directory
}

// flags are the flags of login.
type flags struct {
	port    int
	timeout time.Duration
	fresh   bool
}

// NewLogin returns naupegos login.
func NewLogin(h Host) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "login",
		Short: "Sign in to a server in a browser, with an OpenID Connect provider",
		Long: `Sign in to the server that --server or $NAUPEGOS_SERVER names, with the OpenID Connect provider that it trusts (naupegos
server --oidc-issuer). Open the printed address in a browser on this machine; the browser returns to this command (code
flow with PKCE, on loopback). If the browser runs on another machine, forward a port with ssh -L 8250:localhost:8250 and
name it with --port 8250.

The result is kept in signed-in/ of the state directory, mode 0600, and renewed by the commands that use it. They use it
when neither $NAUPEGOS_TOKEN nor $NAUPEGOS_TOKEN_FILE is set.`,
		Example: "  naupegos login --server https://10.0.0.1:8443 --server-ca server-ca.crt\n  naupegos login --port 8250",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, dir, err := h.where()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			s, name, err := h.signIn(ctx, conf, &f)
			if err != nil {
				return err
			}
			if err := s.write(file(dir, conf.URL)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(h.Out, "Signed in to %s as %s.\n", conf.URL, name)
			return err
		},
	}
	c.Flags().IntVar(&f.port, "port", 0, "port of this machine that the browser returns to (default any free port)")
	c.Flags().BoolVar(&f.fresh, "fresh", false, "have the provider ask who you are even if you are signed in there: kubeconfig, handover, release and destroy need a recent sign-in")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for the browser")
	return c
}

// NewLogout returns naupegos logout.
func NewLogout(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "logout",
		Short:   "Sign out of a server",
		Long:    "Remove what naupegos login stored for the server that --server or $NAUPEGOS_SERVER names. Your session at the provider\ncontinues.",
		Example: "  naupegos logout --server https://10.0.0.1:8443",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			conf, dir, err := h.where()
			if err != nil {
				return err
			}
			if err := remove(file(dir, conf.URL)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(h.Out, "Signed out of %s.\n", conf.URL)
			return err
		},
	}
}

func (h Host) where() (conf client.Config, dir string, err error) {
	if conf, err = h.Server(); err != nil {
		return conf, "", err
	}
	if conf.URL == "" {
		return conf, "", fail.New(fail.Invalid, "no server is named").Do("name one by --server https://HOST:PORT, or by $NAUPEGOS_SERVER")
	}
	dir, err = h.Dir()
	return conf, dir, err
}

// provider gets the issuer's configuration.
func provider(ctx context.Context, how issuer.SignIn) (context.Context, *oidc.Provider, error) {
	hc, err := issuer.Client([]byte(how.CA))
	if err != nil {
		return ctx, nil, err
	}
	ctx = oidc.ClientContext(ctx, hc)
	p, err := oidc.NewProvider(ctx, how.Issuer)
	if err != nil {
		return ctx, nil, fail.Wrap(fail.Unreachable, err, "ask the issuer %s what it is", how.Issuer)
	}
	return ctx, p, nil
}

// signIn takes the user through the provider's pages. It returns the session and the user's name.
func (h Host) signIn(ctx context.Context, conf client.Config, f *flags) (s *session, name string, err error) {
	how, err := client.SignIn(ctx, conf)
	if err != nil {
		return nil, "", err
	}
	ctx, p, err := provider(ctx, how)
	if err != nil {
		return nil, "", err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		return nil, "", fail.Wrap(fail.Refused, err, "listen for the browser").Do("name another --port")
	}
	defer func() { _ = l.Close() }()
	back := newReturn()
	o := oauth2.Config{ClientID: how.ClientID, Endpoint: p.Endpoint(), RedirectURL: "http://" + l.Addr().String() + returnPath, Scopes: how.Scopes}
	verifier, nonce := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	options := []oauth2.AuthCodeOption{oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)}
	if f.fresh {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	at := o.AuthCodeURL(back.state, options...)
	if _, err := fmt.Fprintf(h.Err, "Open this in a browser on this machine:\n\n  %s\n\n", at); err != nil {
		return nil, "", err
	}
	code, err := back.wait(ctx, l)
	if err != nil {
		return nil, "", err
	}
	got, err := o.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, "", refused(err)
	}
	s = &session{Server: conf.URL, SignIn: how}
	token, err := s.take(ctx, p, got)
	if err != nil {
		return nil, "", err
	}
	if token.Nonce != nonce {
		return nil, "", fail.New(fail.Unauthorized, "the provider's answer is not the one to this question").Do("begin again")
	}
	return s, who(token), nil
}

// who returns the operator of an ID token, for people.
func who(t *oidc.IDToken) string {
	var claims struct {
		Email string `json:"email"`
		Name  string `json:"preferred_username"`
	}
	if err := t.Claims(&claims); err == nil && claims.Email != "" {
		return claims.Email
	}
	if claims.Name != "" {
		return claims.Name
	}
	return t.Subject
}
