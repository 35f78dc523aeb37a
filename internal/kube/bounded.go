package kube

import (
	"io"
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
)

// maxAnswer is the most that one answer of an API server may hold, uncompressed: a tenant's API server must not exhaust the memory of the server that serves other tenants, too.
const maxAnswer = 256 << 20

// bounded ends answers that are too large.
type bounded struct {
	http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil && resp.Body != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &boundedBody{resp.Body, b.most, b.most}
	}
	return resp, err
}

// boundedBody is a body with the number of bytes that may still come.
type boundedBody struct {
	io.ReadCloser
	left, most int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fail.New(fail.Refused, "the API server's answer is larger than %d MiB", b.most>>20).Do("look at the cluster: another program answers, or it holds too much")
	}
	return n, err
}
