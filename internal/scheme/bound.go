package scheme

import (
	"io"
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bound returns a transport like next whose answers end in an error after most bytes, uncompressed: libraries read them whole, and a hostile or broken
// service could send them without an end. most returns 0 for an answer that may have any size.
func Bound(next http.RoundTripper, most func(*http.Request) int64) http.RoundTripper {
	return &bound{next, most}
}

type bound struct {
	next http.RoundTripper
	most func(*http.Request) int64
}

// CloseIdleConnections lets http.Client close the connections of the transport.
func (b *bound) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (b *bound) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if most := b.most(r); most > 0 && res.Body != nil {
		res.Body = &boundBody{ReadCloser: res.Body, left: most, most: most, host: r.URL.Host}
	}
	return res, nil
}

// boundBody is a body with the number of bytes that may still come.
type boundBody struct {
	io.ReadCloser
	left, most int64
	host       string
}

// Read implements io.Reader.
func (b *boundBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 { // one more byte tells whether there is more
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) <= b.left {
		b.left -= int64(n)
		return n, err
	}
	n, b.left = int(b.left), 0
	return n, fail.New(fail.Refused, "the answer is larger than %d KiB", b.most>>10).At(b.host).Do("check that the address is the service's: none answers so much").Enough()
}
