// Package signin signs people in with their organisation's OpenID Connect provider: to a server or to a cluster, by naupegos login, logout and get-token.
//
// It keeps what it got in a file of the user's own, and renews it. Servers and clusters decide what an ID token is good for.
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
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/issuer"
)

// Host holds the parts of the operator's command that these verbs need.
type Host struct {
	Out, Err io.Writer
	Server   func() (client.Config, error) // for the server that the user named; an empty URL if none
	Dir      func() (string, error)        // this user's own directory

	Entrance func(ctx context.Context, name string) (*cluster.Entrance, error) // where a cluster's users sign in
}

// flags are the flags of login.
type flags struct {
	port    int
	timeout time.Duration
	fresh   bool
	device  bool
	issuer  string // name of a cluster's
}

// bind adds the flags that say how to sign in.
func (f *flags) bind(c *cobra.Command) {
	c.Flags().IntVar(&f.port, "port", 0, "port of this machine that the browser returns to (default any free port)")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for the browser")
	c.Flags().BoolVar(&f.device, "device", false, "sign in in a browser anywhere, by a code (device flow)")
}

// NewLogin returns naupegos login.
func NewLogin(h Host) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "login [CLUSTER]",
		Short: "Sign in with an OpenID Connect provider: to a server, or to a cluster",
		Long: `Without CLUSTER, sign in to the server that --server or $NAUPEGOS_SERVER names, with the OpenID Connect provider that it
trusts (naupegos server --oidc-issuer). With CLUSTER, sign in to that cluster's Kubernetes API, with an issuer of
spec.identity.issuers in its document: the result is used by kubectl with a kubeconfig of naupegos kubeconfig --exec.

Open the printed address in a browser on this machine; the browser returns to this command (code flow with PKCE, on
loopback). If the browser runs on another machine, use --device, or forward a port with ssh -L 8250:localhost:8250 and
name it with --port 8250.

The result is kept in signed-in/ of the state directory, mode 0600, and renewed by the commands that use it. Commands
that ask a server use it when neither $NAUPEGOS_TOKEN nor $NAUPEGOS_TOKEN_FILE is set.`,
		Example: "  naupegos login --server https://10.0.0.1:8443 --server-ca server-ca.crt\n  naupegos login --port 8250\n  naupegos login demo\n  naupegos login demo --issuer corp --device",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			if len(args) == 1 {
				return h.toCluster(ctx, args[0], &f)
			}
			if f.issuer != "" {
				return fail.New(fail.Invalid, "--issuer chooses among the issuers of a cluster, and no cluster is named").Do("naupegos login CLUSTER --issuer %s", f.issuer)
			}
			return h.toServer(ctx, &f)
		},
	}
	f.bind(c)
	c.Flags().Lookup("port").Usage = "port of this machine that the browser returns to (default that of the cluster's issuer, else any free port)"
	c.Flags().BoolVar(&f.fresh, "fresh", false, "sign in again even if you are signed in at the provider: kubeconfig, handover, and commands that give up a cluster or its data need a recent sign-in")
	c.Flags().StringVar(&f.issuer, "issuer", "", "with CLUSTER: the issuer's name, if the cluster has several")
	return c
}

// toServer signs the user in to the named server.
func (h Host) toServer(ctx context.Context, f *flags) error {
	conf, dir, err := h.where()
	if err != nil {
		return err
	}
	how, err := client.SignIn(ctx, conf)
	if err != nil {
		return err
	}
	s, name, err := h.signIn(ctx, how, f)
	if err != nil {
		return err
	}
	s.Server = conf.URL
	if err := s.write(file(dir, conf.URL)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.Out, "Signed in to %s as %s.\n", conf.URL, name)
	return err
}

// NewLogout returns naupegos logout.
func NewLogout(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "logout [CLUSTER]",
		Short:   "Sign out of a server, or of a cluster",
		Long:    "Remove what naupegos login stored for the server that --server or $NAUPEGOS_SERVER names or, with CLUSTER, for that cluster's\nissuers. Your session at the provider continues.",
		Example: "  naupegos logout --server https://10.0.0.1:8443\n  naupegos logout demo",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return h.outOfCluster(cmd.Context(), args[0])
			}
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
		return ctx, nil, fail.Wrap(fail.Unreachable, err, "fetch the issuer %s's configuration", how.Issuer)
	}
	return ctx, p, nil
}

// signIn takes the user through the provider's pages. It returns the session and the user's name.
func (h Host) signIn(ctx context.Context, how issuer.SignIn, f *flags) (s *session, name string, err error) {
	ctx, p, err := provider(ctx, how)
	if err != nil {
		return nil, "", err
	}
	if f.device {
		return h.byCode(ctx, p, how)
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
	if _, err := fmt.Fprintf(h.Err, "Open this in a browser on this machine:\n\n  %s\n\n", words.Line(at)); err != nil {
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
	s = &session{SignIn: how}
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
func who(t *oidc.IDToken) string { return words.Line(claimed(t)) }

// claimed returns the user's name as the provider wrote it.
func claimed(t *oidc.IDToken) string {
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
