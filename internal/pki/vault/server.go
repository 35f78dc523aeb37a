package vault

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

const (
	dialing  = 5 * time.Second
	patience = 20 * time.Second // for one whole call
	mostRead = 1 << 20          // bytes of an answer
)

// Server is a client of a Vault server with the mounts of one cluster. It is safe for concurrent use.
type Server struct {
	spec v1alpha1.Vault
	name string // the cluster's
	with Options
	http *http.Client
	now  func() time.Time

	mu      sync.Mutex
	signed  credential
	issuers map[string]string // IDs of issuers by mount and certificate
}

// Options says where the credential for signing in comes from.
type Options struct {
	// Credential returns the value of the credential that the document names; nil: it names none.
	Credential func(context.Context) ([]byte, error)
	// Closed ignores this host's files and variables, except a pod's token: naupegos server needs a credential in the document.
	Closed bool
}

// New returns the Server that a cluster's document names. It contacts the server and reads credentials only when needed.
func New(cluster string, spec v1alpha1.Vault, with Options) (*Server, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read this host's certificates")
	}
	pool.AppendCertsFromPEM([]byte(spec.CA))
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialing}).DialContext, TLSHandshakeTimeout: dialing,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, IdleConnTimeout: patience,
	}
	return &Server{spec: spec, name: cluster, with: with, now: time.Now, issuers: map[string]string{}, http: &http.Client{
		Transport: scheme.Watch(transport), Timeout: patience,
		// Don't follow redirects: the token is only for the server that the document names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// mount returns the path of an authority's secrets engine.
func (s *Server) mount(authority string) string { return s.spec.Mount + "/" + authority }

// where names the server in messages.
func (s *Server) where() string { return "Vault at " + s.spec.Address }

// answer is the part of Vault's answers that we read.
type answer struct {
	Data json.RawMessage `json:"data"`
	Auth *struct {
		Token    string `json:"client_token"`
		Duration int    `json:"lease_duration"` // seconds; 0: no limit
	} `json:"auth"`
	Errors []string `json:"errors"`
}

// refusal is an error that Vault returned.
type refusal struct {
	status int
	said   string
}

func (r *refusal) Error() string { return r.said }

// saysOf reports whether err is a refusal with any of these words in its message.
func saysOf(err error, words ...string) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, w := range words {
		if strings.Contains(r.said, w) {
			return true
		}
	}
	return false
}

// statusOf returns the HTTP status of a refusal; 0 if err is not a refusal.
func statusOf(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

// read reads a path into out, signing in if necessary.
func (s *Server) read(ctx context.Context, path string, out any) error {
	return s.signedIn(ctx, http.MethodGet, path, nil, out)
}

// write writes in to a path and reads the answer into out, signing in if necessary.
func (s *Server) write(ctx context.Context, path string, in, out any) error {
	return s.signedIn(ctx, http.MethodPost, path, in, out)
}

func (s *Server) signedIn(ctx context.Context, method, path string, in, out any) error {
	for try := 1; ; try++ {
		token, err := s.token(ctx)
		if err != nil {
			return err
		}
		a, err := s.call(ctx, method, path, token, in)
		if err == nil {
			return decode(a.Data, out)
		}
		if statusOf(err) == http.StatusForbidden && s.forget(token) && try == 1 {
			continue // the token ended early
		}
		return err
	}
}

func decode(data json.RawMessage, out any) error {
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fail.Wrap(fail.Internal, err, "read Vault's answer")
	}
	return nil
}

// call makes one call. If Vault refuses it, the error has a fitting kind and wraps a refusal.
func (s *Server) call(ctx context.Context, method, path, token string, in any) (*answer, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "write a request")
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.spec.Address, "/")+"/v1/"+path, body)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a request")
	}
	r.Header.Set("X-Vault-Request", "true")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	if s.spec.Namespace != "" && !strings.HasPrefix(path, "sys/health") {
		r.Header.Set("X-Vault-Namespace", s.spec.Namespace)
	}
	res, err := s.http.Do(r)
	if err != nil {
		return nil, s.unreached(ctx, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, mostRead))
	if err != nil {
		return nil, s.unreached(ctx, err)
	}
	a := &answer{}
	err = json.Unmarshal(data, a)
	if res.StatusCode >= 300 {
		return nil, s.refused(path, res.StatusCode, a.Errors)
	}
	if strings.HasPrefix(path, "sys/health") { // the only answer without a data field
		a.Data = data
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the answer").At(s.where()).Do("is that the address of a Vault?")
	}
	return a, nil
}

// unreached returns the error for a call without an answer.
func (s *Server) unreached(ctx context.Context, err error) error {
	var unknown *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "ask Vault").At(s.where())
	case errors.As(err, &unknown):
		return fail.Wrap(fail.Unauthorized, err, "the server is not the one that it should be").At(s.where()).
			Do("give the certificate of the authority that vouches for it, spec.pki.issuer.vault.ca")
	}
	return fail.Wrap(fail.Unreachable, err, "no answer").At(s.where()).Do("is it running, and is the address right? only new certificates need it")
}

// refused makes an error with a kind from Vault's answer.
func (s *Server) refused(path string, status int, said []string) error {
	no := &refusal{status: status, said: strings.Join(strings.Fields(strings.Join(said, "; ")), " ")}
	if no.said == "" {
		no.said = http.StatusText(status)
	}
	switch {
	case saysOf(no, "Vault is sealed", "Bao is sealed"):
		return fail.Wrap(fail.NotReady, no, "it is sealed").At(s.where()).Do("vault operator unseal, with as many of its keys as it asks for")
	case status < 400: // redirects are not followed: the token is only for the server that the document names
		return fail.Wrap(fail.Refused, no, "it sends to another server").At(s.where()).Do("give the address of the active one, or of the load balancer")
	case status == http.StatusForbidden:
		return fail.Wrap(fail.Unauthorized, no, "%s", path).At(s.where()).
			Do("the token has expired, or its policy does not allow this: naupegos certs issuer %s --policy prints the policy", s.name)
	case status == http.StatusNotFound:
		return fail.Wrap(fail.NotFound, no, "%s", path).At(s.where())
	case status == http.StatusTooManyRequests, status >= 500:
		return fail.Wrap(fail.NotReady, no, "%s", path).At(s.where())
	}
	return fail.Wrap(fail.Refused, no, "%s", path).At(s.where())
}
