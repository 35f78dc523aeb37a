// Package ask is the client of an approved machine: it gets the order, reports the progress of the installation and the running system, and asks
// whether the machine may reboot.
//
// It identifies the server by its authority alone, and the server identifies the machine by its certificate. It decides nothing.
package ask

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Server is the client of one machine for its server.
type Server struct {
	url, uuid string
	http      *http.Client // for answers
	files     *http.Client // for files: without a total time limit
}

// Identity is the machine's identity and the authority that it trusts.
type Identity struct {
	UUID        string
	Server      string // https:// URL
	Authority   []byte // PEM of the authority of the server's certificate; empty: the system's authorities
	Key         *ecdsa.PrivateKey
	Certificate []byte // PEM
}

// Answering is the time limit of an answer, Silence that of a file's next bytes.
const (
	Answering = 30 * time.Second
	Silence   = 30 * time.Second
	maxAnswer = 2 << 20
)

// New returns a server.
func New(id Identity) (*Server, error) {
	u, err := url.Parse(id.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fail.New(fail.Invalid, "%q is not the address of a server", id.Server).Do("give https://HOST:PORT")
	}
	block, _ := pem.Decode(id.Certificate)
	if block == nil || id.Key == nil {
		return nil, fail.New(fail.Invalid, "the machine has no certificate").At(id.UUID).Do("naupegos machine approve %s", id.UUID)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: id.Key}}}
	if len(id.Authority) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(id.Authority) {
			return nil, fail.New(fail.Invalid, "there is no certificate of the server's authority").At(id.UUID)
		}
	}
	transport := func() *http.Transport {
		return &http.Transport{TLSClientConfig: c.Clone(), Proxy: nil, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: Answering, ResponseHeaderTimeout: Answering, IdleConnTimeout: time.Minute}
	}
	return &Server{url: strings.TrimRight(id.Server, "/"), uuid: id.UUID, http: &http.Client{Transport: transport(), Timeout: Answering},
		files: &http.Client{Transport: transport()}}, nil
}

// Begin requests permission for the machine's installation and returns its order. fail.NotReady says why the machine must wait.
func (s *Server) Begin(ctx context.Context) (*order.Order, error) {
	var raw struct{ Order json.RawMessage }
	if err := s.call(ctx, http.MethodPost, "/api/v1/install/"+s.uuid, nil, &raw); err != nil {
		return nil, err
	}
	return s.own(raw.Order)
}

// Order returns the machine's wanted order, or fail.NotFound if it has none.
func (s *Server) Order(ctx context.Context) (*order.Order, error) {
	var raw json.RawMessage
	if err := s.call(ctx, http.MethodGet, "/api/v1/order/"+s.uuid, nil, &raw); err != nil {
		return nil, err
	}
	return s.own(raw)
}

// own reads an order and checks that it is for this machine.
func (s *Server) own(raw []byte) (*order.Order, error) {
	o, err := order.Parse(raw)
	if err == nil && o.UUID != s.uuid {
		err = fail.New(fail.Invalid, "the installation order is for the machine %s", o.UUID).At(s.uuid)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Progress reports the progress of the installation. fail.Conflict means that it may not continue.
func (s *Server) Progress(ctx context.Context, stage string, done, total int64) error {
	return s.call(ctx, http.MethodPost, "/api/v1/install/"+s.uuid+"/progress", map[string]any{"stage": stage, "done": done, "total": total}, nil)
}

// Finish reports the outcome of the installation.
func (s *Server) Finish(ctx context.Context, ok bool, hostKeys, log []string) error {
	return s.call(ctx, http.MethodPost, "/api/v1/install/"+s.uuid+"/finish", map[string]any{"ok": ok, "host_keys": hostKeys, "log": log}, nil)
}

// Report is what an installed machine reports every minute.
type Report struct {
	UUID     string   `json:"uuid"`
	BootID   string   `json:"boot_id"`
	Digest   string   `json:"digest"`
	Sequence int64    `json:"sequence"`
	Slot     string   `json:"slot"`
	HostKeys []string `json:"host_keys,omitempty"`
	Refused  string   `json:"refused,omitempty"`
}

// Reported is the server's answer.
type Reported struct {
	UpToDate bool   `json:"up_to_date"`
	Wanted   string `json:"wanted"`
	Strategy string `json:"strategy"`
}

// Report sends the machine's report.
func (s *Server) Report(ctx context.Context, r Report) (out Reported, err error) {
	r.UUID = s.uuid
	return out, s.call(ctx, http.MethodPost, "/api/v1/report", r, &out)
}

// MayReboot requests a reboot slot in the machine's group. fail.Conflict names the machine that holds it.
func (s *Server) MayReboot(ctx context.Context, group string) error {
	return s.fleet(ctx, "pre-reboot", group)
}

// Back releases that slot.
func (s *Server) Back(ctx context.Context, group string) error {
	return s.fleet(ctx, "steady-state", group)
}

func (s *Server) fleet(ctx context.Context, verb, group string) error {
	return s.call(ctx, http.MethodPost, "/v1/"+verb, map[string]any{"client_params": map[string]string{"id": s.uuid, "group": group}}, nil)
}

// File opens a file of the server at an offset. The body may begin earlier: at is its actual offset.
func (s *Server) File(ctx context.Context, path string, offset int64) (body io.ReadCloser, at int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, 0, fail.Wrap(fail.Invalid, err, "fetch %s", path)
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	res, err := s.files.Do(req)
	if err != nil {
		return nil, 0, fail.Wrap(fail.Unreachable, err, "fetch %s", path)
	}
	switch {
	case res.StatusCode == http.StatusPartialContent && strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
		return res.Body, offset, nil
	case res.StatusCode == http.StatusOK:
		return res.Body, 0, nil
	}
	_ = res.Body.Close()
	kind := fail.Refused
	switch {
	case res.StatusCode == http.StatusNotFound:
		kind = fail.NotFound
	case res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests:
		kind = fail.Unreachable
	}
	return nil, 0, fail.New(kind, "the server answered %s to %s", res.Status, path)
}

// call sends a request and decodes the answer into out.
func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "encode the request")
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "ask the server")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Fleet-Lock-Protocol", "true")
	res, err := s.http.Do(req)
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "ask the server")
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "read the server's answer")
	}
	if res.StatusCode != http.StatusOK {
		return refusal(res, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fail.Wrap(fail.Unreachable, err, "read the server's answer")
	}
	return nil
}

// refusal converts the server's problem document, or FleetLock's error, into an error.
func refusal(res *http.Response, data []byte) error {
	var p struct{ Title, Detail, Value string }
	_ = json.Unmarshal(data, &p) // the body is neither: use only the status
	why := strings.Join(strings.Fields(strings.Join([]string{p.Title, p.Detail, p.Value}, " ")), " ")
	kind := fail.Refused
	switch code := res.StatusCode; {
	case code == http.StatusForbidden:
		kind = fail.NotReady
	case code == http.StatusConflict:
		kind = fail.Conflict
	case code == http.StatusNotFound:
		kind = fail.NotFound
	case code == http.StatusUnauthorized:
		kind = fail.Unauthorized
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests:
		kind = fail.Unreachable
	}
	return fail.New(kind, "the server answered %s: %s", res.Status, why)
}
