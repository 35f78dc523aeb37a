package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

// Limits of one request.
const (
	patience = 10 * time.Second // for all of it
	maxBody  = 8 << 10          // bytes of an answer that are read
	longest  = time.Hour        // the longest wait that a receiver may ask for
)

// post sends a message once, and returns the receiver's answer for people, or how long it wants to be left alone. The error is fail.Unreachable if a
// retry may help. Neither has a part of the URL except its host.
func (s *sealed) post(ctx context.Context, m *Message) (said string, after time.Duration, err error) {
	body, err := s.encode(m)
	if err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return "", 0, fail.New(fail.Internal, "webhook %s has no usable URL", s.Name).Do("naupegos server webhook add %s --replace", s.Name) // cause withheld: it repeats the URL
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8") // without charset, Teams counts the body as twice as long
	req.Header.Set("User-Agent", "naupegos")
	client, err := s.client(req)
	if err != nil {
		return "", 0, err
	}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return "", 0, s.unsent(ctx, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil && res.StatusCode/100 == 2 { // it may have taken the message, and may not
		return "", 0, s.unsent(ctx, err)
	}
	return s.answer(res, string(raw))
}

// client returns an HTTP client for one request. It uses the proxy that the environment names, and follows no redirects: they would lead the message, and
// the URL's secrets, elsewhere.
func (s *sealed) client(req *http.Request) (*http.Client, error) {
	if _, err := http.ProxyFromEnvironment(req); err != nil {
		return nil, fail.New(fail.Invalid, "the proxy that the environment names is not a URL").Do("check HTTPS_PROXY in the server's environment") // cause withheld: it may repeat a password
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives, t.MaxResponseHeaderBytes = true, 64<<10
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.CA)
	}
	return &http.Client{Transport: scheme.Watch(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// unsent returns the error of a request without an answer. The client's own error begins with the URL.
func (s *sealed) unsent(ctx context.Context, err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var untrusted x509.UnknownAuthorityError
	switch kind := fail.KindOf(err); {
	case errors.Is(ctx.Err(), context.Canceled):
		return fail.Wrap(fail.Interrupted, ctx.Err(), "send the message").At(s.Host)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail.New(fail.Unreachable, "no answer within %s", patience).At(s.Host)
	case kind == fail.Invalid:
		return fail.New(fail.Refused, "%s", line(s.scrub(err.Error()))).At(s.Host)
	case errors.As(err, &untrusted):
		return fail.New(fail.Unreachable, "%s", line(s.scrub(err.Error()))).At(s.Host).Do("give the authority of its certificate: naupegos server webhook add %s --ca-file FILE --replace", s.Name)
	}
	return fail.New(fail.Unreachable, "%s", line(s.scrub(err.Error()))).At(s.Host)
}

// answer judges an answer.
func (s *sealed) answer(res *http.Response, body string) (said string, after time.Duration, err error) {
	body = strings.TrimSpace(body)
	html := strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || strings.HasPrefix(strings.ToLower(body), "<!doctype") || strings.HasPrefix(strings.ToLower(body), "<html")
	said = strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", http.StatusText(res.StatusCode)))
	switch {
	case html:
		said += ", with a page"
	case body != "":
		said += ": " + clip(line(s.scrub(body)), 150)
	}
	kind, hint := fail.Refused, ""
	switch code := res.StatusCode; {
	case code/100 == 2:
		if err := formats[s.Format].judge(body, html); err != nil {
			return "", retryAfter(res.Header, time.Now()), fail.Wrap(fail.KindOf(err), err, "answered %s", said).At(s.Host)
		}
		return said, 0, nil
	case code == http.StatusTooManyRequests || code >= 500:
		kind = fail.Unreachable
	case code/100 == 3:
		hint = "redirects are not followed: add the webhook with the address that it leads to"
		if to, err := res.Location(); err == nil && to.Host != res.Request.URL.Host {
			said += " to " + to.Scheme + "://" + clip(line(to.Host), 100)
		}
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusGone:
		hint = "the URL may have been revoked: make a new one there, then naupegos server webhook add " + s.Name + " --replace"
	}
	return "", retryAfter(res.Header, time.Now()), fail.New(kind, "answered %s", said).At(s.Host).Do("%s", hint)
}

// scrub removes the parts of the URL from a text, which a receiver may repeat.
func (s *sealed) scrub(text string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "" // cause withheld: it repeats the URL
	}
	parts := []string{s.URL, u.RequestURI(), u.RawQuery, u.EscapedPath(), u.Path, u.User.String()}
	parts = append(append(parts, strings.Split(u.Path, "/")...), strings.Split(u.EscapedPath(), "/")...)
	parts = append(parts, strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == '=' })...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		parts = append(parts, u.User.Username(), password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) }) // the longest first: they contain the others
	for _, p := range parts {
		if len(p) >= 4 { // shorter ones are words, not secrets
			text = strings.ReplaceAll(text, p, "…")
		}
	}
	return text
}
