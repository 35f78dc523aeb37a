package kube

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// bounds are what one answer of an API server may hold, uncompressed: a tenant's API server must not exhaust the memory of the server that serves
// other tenants, too. Bytes alone do not bound memory, because an empty element of a list, such as a pod of two bytes, becomes a struct of a
// kilobyte. So the values and the objects in lists are counted as well. A thousand pods have about 40,000 objects in lists. A watch that reaches a
// bound ends, and its reader lists and watches again.
type bounds struct{ bytes, values, objects int64 }

var maxAnswer = bounds{bytes: 128 << 20, values: 6_000_000, objects: 250_000}

// maxError bounds the bytes of an answer that is an error: it becomes the text of an error, which is stored at each attempt.
const maxError = 512 << 10

// bounded asks for JSON, whose values it can count, and ends answers that are too large or in another encoding.
type bounded struct {
	http.RoundTripper
	most bounds
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if accept, changed := countable(r.Header.Get("Accept")); changed {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", accept)
	}
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); binary(kind) {
		_ = resp.Body.Close() // nothing was read
		return nil, fail.New(fail.Refused, "the API server answers in %q, which was not asked for", kind).Do("look at the cluster: another program answers")
	}
	if resp.Body != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		most := b.most
		if resp.StatusCode >= http.StatusBadRequest {
			most.bytes = min(most.bytes, maxError)
		}
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: most, most: most}
	}
	return resp, nil
}

// countable removes binary encodings from an Accept header.
func countable(accept string) (left string, changed bool) {
	all := strings.Split(accept, ",")
	kept := slices.DeleteFunc(slices.Clone(all), binary)
	return strings.Join(kept, ","), len(kept) < len(all)
}

// binary reports whether a media type is an encoding whose values bounded can't count.
func binary(kind string) bool {
	kind = strings.ToLower(kind)
	return strings.Contains(kind, "protobuf") || strings.Contains(kind, "cbor")
}

// boundedBody is a JSON body with its remaining bounds.
type boundedBody struct {
	io.ReadCloser
	left, most bounds
	before     byte // the last byte that is not white space; 0: none yet
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left.bytes -= int64(n)
	for _, c := range p[:n] {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case ',', '[':
			b.left.values--
		case '{':
			b.left.values--
			if b.before == ',' || b.before == '[' {
				b.left.objects--
			}
		}
		b.before = c
	}
	if b.left.bytes < 0 || b.left.values < 0 || b.left.objects < 0 {
		return 0, fail.New(fail.Refused, "the API server's answer is larger than %d KiB, %d values or %d objects in lists", b.most.bytes>>10, b.most.values, b.most.objects).
			Do("look at the cluster: another program answers, or it holds too much")
	}
	return n, err
}
