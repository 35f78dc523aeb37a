package images

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// The media types of Helm's charts in registries.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// maxChart bounds the bytes of a packed chart.
const maxChart = 16 << 20

// ParseChartReference parses the address of a chart in a registry, "oci://registry.example.org/charts/web:1.2.0". Helm writes the + of a version as _
// in tags.
func ParseChartReference(text string) (Reference, error) {
	r, err := ParseReference(strings.ReplaceAll(strings.TrimPrefix(text, "oci://"), "+", "_"))
	if err != nil {
		return r, err
	}
	if r.Digest == "" && tagOf(r.Text) == "" {
		return r, fail.New(fail.Invalid, "%s names no version", text).Do("write it as %s:VERSION, or with @sha256:…", text)
	}
	return r, nil
}

// FetchChart reads a packed chart from a registry, and returns it with the digest of its manifest.
func FetchChart(ctx context.Context, r Reference, a Access) (packed []byte, digest string, _ error) {
	reg, err := newRegistry(a)
	if err != nil {
		return nil, "", err
	}
	raw, _, err := reg.resolve(ctx, r)
	if err != nil {
		return nil, "", err
	}
	digest = digestOf(raw)
	if r.Digest != "" && r.Digest != digest {
		return nil, "", fail.New(fail.Refused, "%s is not the pinned chart: %s", r.Text, digest).Do("find out which one is right")
	}
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, "", fail.Wrap(fail.Invalid, err, "read the manifest of %s", r.Text)
	}
	n := slices.IndexFunc(m.Layers, func(d v1.Descriptor) bool { return d.MediaType == chartContent })
	if n < 0 || m.Config.MediaType != chartConfig {
		return nil, "", fail.New(fail.Invalid, "%s is not a Helm chart", r.Text).Do("an image is added by naupegos bundle add image")
	}
	d := m.Layers[n]
	if d.Size > maxChart || !digestText.MatchString(d.Digest.String()) {
		return nil, "", fail.New(fail.Refused, "%s: the packed chart has %d bytes and the digest %q", r.Text, d.Size, d.Digest).Do("a chart may have %d MiB", maxChart>>20)
	}
	in, err := reg.open(ctx, r, bundle.SetBlob{Digest: d.Digest.String(), Size: d.Size})
	if err != nil {
		return nil, "", err
	}
	defer in.Close() // only read
	packed, err = io.ReadAll(io.LimitReader(in, maxChart+1))
	if err != nil {
		return nil, "", fail.Wrap(fail.Unreachable, err, "read the chart %s", r.Text)
	}
	if digestOf(packed) != d.Digest.String() {
		return nil, "", fail.New(fail.Refused, "%s: the packed chart does not have the digest in its manifest", r.Text).Do("ask the registry's administrator")
	}
	return packed, digest, nil
}
