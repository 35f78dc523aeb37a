package images

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// Access is the access to registries. Without a user, it uses the credentials of docker login and podman login.
type Access struct {
	User, Password string
	CA             []byte // PEM of an authority to trust in addition to the system's
}

// Check refuses to send one password to several registries.
func (a Access) Check(refs []Reference) error {
	if a.User == "" {
		return nil
	}
	for _, r := range refs {
		if r.Registry() != refs[0].Registry() {
			return fail.New(fail.Refused, "they come from %s and %s, and --username is for one registry", refs[0].Registry(), r.Registry()).
				Do("add them in one call for each registry, or use docker login")
		}
	}
	return nil
}

// registry is the origin of images in registries.
type registry struct {
	options []remote.Option
}

const (
	answerTimeout = time.Minute
	stallTimeout  = time.Minute // without a byte of a file
)

func newRegistry(a Access) (*registry, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = answerTimeout
	if len(a.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(a.CA) {
			return nil, fail.New(fail.Invalid, "the file of --ca holds no certificate in PEM")
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	options := []remote.Option{remote.WithTransport(encrypted{t}), remote.WithUserAgent("naupegos"), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if a.User != "" {
		options = append(options[:2], remote.WithAuth(&authn.Basic{Username: a.User, Password: a.Password}))
	}
	return &registry{options: options}, nil
}

// encrypted refuses plain http except for registries on this host.
type encrypted struct{ next http.RoundTripper }

var errPlain = errors.New("the registry speaks plain http")

func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !isLoopback(r.URL.Hostname()) {
		return nil, errPlain
	}
	return e.next.RoundTrip(r)
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func (g *registry) with(ctx context.Context) []remote.Option {
	return append(g.options[:len(g.options):len(g.options)], remote.WithContext(ctx))
}

func (g *registry) resolve(ctx context.Context, r Reference) ([]byte, string, error) {
	ref, err := r.remote()
	if err != nil {
		return nil, "", err
	}
	d, err := remote.Get(ref, g.with(ctx)...)
	if err != nil {
		return nil, "", registryError(ctx, err, r)
	}
	return d.Manifest, string(d.MediaType), nil
}

func (g *registry) open(ctx context.Context, r Reference, b bundle.SetBlob) (io.ReadCloser, error) {
	repo, err := name.NewRepository(r.Name, name.WeakValidation)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the name of image %s", r.Text)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	layer, err := remote.Layer(repo.Digest(b.Digest), g.with(ctx)...)
	if err != nil {
		cancel(nil)
		return nil, registryError(ctx, err, r)
	}
	in, err := layer.Compressed()
	if err != nil {
		cancel(nil)
		return nil, registryError(ctx, err, r)
	}
	s := &stalling{ReadCloser: in, cancel: cancel}
	s.timer = time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("%s sent nothing for %s", r.Registry(), stallTimeout)) })
	return s, nil
}

// stalling ends a transfer if no byte arrives for stallTimeout.
type stalling struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.timer.Reset(stallTimeout)
	return n, err
}

func (s *stalling) Close() error {
	s.timer.Stop()
	err := s.ReadCloser.Close()
	s.cancel(nil)
	return err
}

// registryError wraps a registry's error, with advice.
func registryError(ctx context.Context, err error, r Reference) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return ctx.Err()
	}
	var answer *transport.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var dns *net.DNSError
	what := "get " + r.String()
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fail.Wrap(fail.Unauthorized, err, "%s", what).At(r.Registry()).
			Do("check the name, then docker login %[1]s, or give --username and --password-file", r.Registry())
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fail.Wrap(fail.NotFound, err, "%s", what).At(r.Registry()).Do("check name, tag and digest")
	case errors.As(err, &unknown):
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(r.Registry()).Do("give the certificate of the registry's authority: --ca FILE")
	case errors.As(err, &name):
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(r.Registry()).Do("the certificate is for another name: use the name that it has")
	case errors.Is(err, errPlain), errors.Is(err, http.ErrSchemeMismatch):
		return fail.Wrap(fail.Refused, err, "%s", what).At(r.Registry()).Do("only a registry on this host may be without TLS")
	case errors.As(err, &dns):
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(r.Registry()).Do("check the registry's name; without a network, use --from FILE")
	}
	return fail.Wrap(fail.Unreachable, err, "%s", what).At(r.Registry()).Do("run it again: complete files are not fetched again")
}
