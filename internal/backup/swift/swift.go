package swift

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

const (
	grace    = time.Hour
	patience = 30 * time.Second // until a response begins
	attempts = 3                // per repeatable call
	page     = 10000            // entries per listing
	mostSaid = 4 << 10          // bytes read from an error response
)

// Spec identifies a container: the document's BackupSwift, which is validated there.
type Spec struct {
	AuthURL         string `json:"authURL"` // of the identity service, such as https://cloud.example.org:5000/v3
	Container       string `json:"container"`
	Prefix          string `json:"prefix,omitempty"` // prefix of all object names
	Region          string `json:"region,omitempty"`
	CA              string `json:"ca,omitempty"`              // of the services' certificate authority (PEM)
	CredentialsFile string `json:"credentialsFile,omitempty"` // lines for a shell
	Credential      string `json:"credential,omitempty"`      // name of a stored credential, used instead of a file
}

// Source provides a container's credential.
type Source struct {
	// Credential returns the value of the credential that the document names; nil if it names none.
	Credential func(context.Context) ([]byte, error)
	// Closed forbids the use of this host's files and variables, even if the document names them: on a server it must name a stored credential.
	Closed bool
}

// Container is a backup.Target in an object-store container.
type Container struct {
	spec Spec
	from Source
	http *http.Client

	mu      sync.Mutex
	session session
}

var _ backup.Target = (*Container)(nil)

// New returns a container. It reads credentials and contacts services only on use.
func New(spec Spec) *Container { return NewFrom(spec, Source{}) }

// NewFrom is New with a source of the credential.
func NewFrom(spec Spec, from Source) *Container {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // trust the document's authority only
	}
	pool.AppendCertsFromPEM([]byte(spec.CA))
	return &Container{spec: spec, from: from, http: &http.Client{
		Transport: scheme.Bound(scheme.Watch(&http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: patience, IdleConnTimeout: patience, ExpectContinueTimeout: patience,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}), mostAnswer),
		// No redirects: tokens and credentials must only reach the services that the document and the cloud's catalogue name.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// mostAnswer returns the size of an answer: that of everything but files is bounded. A list has a page of files, and a login the cloud's catalogue.
func mostAnswer(r *http.Request) int64 {
	if r.Method == http.MethodGet && r.URL.Query().Get("format") == "" {
		return 0
	}
	return 32 << 20
}

// String implements backup.Target.
func (c *Container) String() string {
	host := c.spec.AuthURL
	if u, err := url.Parse(c.spec.AuthURL); err == nil && u.Host != "" {
		host = u.Host
	}
	return "swift://" + host + "/" + path.Join(c.spec.Container, c.spec.Prefix)
}

// Grace implements backup.Target.
func (c *Container) Grace() time.Duration { return grace }

func (c *Container) key(name string) string {
	return strings.TrimPrefix(path.Join(c.spec.Prefix, name), "/")
}

// object returns an object's path below an account, or the container's path if key is empty.
func (c *Container) object(key string) string {
	at := "/" + url.PathEscape(c.spec.Container)
	for part := range strings.SplitSeq(key, "/") {
		if part != "" {
			at += "/" + url.PathEscape(part)
		}
	}
	return at
}

// call makes an authenticated call, without retries: a body can be read only once.
func (c *Container) call(ctx context.Context, method, at string, body io.Reader) (*http.Response, error) {
	s, err := c.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+at, body)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a request")
	}
	r.Header.Set("X-Auth-Token", s.token)
	if body != nil { // of unknown length: sent once the store agrees to receive it
		r.Header.Set("Expect", "100-continue")
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := c.send(r)
	if statusOf(err) == http.StatusUnauthorized {
		c.forget(s.token) // expired early or revoked
	}
	return res, err
}

// again makes a call without a body. It repeats the call if that may help, and once with a new token if the old one was rejected.
func (c *Container) again(ctx context.Context, method, at string) (res *http.Response, err error) {
	renewed := false
	err = c.tried(ctx, func() error {
		res, err = c.call(ctx, method, at, nil) //nolint:bodyclose // there is none with an error, else the caller closes it
		if statusOf(err) == http.StatusUnauthorized && !renewed {
			renewed = true
			res, err = c.call(ctx, method, at, nil) //nolint:bodyclose // as above
		}
		return err
	})
	return res, err
}

// tried calls do up to three times while a service is unreachable or fails.
func (c *Container) tried(ctx context.Context, do func() error) (err error) {
	for n := 1; ; n++ {
		if err = do(); err == nil || n == attempts || !passes(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(n) * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passes reports whether an error may be temporary.
func passes(err error) bool {
	var judged *fail.Error
	switch status := statusOf(err); {
	case errors.As(err, &judged): // already retried, or permanent
		return false
	case status == 0:
		return true
	default:
		return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusInsufficientStorage
	}
}

// send sends a request; a response other than success becomes a refusal.
func (c *Container) send(r *http.Request) (*http.Response, error) {
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, mostSaid))
	if err != nil {
		return nil, err
	}
	no := &refusal{status: res.StatusCode}
	var words struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(said, &words) == nil { // Keystone's; Swift sends pages
		no.said = words.Error.Message
	}
	return nil, no
}

// broken is an error of the function that fills a file.
type broken struct{ error }

func (e broken) Unwrap() error { return e.error }

// Create implements backup.Target. The store keeps complete uploads only.
func (c *Container) Create(ctx context.Context, name string, fill func(io.Writer) error) error {
	head, err := c.again(ctx, http.MethodHead, c.object("")) // repeatable calls first, before the file is begun
	if err == nil {
		err = head.Body.Close()
	}
	if err != nil {
		return c.noContainer(err, "write %s", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(w)
		filled <- err
		if err != nil {
			err = broken{err}
		}
		_ = w.CloseWithError(err) // it never fails
	}()
	res, err := c.call(ctx, http.MethodPut, c.object(c.key(name)), r)
	if err == nil {
		err = res.Body.Close()
	}
	why := c.noContainer(err, "write %s", name)
	_ = r.CloseWithError(why) // ends the filling function with this error
	e := <-filled
	var own broken
	switch {
	case err == nil && e == nil:
		return nil
	case err == nil: // the store has a complete file, but filling failed
		return errors.Join(e, c.Remove(context.WithoutCancel(ctx), name))
	case errors.As(err, &own):
		return e
	}
	return why
}

// Open implements backup.Target.
func (c *Container) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	res, err := c.again(ctx, http.MethodGet, c.object(c.key(name))) //nolint:bodyclose // the caller closes the body
	if err != nil {
		return nil, 0, c.wrap(err, "read %s", name)
	}
	return backup.Reading(res.Body, func(err error) error { return c.wrap(err, "read %s", name) }), res.ContentLength, nil
}

// List implements backup.Target.
func (c *Container) List(ctx context.Context, dir string) (all []backup.File, err error) {
	prefix := c.key(dir) + "/"
	for marker := ""; ; {
		ask := url.Values{"format": {"json"}, "prefix": {prefix}, "limit": {fmt.Sprint(page)}, "marker": {marker}}
		var objects []struct {
			Name     string `json:"name"`
			Bytes    int64  `json:"bytes"`
			Modified string `json:"last_modified"`
		}
		res, err := c.again(ctx, http.MethodGet, c.object("")+"?"+ask.Encode())
		if err == nil {
			if res.StatusCode != http.StatusNoContent {
				err = json.NewDecoder(res.Body).Decode(&objects)
			}
			err = errors.Join(err, res.Body.Close())
		}
		if err != nil {
			return nil, c.noContainer(err, "look for backups")
		}
		if len(objects) == 0 {
			return all, nil
		}
		for _, o := range objects {
			when, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(o.Modified, "Z")) // with or without fractions of a second
			if err != nil {
				return nil, fail.Wrap(fail.Internal, err, "read when %s was written", o.Name).At(c.String())
			}
			all = append(all, backup.File{Name: strings.TrimPrefix(strings.TrimPrefix(o.Name, c.key("")), "/"), Size: o.Bytes, Modified: when})
		}
		last := objects[len(objects)-1].Name
		if last == marker { // a list that repeats itself has no end
			return nil, fail.New(fail.Refused, "the object store repeats its list of files after %.100q", last).At(c.String()).Do("this is a fault of the object store: tell its operator")
		}
		if marker = last; len(all) >= backup.MostFiles {
			return nil, backup.TooManyFiles(c)
		}
	}
}

// Remove implements backup.Target.
func (c *Container) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		res, err := c.again(ctx, http.MethodDelete, c.object(c.key(name)))
		if err == nil {
			err = res.Body.Close()
		}
		if err = c.wrap(err, "remove %s", name); err != nil && fail.KindOf(err) != fail.NotFound {
			return err
		}
	}
	return nil
}

// noContainer is wrap for calls on which 404 means that the container does not exist.
func (c *Container) noContainer(err error, format string, args ...any) error {
	if statusOf(err) == http.StatusNotFound {
		return fail.Wrap(fail.Refused, err, format, args...).At(c.String()).Enough().Do("make the container, or name another one in spec.backup.to.swift.container")
	}
	return c.wrap(err, format, args...)
}

// wrap gives an error a kind. Retries, where useful, have already happened.
func (c *Container) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	e := fail.Wrap(fail.Refused, err, format, args...).At(c.String()).Enough()
	status := statusOf(err)
	if status == 0 {
		if e.Kind = fail.KindOf(err); e.Kind == fail.Internal {
			e.Kind = fail.Unreachable
		}
		return e
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Kind = fail.Unauthorized
		return e.Do("look at the application credential (spec.backup.to.swift.credentialsFile, else %s), and whether it may read, write and list the container", idName)
	case status == http.StatusNotFound:
		e.Kind = fail.NotFound
	case status == http.StatusRequestEntityTooLarge:
		return e.Do("the store takes no file as large, or the quota is used up")
	case status == http.StatusTooManyRequests, status >= 500 && status != http.StatusInsufficientStorage:
		e.Kind = fail.Unreachable
	}
	return e
}
