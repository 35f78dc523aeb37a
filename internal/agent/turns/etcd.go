package turns

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// member is a minimal client of etcd: JSON over HTTPS through etcd's gateway.
type member struct {
	url  string
	http *http.Client
}

// requestTimeout bounds one request, except for a snapshot.
const requestTimeout = 30 * time.Second

func connect(e Etcd) (*member, error) {
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		return nil, fail.New(fail.Invalid, "the certificate for etcd can't be used").At(e.Cert) // cause withheld: it may quote a secret
	}
	ca, err := os.ReadFile(e.CA)
	if err != nil {
		return nil, fail.Wrap(fail.NotFound, err, "read the authority of etcd")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fail.New(fail.Invalid, "it holds no certificate").At(e.CA)
	}
	return &member{url: e.URL, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: requestTimeout,
		TLSHandshakeTimeout:   5 * time.Second,
		IdleConnTimeout:       time.Minute,
	}}}, nil
}

// post sends a request. The caller closes the answer's body.
func (m *member) post(ctx context.Context, path string, body any) (io.ReadCloser, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask etcd")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "ask etcd").At(m.url)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, fail.Wrap(kindOf(ctx), err, "ask etcd").At(m.url)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // only for the message
	kind := fail.NotReady                                 // no leader, no space, overloaded
	if resp.StatusCode < 500 {
		kind = fail.Refused
	}
	return nil, fail.New(kind, "etcd answers %s with %s: %s", path, resp.Status, bytes.TrimSpace(text)).At(m.url)
}

// kindOf returns the fail.Kind of an unanswered request.
func kindOf(ctx context.Context) fail.Kind {
	if ctx.Err() != nil {
		return fail.KindOf(ctx.Err())
	}
	return fail.Unreachable
}

// call sends a request and decodes the answer into out.
func (m *member) call(ctx context.Context, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := m.post(ctx, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := json.NewDecoder(r).Decode(out); err != nil {
		return fail.Wrap(kindOf(ctx), err, "read etcd's answer to %s", path).At(m.url)
	}
	return nil
}

// kv is a key with its value.
type kv struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// ranged is a request for keys, and its answer.
type ranged struct {
	Key      []byte `json:"key"`
	RangeEnd []byte `json:"range_end,omitempty"`
	Limit    int64  `json:"limit,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

type found struct {
	Header struct {
		Revision int64 `json:"revision,string"`
	} `json:"header"`
	KVs  []kv `json:"kvs"`
	More bool `json:"more"`
}

// get reads a key; it returns nil if the key does not exist.
func (m *member) get(ctx context.Context, key string) ([]byte, error) {
	var f found
	if err := m.call(ctx, "/v3/kv/range", ranged{Key: []byte(key)}, &f); err != nil || len(f.KVs) == 0 {
		return nil, err
	}
	return f.KVs[0].Value, nil
}

// getJSON decodes a key's value into v, and reports whether the key exists.
func (m *member) getJSON(ctx context.Context, key string, v any) (bool, error) {
	raw, err := m.get(ctx, key)
	if err != nil || raw == nil {
		return false, err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, fail.Wrap(fail.Invalid, err, "read %s of etcd", key).Do("naupegos apply writes it again")
	}
	return true, nil
}

// page is the number of keys per request.
const page = 200

// values calls visit for every key with the prefix, in order, all at one revision, which it returns.
func (m *member) values(ctx context.Context, prefix string, visit func(key, value []byte)) (revision int64, err error) {
	from, end := []byte(prefix), []byte(prefix)
	end[len(end)-1]++ // a prefix ends with a slash
	for {
		var f found
		if err := m.call(ctx, "/v3/kv/range", ranged{Key: from, RangeEnd: end, Limit: page, Revision: revision}, &f); err != nil {
			return 0, err
		}
		for _, kv := range f.KVs {
			visit(kv.Key, kv.Value)
		}
		if revision == 0 {
			revision = f.Header.Revision
		}
		if !f.More || len(f.KVs) == 0 {
			return revision, nil
		}
		from = append(f.KVs[len(f.KVs)-1].Key, 0)
	}
}

// version returns the member's release.
func (m *member) version(ctx context.Context) (string, error) {
	var s struct {
		Version string `json:"version"`
	}
	return s.Version, m.call(ctx, "/v3/maintenance/status", struct{}{}, &s)
}

// snapshot writes the member's database to w, and verifies the checksum at its end.
func (m *member) snapshot(ctx context.Context, w io.Writer) error {
	r, err := m.post(ctx, "/v3/maintenance/snapshot", struct{}{})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	v := &checked{w: w}
	for d := json.NewDecoder(r); ; {
		var part struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		err := d.Decode(&part)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail.Wrap(kindOf(ctx), err, "read etcd's snapshot").At(m.url)
		}
		if part.Error.Message != "" {
			return fail.New(fail.NotReady, "etcd gives no snapshot: %s", part.Error.Message).At(m.url)
		}
		if err := v.write(part.Result.Blob); err != nil {
			return err
		}
	}
	if err := v.check(); err != nil {
		return fail.Wrap(fail.NotReady, err, "read etcd's snapshot").At(m.url)
	}
	return nil
}

// checked forwards a snapshot and compares its last 32 bytes with the SHA-256 of the preceding ones.
type checked struct {
	w    io.Writer
	n    int64
	tail []byte // the last bytes written, not yet forwarded
	body interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func (c *checked) write(b []byte) error {
	if c.body == nil {
		c.body = sha256.New()
	}
	c.n += int64(len(b))
	all := append(c.tail, b...)
	keep := max(0, len(all)-sha256.Size)
	_, _ = c.body.Write(all[:keep]) // hashes never fail
	c.tail = bytes.Clone(all[keep:])
	_, err := c.w.Write(b)
	return err
}

func (c *checked) check() error {
	if c.body == nil || c.n%512 != sha256.Size || !bytes.Equal(c.tail, c.body.Sum(nil)) {
		return fmt.Errorf("of %d bytes the checksum at the end is missing, or does not fit", c.n)
	}
	return nil
}
