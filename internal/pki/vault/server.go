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
)

const (
	dialing  = 5 * time.Second
	patience = 20 * time.Second // for the whole of one call
	mostRead = 1 << 20          // bytes of an answer
)

// Server is a server of Vault with the mounts of one cluster. It is safe for concurrent use.
type Server struct {
	spec v1alpha1.Vault
	name string // the cluster's
	with Options
	http *http.Client
	now  func() time.Time

	mu      sync.Mutex
	signed  credential
	issuers map[string]string // an issuer's ID by its mount and certificate
}

// Options says where what signs in comes from.
type Options struct {
	// Credential returns the value of the credential that the document names; nil: it names none.
	Credential func(context.Context) ([]byte, error)
	// Closed keeps files and variables of this host from what a document names: a server needs a credential.
	Closed bool
}

// New returns the server that a cluster's document names. It is asked, and credentials are looked for, when it is needed.
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
		Transport: transport, Timeout: patience,
		// A token is for the server that the document names, and a redirect may lead to another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// mount is where an authority's secrets engine is.
func (s *Server) mount(authority string) string { return s.spec.Mount + "/" + authority }

// where is the server for people.
func (s *Server) where() string { return "Vault at " + s.spec.Address }

// answer is the part of Vault's answers that is read.
type answer struct {
	Data json.RawMessage `json:"data"`
	Auth *struct {
		Token    string `json:"client_token"`
		Duration int    `json:"lease_duration"` // seconds; 0: for good
	} `json:"auth"`
	Errors []string `json:"errors"`
}

// refusal is an error of Vault's.
type refusal struct {
	status int
	said   string
}

func (r *refusal) Error() string { return r.said }

// saysOf reports whether err is a refusal whose words hold any of these.
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

// statusOf is the HTTP status of a refusal; 0 where err is none.
func statusOf(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

// read signs in where that is needed, and reads what lies at a path, into out.
func (s *Server) read(ctx context.Context, path string, out any) error {
	return s.signedIn(ctx, http.MethodGet, path, nil, out)
}

// write signs in where that is needed, and writes to a path.
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
			continue // it has ended before its time
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

// call makes one call. What Vault refuses is a refusal within an error of the kind that fits.
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
	if strings.HasPrefix(path, "sys/health") { // the only one that wraps nothing
		a.Data = data
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the answer").At(s.where()).Do("is that the address of a Vault?")
	}
	return a, nil
}

// unreached says why there was no answer.
func (s *Server) unreached(ctx context.Context, err error) error {
	var unknown *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "ask Vault").At(s.where())
	case errors.As(err, &unknown):
		return fail.Wrap(fail.Unauthorized, err, "the server is not the one that it should be").At(s.where()).
			Do("give the certificate of the authority that vouches for it, spec.pki.issuer.vault.ca")
	}
	return fail.Wrap(fail.Unreachable, err, "no answer").At(s.where()).Do("is it running, and is the address right? what needs no new certificate goes on without it")
}

// refused gives what Vault says a kind.
func (s *Server) refused(path string, status int, said []string) error {
	no := &refusal{status: status, said: strings.Join(strings.Fields(strings.Join(said, "; ")), " ")}
	if no.said == "" {
		no.said = http.StatusText(status)
	}
	switch {
	case saysOf(no, "Vault is sealed", "Bao is sealed"):
		return fail.Wrap(fail.NotReady, no, "it is sealed").At(s.where()).Do("vault operator unseal, with as many of its keys as it asks for")
	case status < 400: // a token is for the server that the document names alone
		return fail.Wrap(fail.Refused, no, "it sends to another server").At(s.where()).Do("give the address of the active one, or of what is in front of all")
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
