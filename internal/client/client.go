// Package client asks a Naupegos server what its API answers, over HTTPS with an operator's token.
//
// It prints nothing and asks no questions: the caller does.
package client

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
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/scheme"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// Config says which server is asked, and by whom.
type Config struct {
	URL   string // https://HOST:PORT
	Token string
	CA    []byte // PEM: the only authority trusted for the server's certificate; empty: the authorities that this host trusts
}

// Client asks one server.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// most is how much of an answer is read.
const most = 64 << 20

// New returns a client. It asks nothing yet.
func New(c Config) (*Client, error) {
	asks, err := connect(c)
	if err == nil && c.Token == "" {
		return nil, fail.New(fail.Unauthorized, "the server %s wants a token, and none is given", asks.base.Host).
			Do("give one by $NAUPEGOS_TOKEN, or a file of mode 0600 by $NAUPEGOS_TOKEN_FILE, or sign in: naupegos login")
	}
	return asks, err
}

// SignIn asks a server how operators sign in there, for which no token is needed.
func SignIn(ctx context.Context, c Config) (how issuer.SignIn, err error) {
	c.Token = ""
	asks, err := connect(c)
	if err != nil {
		return how, err
	}
	got, err := get[issuer.SignIn](ctx, asks, http.MethodGet, issuer.Path, nil, nil)
	if err == nil {
		return *got, nil
	}
	if fail.KindOf(err) == fail.NotFound {
		return how, fail.New(fail.Refused, "the server %s knows no issuer to sign in with", asks.base.Host).
			Do("its administrator names one by --oidc-issuer, or creates a token: naupegos server token create")
	}
	return how, err
}

func connect(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return nil, fail.New(fail.Invalid, "the server's address is not https://HOST:PORT").Do("the token would be readable on the way otherwise")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, fail.New(fail.Invalid, "the file with the server's authority holds no certificate").Do("it is server-ca.crt of the server's state directory")
		}
	}
	tr := &http.Transport{
		TLSClientConfig: conf, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
	}
	return &Client{base: base, token: c.Token, http: &http.Client{Transport: scheme.Watch(tr), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token is for one server
	}}}, nil
}

// Where is the server's address, for people.
func (c *Client) Where() string { return c.base.String() }

// send asks, and returns an answer of success, whose body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "encode the request")
		}
		data = bytes.NewReader(raw)
	}
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), data)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask the server")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, problem.Read(res)
}

// unreached says why the server was not reached.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &name) {
		return fail.Wrap(fail.Unauthorized, err, "the server's certificate is not believed").At(c.base.Host).
			Do("name the file that says who signed it by --server-ca or $NAUPEGOS_SERVER_CA: server-ca.crt of the server's state directory")
	}
	return fail.Wrap(fail.Unreachable, err, "ask the server").At(c.base.Host).Do("see that it runs, and that its HTTPS port can be reached")
}

// get asks for something, and decodes the answer.
func get[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (*T, error) {
	res, err := c.send(ctx, method, path, query, body, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := new(T)
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(out); err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "read the server's answer").At(c.base.Host)
	}
	return out, nil
}

// items is a list as the API answers with it.
type items[T any] struct {
	Items []T `json:"items"`
}

// Clusters lists the clusters; each has so long to show its health.
func (c *Client) Clusters(ctx context.Context, within time.Duration) ([]operate.Row, error) {
	out, err := get[items[operate.Row]](ctx, c, http.MethodGet, "/api/v1/clusters", url.Values{"within": {strconv.Itoa(int(within.Seconds()))}}, nil)
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// Status looks at a cluster.
func (c *Client) Status(ctx context.Context, name string) (*report.Status, error) {
	return get[report.Status](ctx, c, http.MethodGet, "/api/v1/clusters/"+url.PathEscape(name)+"/status", nil, nil)
}

// See looks at something of a cluster.
func See[In, T any](ctx context.Context, c *Client, cluster string, v operate.View[In, T], in In) (*T, error) {
	path := "/api/v1/clusters/" + url.PathEscape(cluster) + "/" + v.Name
	if _, plainly := any(in).(operate.Plainly); plainly && !v.Secret {
		return get[T](ctx, c, http.MethodGet, path, nil, nil)
	}
	return get[T](ctx, c, http.MethodPost, path, nil, in)
}

// Document returns the document that was applied last.
func (c *Client) Document(ctx context.Context, name string) ([]byte, error) {
	res, err := c.send(ctx, http.MethodGet, "/api/v1/clusters/"+url.PathEscape(name)+"/document", nil, nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "read the document").At(c.base.Host)
	}
	return data, nil
}

// Plan asks what a verb would do.
func (c *Client) Plan(ctx context.Context, r api.PlanRequest) (*api.Planned, error) {
	return get[api.Planned](ctx, c, http.MethodPost, "/api/v1/plans", nil, r)
}

// Foreign asks the server to inspect a cluster that was not created by Naupegos.
func (c *Client) Foreign(ctx context.Context, r api.ForeignRequest) (*api.Foreign, error) {
	return get[api.Foreign](ctx, c, http.MethodPost, "/api/v1/imports", nil, r)
}

// Submit asks the server to carry out a plan.
func (c *Client) Submit(ctx context.Context, o work.Order) (*store.Job, error) {
	return get[store.Job](ctx, c, http.MethodPost, "/api/v1/jobs", nil, o)
}

// Stop asks a job to stop: once the running steps are done, or now.
func (c *Client) Stop(ctx context.Context, id string, now bool) error {
	_, err := get[store.Job](ctx, c, http.MethodPost, "/api/v1/jobs/"+url.PathEscape(id)+"/stop", url.Values{"now": {strconv.FormatBool(now)}}, nil)
	return err
}

// Runs returns the newest runs first; see store.Store.
func (c *Client) Runs(ctx context.Context, cluster string, limit int) ([]plan.RunRecord, error) {
	out, err := get[items[plan.RunRecord]](ctx, c, http.MethodGet, "/api/v1/runs", url.Values{"cluster": {cluster}, "limit": {strconv.Itoa(limit)}}, nil)
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// Run returns one run.
func (c *Client) Run(ctx context.Context, id string) (*plan.RunRecord, error) {
	return get[plan.RunRecord](ctx, c, http.MethodGet, "/api/v1/runs/"+url.PathEscape(strings.TrimSpace(id)), nil, nil)
}

// Server looks at the servers on the server's store.
func (c *Client) Server(ctx context.Context) (*api.ServerStatus, error) {
	return get[api.ServerStatus](ctx, c, http.MethodGet, "/api/v1/server", nil, nil)
}
