package cloud

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

// Calls configures the calls to a cloud.
type Calls struct {
	HTTPClient *http.Client  // its transport and timeout are used; nil: the default
	Retry      Retry         // of calls without a proper answer
	Limit      time.Duration // one HTTP request; default 2 minutes
}

// Retry bounds the repetitions of a single call. Reads, deletes and logins are repeated after a broken connection or an answer of 500, 502, 503
// or 504; other calls only if the cloud asks to retry later (429, or 413 or 503 with Retry-After); uploads never. Zero means the default.
type Retry struct {
	Attempts int           // including the first; default 5; 1: no retry
	Pause    time.Duration // before the second attempt, doubled each time; default 300 ms
	Max      time.Duration // longest pause, Retry-After included; default 30 seconds
}

// SetDefaults sets zero fields to their defaults.
func (c *Calls) SetDefaults() {
	c.Limit = cmp.Or(c.Limit, 2*time.Minute)
	c.Retry.Attempts = cmp.Or(c.Retry.Attempts, 5)
	c.Retry.Pause = cmp.Or(c.Retry.Pause, 300*time.Millisecond)
	c.Retry.Max = cmp.Or(c.Retry.Max, 30*time.Second)
}

// client returns an HTTP client with retries and the cloud's TLS settings, for use by gophercloud.
func (c Calls) client(cfg *tls.Config) http.Client {
	base := http.DefaultTransport
	var out http.Client
	if c.HTTPClient != nil {
		out = *c.HTTPClient
		if out.Transport != nil {
			base = out.Transport
		}
	}
	if t, ok := base.(*http.Transport); ok {
		t = t.Clone()
		if cfg != nil {
			t.TLSClientConfig = cfg
		}
		t.MaxIdleConnsPerHost = MaxCalls
		base = scheme.Watch(t)
	}
	out.Transport = &transport{next: base, retry: c.Retry, limit: c.Limit, slots: make(chan struct{}, MaxCalls)}
	return out
}

// transport repeats calls if that is safe, and reads answers completely, so that a truncated answer is an error of the call and not of its
// decoder.
//
// Reads, deletes and logins are repeated after any sign of trouble in the cloud. Other calls may have been carried out; they are repeated only if
// the cloud says that it did nothing (429, or Retry-After). Callers that create a resource look for it before the next attempt.
type transport struct {
	next  http.RoundTripper
	retry Retry
	limit time.Duration // of one attempt
	slots chan struct{} // limits concurrent calls; more would only queue up in the cloud
}

// maxAnswer is the size of an answer: lists of thousands of resources have some MiB.
const maxAnswer = 64 << 20

// MaxCalls is the maximum number of concurrent calls to a cloud.
const MaxCalls = 16

// RoundTrip makes one call, with its retries.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	pause := t.retry.Pause
	for attempt := 1; ; attempt++ {
		resp, err := t.once(req, attempt)
		wait, again := t.again(req, resp, err, pause)
		if !again || attempt >= t.retry.Attempts || req.Context().Err() != nil {
			return resp, err
		}
		if err := Sleep(req.Context(), wait); err != nil {
			return nil, err
		}
		pause *= 2
	}
}

// once makes a single attempt and reads the answer.
func (t *transport) once(req *http.Request, attempt int) (*http.Response, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if !IsUpload(req) { // an upload lasts as long as its caller allows
		ctx, cancel = context.WithTimeout(ctx, t.limit)
	}
	defer cancel()
	r := req.Clone(ctx)
	if req.Body != nil && attempt > 1 {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	resp, err := scheme.Bound(t.next, func(*http.Request) int64 { return maxAnswer }).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// again reports whether another attempt follows, and after which pause.
func (t *transport) again(req *http.Request, resp *http.Response, err error, pause time.Duration) (time.Duration, bool) {
	pause = min(pause, t.retry.Max)
	if IsUpload(req) {
		return 0, false // its body can't be sent again
	}
	safe := req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodDelete || isLogin(req)
	if err != nil {
		_, final := untrusted(err)
		return pause, safe && !final && fail.KindOf(err) != fail.Invalid // the wrong scheme stays wrong
	}
	later, asked := retryAfter(resp)
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return min(max(later, pause), t.retry.Max), true
	case http.StatusServiceUnavailable:
		return min(max(later, pause), t.retry.Max), asked || safe
	case http.StatusRequestEntityTooLarge: // Cinder's answer, with a Retry-After of 0, when a quota is used up
		return min(max(later, pause), t.retry.Max), asked && later > 0
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return pause, safe
	}
	return 0, false
}

// IsUpload reports whether the body of a request is a stream that can be read only once.
func IsUpload(req *http.Request) bool {
	return req.Body != nil && req.Body != http.NoBody && req.GetBody == nil
}

// isLogin reports whether a request is the login, the only POST that creates nothing.
func isLogin(req *http.Request) bool {
	const path = "/v3/auth/tokens"
	return req.Method == http.MethodPost && len(req.URL.Path) >= len(path) && req.URL.Path[len(req.URL.Path)-len(path):] == path
}

// retryAfter returns the wait that the cloud asks for, given in seconds or as a date.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	v := resp.Header.Get("Retry-After")
	if v == "" {
		return 0, false
	}
	if s, err := strconv.Atoi(v); err == nil {
		return time.Duration(s) * time.Second, true
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
