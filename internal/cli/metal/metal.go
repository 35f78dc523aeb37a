// Package metal is the verbs about the physical machines that a server knows: flags in, one call of the server, output out.
//
// It knows the registry by its API alone.
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
	"github.com/naupegos/naupegos/internal/registry/client"
)

// Host is what the operator's command lends these verbs.
type Host struct {
	Out, Err io.Writer
	Server   func() (Server, error)                // the one that is named; without a URL none is
	Confirm  func(yes bool, question string) error // asks, unless yes
}

// Server is the one whose machines are meant, and who asks it.
type Server struct {
	URL, Token string
	CA         []byte // PEM: by what the server is believed; empty: by what this host believes
}

// Verbs are the verbs, and how they reach the server.
type Verbs struct{ h Host }

// Extend adds the verbs to a command.
func Extend(c *cobra.Command, h Host) *Verbs {
	v := &Verbs{h: h}
	c.AddCommand(v.show(), v.approve(), v.reject(), v.name(), v.label(), v.assign(), v.unassign(), v.maintenance(), v.strategy(), v.install(), v.reinstall(), v.forget(), v.bmc(), v.power(),
		v.journal(), v.schedule(), v.locks(), v.unlock(), v.lockTokens())
	return v
}

// Wanted reports whether a server is named.
func (v *Verbs) Wanted() bool {
	s, err := v.h.Server()
	return err != nil || s.URL != ""
}

// client returns what asks the server.
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
			return nil, fail.New(fail.Invalid, "there is no certificate in the file that says who signed the server's").Do("it is server-ca.crt of the server's state directory")
		}
	}
	transport := &http.Transport{TLSClientConfig: conf, Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second}
	return &client.Client{Server: s.URL, HTTP: &http.Client{Transport: bearer{s.Token, transport}, Timeout: 3 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil // a token is for one server
}

// bearer shows a token with each request.
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

// verb is a command whose first argument is a machine.
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

// MACHINE as the help has it.
const meant = "\n\nMACHINE is the machine's UUID, one of its MAC addresses, or its name."
