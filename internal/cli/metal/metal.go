// Package metal implements the verbs about a server's physical machines. They parse flags, make one call of the server and print the result.
//
// It depends only on the registry's API.
package metal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// Host holds the parts of the operator's command that these verbs need.
type Host struct {
	Out, Err io.Writer
	Server   func() (Server, error)                // the server that the user named; an empty URL if none
	Confirm  func(yes bool, question string) error // asks the question, unless yes is set
}

// Server is the server that manages the machines, with the operator's token.
type Server struct {
	URL, Token string
	CA         []byte // PEM authorities for the server's certificate; empty: this host's
}

// Verbs implements the verbs.
type Verbs struct{ h Host }

// Extend adds the verbs to a command.
func Extend(c *cobra.Command, h Host) *Verbs {
	v := &Verbs{h: h}
	c.AddCommand(v.show(), v.approve(), v.reject(), v.name(), v.label(), v.assign(), v.unassign(), v.maintenance(), v.strategy(), v.install(), v.reinstall(), v.forget(), v.bmc(), v.power(),
		v.journal(), v.schedule(), v.locks(), v.unlock(), v.lockTokens())
	return v
}

// Wanted reports whether the user named a server.
func (v *Verbs) Wanted() bool {
	s, err := v.h.Server()
	return err != nil || s.URL != ""
}

// client returns a client of the server.
func (v *Verbs) client() (*client.Client, error) {
	s, err := v.h.Server()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fail.New(fail.Invalid, "the server of physical machines is not named by an https:// address").Do("give --server https://HOST:8443, or set $NAUPEGOS_SERVER")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, fail.New(fail.Invalid, "the file with the server's authority holds no certificate").Do("it is server-ca.crt of the server's state directory")
		}
	}
	transport := &http.Transport{TLSClientConfig: conf, Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second}
	return &client.Client{Server: s.URL, HTTP: &http.Client{Transport: bearer{s.Token, scheme.Watch(transport)}, Timeout: 3 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil // a token must not go to another server
}

// bearer adds a token to each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// verb returns a command with a machine as its first argument.
func (v *Verbs) verb(use, short, long, example string, args cobra.PositionalArgs, do func(ctx context.Context, c *client.Client, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := v.client()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c, args)
		},
	}
}

// Explains MACHINE in the help.
const meant = "\n\nMACHINE is the machine's UUID, one of its MAC addresses, or its name."
