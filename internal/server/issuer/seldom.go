package issuer

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
)

const (
	mostAnswer = 1 << 20 // bytes of an issuer's answer
	mostKept   = 8       // answers; an issuer has two URLs, but it could redirect to a new one each time
)

// seldom limits the rate of requests for an issuer's public answers (its configuration and keys): every forged token makes go-oidc request the keys again,
// so strangers could have a server flood its issuer. Over the limit, the last answer is repeated.
type seldom struct {
	next  http.RoundTripper
	limit *peer.Rates

	mu   sync.Mutex
	last map[string]kept // by URL
}

type kept struct {
	status int
	header http.Header
	body   []byte
}

func newSeldom(next http.RoundTripper) *seldom {
	return &seldom{next: next, limit: peer.NewRates(1, 10, 1), last: map[string]kept{}}
}

// RoundTrip implements http.RoundTripper.
func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
		return s.next.RoundTrip(r)
	}
	at := r.URL.String()
	if !s.limit.Allow("") {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k, ok := s.last[at]; ok {
			return k.response(r), nil
		}
		return nil, fail.New(fail.NotReady, "the issuer is asked too often").Do("try again in a few seconds")
	}
	res, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body) // Client bounds it
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	k := kept{res.StatusCode, res.Header, body}
	if res.StatusCode == http.StatusOK {
		s.mu.Lock()
		if len(s.last) >= mostKept {
			clear(s.last)
		}
		s.last[at] = k
		s.mu.Unlock()
	}
	return k.response(r), nil
}

func (k kept) response(r *http.Request) *http.Response {
	return &http.Response{Status: http.StatusText(k.status), StatusCode: k.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: k.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: r}
}
