// Package metal is the verbs about the physical machines that a server knows: flags in, one call of the server, output out.
//
// It knows the registry by its API alone.
package metal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/client"
)

// Host is what the operator's command lends these verbs.
type Host struct {
	Out, Err io.Writer
	StateDir func() (string, error)                // where a server on this host has left its authority's certificate
	Confirm  func(yes bool, question string) error // asks, unless yes
}

// serverEnv, tokenEnv and caFile say where the server is, who asks, and by what the server's certificate is believed.
const (
	serverEnv = "NAUPEGOS_SERVER"
	tokenEnv  = "NAUPEGOS_TOKEN" //nolint:gosec // a name
	caFile    = "server-ca.crt"
)

// Verbs are the verbs, and how they reach the server.
type Verbs struct {
	h          Host
	server, ca string
}

// Extend adds the verbs to a command, with the flags that say which server is meant.
func Extend(c *cobra.Command, h Host) *Verbs {
	v := &Verbs{h: h}
	c.PersistentFlags().StringVar(&v.server, "server", "", "the server whose physical machines are meant, https://HOST:PORT (default $NAUPEGOS_SERVER); the token is read from $NAUPEGOS_TOKEN")
	c.PersistentFlags().StringVar(&v.ca, "server-ca", "", "the certificate (PEM) by which the server is believed (default server-ca.crt in the state directory, else the system's)")
	c.AddCommand(v.show(), v.approve(), v.reject(), v.name(), v.label(), v.assign(), v.unassign(), v.maintenance(), v.reinstall(), v.forget(), v.bmc(), v.power(),
		v.journal(), v.schedule(), v.locks(), v.unlock())
	return v
}

// Wanted reports whether a server is named by a flag, or by the environment.
func (v *Verbs) Wanted() bool { return v.server != "" || os.Getenv(serverEnv) != "" }

// client returns what asks the server.
func (v *Verbs) client() (*client.Client, error) {
	address := v.server
	if address == "" {
		address = os.Getenv(serverEnv)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fail.New(fail.Invalid, "the server of physical machines is not named by an https:// address").Do("give --server https://HOST:8443, or set $%s", serverEnv)
	}
	pool, err := v.roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second}
	return &client.Client{Server: address, HTTP: &http.Client{Transport: bearer{os.Getenv(tokenEnv), transport}, Timeout: 3 * time.Minute}}, nil
}

// roots are those by which the server is believed; nil: the system's.
func (v *Verbs) roots() (*x509.CertPool, error) {
	path := v.ca
	if path == "" {
		dir, err := v.h.StateDir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, caFile)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && v.ca == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(data) {
		err = errors.New("there is no certificate in it")
	}
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read by what the server is believed").At(path)
	}
	return pool, nil
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
const meant = "\n\nA MACHINE is named by its UUID, a MAC address of it, or its name."
