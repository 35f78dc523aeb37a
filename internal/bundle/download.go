package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

// fetcher downloads over HTTP with bounds on everything.
type fetcher struct {
	client    *http.Client
	transport *http.Transport // of the client
	attempts  int             // of one file; a cut connection is resumed where it was cut
	stall     time.Duration   // without leastBytes, after which a connection counts as cut
	largest   int64           // bytes of a file
}

func newFetcher() *fetcher {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext, t.OnProxyConnectResponse, t.ResponseHeaderTimeout = (&net.Dialer{Timeout: 10 * time.Second}).DialContext, throughProxy, 30*time.Second
	return &fetcher{client: &http.Client{Transport: scheme.Watch(t), CheckRedirect: noDowngrade}, transport: t, attempts: 4, stall: 30 * time.Second, largest: 4 << 30}
}

// throughProxy returns an error that names the proxy if the proxy of the environment does not lead on.
func throughProxy(_ context.Context, proxy *url.URL, to *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	err := fail.New(fail.Refused, "the proxy %s does not connect to %s: %s", proxy.Host, to.Host, answer.Status)
	switch answer.StatusCode {
	case http.StatusProxyAuthRequired:
		return &permanent{err.Do("give user and password of the proxy in HTTPS_PROXY")}
	case http.StatusForbidden, http.StatusMethodNotAllowed:
		return &permanent{err.Do("let the proxy allow CONNECT to that address, or add it to NO_PROXY")}
	}
	return err
}

// noDowngrade refuses redirections from https to another scheme, and more than 10 redirections.
func noDowngrade(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("more than 10 redirections")
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirected from https to %s", req.URL.Redacted())
	}
	return nil
}

const maxText = 8 << 20    // bytes of a checksum file or an API's answer
const leastBytes = 4 << 10 // within fetcher.stall: a server that sends a byte now and then would keep the library locked without an end

// text returns a small document.
func (f *fetcher) text(ctx context.Context, address string) (string, error) {
	var b strings.Builder
	err := f.retry(ctx, address, func(ctx context.Context, alive func()) error {
		b.Reset()
		body, _, err := f.get(ctx, address, 0)
		if err != nil {
			return err
		}
		defer body.Close() // read only
		_, err = io.Copy(&b, &aliveReader{r: io.LimitReader(body, maxText), alive: alive})
		return err
	})
	return b.String(), err
}

// file downloads address to path, and resumes cut connections.
func (f *fetcher) file(ctx context.Context, address, path string, t *task) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return ioError(err, "download "+shown(address), path)
	}
	defer out.Close() // closed below; this is for early returns
	var have int64
	err = f.retry(ctx, address, func(ctx context.Context, alive func()) error {
		body, from, err := f.get(ctx, address, have)
		if err != nil {
			return err
		}
		defer body.Close()         // read only
		if from == 0 && have > 0 { // the server does not resume: begin again
			t.add(-have)
			have = 0
		}
		if _, err := out.Seek(have, io.SeekStart); err != nil {
			return &permanent{ioError(err, "download "+shown(address), path)}
		}
		disk := &diskWriter{w: out}
		n, err := io.Copy(disk, &aliveReader{r: t.counting(io.LimitReader(body, f.largest-have+1)), alive: alive})
		have += n
		if have > f.largest {
			return &permanent{fail.New(fail.Refused, "download %s: the file is larger than %d bytes", shown(address), f.largest).
				Do("nothing of this kind is: is it the right server?")}
		}
		if disk.err != nil {
			return &permanent{ioError(disk.err, "download "+shown(address), path)}
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(out.Truncate(have), out.Close()); err != nil {
		return ioError(err, "download "+shown(address), path)
	}
	return nil
}

// get requests address from an offset, and returns the body with the offset at which it begins: 0 if the server does not resume.
func (f *fetcher) get(ctx context.Context, address string, from int64) (io.ReadCloser, int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, &permanent{fail.Wrap(fail.Invalid, err, "download %s", shown(address))}
	}
	req.Header.Set("User-Agent", "naupegos")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return resp.Body, 0, nil
	case resp.StatusCode == http.StatusPartialContent && from > 0 && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)):
		return resp.Body, from, nil
	}
	resp.Body.Close() // nothing was read
	err = fmt.Errorf("the server answers %s", resp.Status)
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, 0, &permanent{fail.Wrap(fail.NotFound, err, "download %s", shown(address)).Do("is the version right, and is the mirror complete?")}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return nil, 0, err
	}
	return nil, 0, &permanent{fail.Wrap(fail.Unreachable, err, "download %s", shown(address))}
}

// permanent marks an error after which retries are useless.
type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// retry calls try until it succeeds, up to f.attempts times. try calls alive whenever leastBytes have arrived; an attempt that does not call it for f.stall
// is cancelled.
func (f *fetcher) retry(ctx context.Context, address string, try func(ctx context.Context, alive func()) error) error {
	var last error
	for i := range f.attempts {
		if i > 0 {
			if err := pause(ctx, time.Duration(i)*250*time.Millisecond); err != nil {
				return err
			}
		}
		attempt, cancel := context.WithCancelCause(ctx)
		watch := time.AfterFunc(f.stall, func() { cancel(fmt.Errorf("less than %d KiB in %s", leastBytes>>10, f.stall)) })
		last = try(attempt, func() { watch.Reset(f.stall) })
		watch.Stop()
		if cause := context.Cause(attempt); last != nil && cause != nil && ctx.Err() == nil {
			last = cause
		}
		cancel(nil)
		var p *permanent
		switch {
		case last == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(last, &p):
			return p.error
		}
	}
	return fail.Wrap(fail.Unreachable, last, "download %s (%d attempts)", shown(address), f.attempts).Do("check the network, or name a mirror")
}

// shown returns a URL without its password, for errors.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}

// publicURL returns the directory of a URL without credentials, for the manifest.
func publicURL(dir, _ string) string {
	u, err := url.Parse(strings.TrimRight(dir, "/"))
	if err != nil {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

type aliveReader struct {
	r     io.Reader
	alive func()
	since int // bytes since the last call of alive
}

func (a *aliveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	for a.since += n; a.since >= leastBytes; a.since = 0 {
		a.alive()
	}
	return n, err
}
