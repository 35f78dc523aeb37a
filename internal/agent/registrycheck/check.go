// Package registrycheck checks from a machine whether registries and mirrors of container images answer, present a trusted certificate, and accept
// the credentials.
//
// It pulls nothing, and knows nothing of clusters.
package registrycheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/naupegos/naupegos/internal/scheme"
)

// Request lists the endpoints to check.
type Request struct {
	Endpoints                      []Endpoint
	HTTPProxy, HTTPSProxy, NoProxy string // empty: none
}

// Endpoint is a registry or a mirror.
type Endpoint struct {
	Registry      string // registry that the endpoint serves: "docker.io"
	URL           string // as https://mirror.example.org
	Whole         bool   // nothing is added to the path of URL
	CA            string // PEM; empty: the system's authorities
	Insecure      bool   // any certificate is accepted
	Authorization string // value of the HTTP header; empty: none
}

// Problem is an endpoint that can't be used. It never holds a secret.
type Problem struct {
	Registry string
	URL      string
	Why      string
}

// Timeout bounds the check of one endpoint. All are checked at the same time.
const Timeout = 5 * time.Second

// Check returns the endpoints that can't be used, in the order of the request.
func Check(ctx context.Context, r Request) []Problem {
	proxy := (&httpproxy.Config{HTTPProxy: r.HTTPProxy, HTTPSProxy: r.HTTPSProxy, NoProxy: r.NoProxy}).ProxyFunc()
	why := make([]string, len(r.Endpoints))
	var all sync.WaitGroup
	for i, e := range r.Endpoints {
		all.Go(func() { why[i] = check(ctx, e, proxy) })
	}
	all.Wait()
	problems := []Problem{}
	for i, e := range r.Endpoints {
		if why[i] != "" {
			problems = append(problems, Problem{Registry: e.Registry, URL: e.URL, Why: why[i]})
		}
	}
	return problems
}

// check returns why an endpoint can't be used; "" if it can.
func check(ctx context.Context, e Endpoint, proxy func(*url.URL) (*url.URL, error)) string {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	config := &tls.Config{InsecureSkipVerify: e.Insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // the document says so
	if e.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if pool, err := x509.SystemCertPool(); err == nil {
			config.RootCAs = pool
		}
		config.RootCAs.AppendCertsFromPEM([]byte(e.CA))
	}
	client := &http.Client{
		Transport:     scheme.Watch(&http.Transport{TLSClientConfig: config, DisableKeepAlives: true, Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // never send a password to another host
	}
	address := strings.TrimRight(e.URL, "/")
	if !e.Whole {
		address += "/v2/"
	}
	status, challenges, err := ask(ctx, client, address, e.Authorization)
	switch {
	case err != nil:
		return reason(ctx, err)
	case status >= 500:
		return fmt.Sprintf("answers with status %d", status)
	case status == http.StatusForbidden && e.Authorization != "":
		return "refuses the credentials"
	case status != http.StatusUnauthorized || e.Authorization == "":
		return "" // a registry that requires a token for each image says so here, too
	}
	token, asksForToken := tokenAddress(challenges)
	switch {
	case !asksForToken:
		return "refuses the credentials"
	case token == nil:
		return "asks for a token, but names no token server"
	case token.Scheme == "http" && !e.Insecure:
		return fmt.Sprintf("its token server, http://%s, is reached without TLS, and the credentials would be sent there in plain text (configure the registry with an https address of it, or set insecure)", token.Host)
	}
	switch status, _, err := ask(ctx, client, token.String(), e.Authorization); {
	case err != nil:
		return "its token server: " + reason(ctx, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "refuses the credentials"
	case status >= 500:
		return fmt.Sprintf("its token server answers with status %d", status)
	}
	return ""
}

// ask sends a request and returns the status and the challenges.
func ask(ctx context.Context, client *http.Client, address, authorization string) (status int, challenges []string, _ error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, errors.New("its address can't be read") // cause withheld: it may quote a secret
	}
	r.Header.Set("User-Agent", "naupegos")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) // only the status counts
	return resp.StatusCode, resp.Header.Values("WWW-Authenticate"), nil
}

var parameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-z]+)="([^"]*)"`) })

// tokenAddress returns the address of the token server that the first challenge for a token names; nil if it names none. asked is false without
// such a challenge.
func tokenAddress(challenges []string) (address *url.URL, asked bool) {
	for _, c := range challenges {
		kind, rest, _ := strings.Cut(c, " ")
		if !strings.EqualFold(kind, "Bearer") {
			continue
		}
		values := map[string]string{}
		for _, m := range parameter().FindAllStringSubmatch(rest, -1) {
			values[m[1]] = m[2]
		}
		u, err := url.Parse(values["realm"])
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, true
		}
		q := u.Query()
		if values["service"] != "" {
			q.Set("service", values["service"])
		}
		u.RawQuery = q.Encode()
		return u, true
	}
	return nil, false
}

// reason says in a few words why a request failed.
func reason(ctx context.Context, err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var failed *url.Error
	switch {
	case errors.As(err, &unknown):
		return "shows a certificate of an unknown authority (set ca)"
	case errors.As(err, &host):
		return "shows a certificate for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "shows a certificate that has expired, or is not valid yet"
	case ctx.Err() != nil:
		return fmt.Sprintf("does not answer within %s", Timeout)
	case errors.As(err, &failed):
		return "does not answer: " + failed.Err.Error() // without the address, which may hold a proxy's password
	}
	return err.Error()
}
