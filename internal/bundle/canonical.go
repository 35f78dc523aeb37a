package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

const schemaVersion = 1

func hostPlatform() string { return "linux/" + runtime.GOARCH }

func (m *Manifest) sort() {
	sort.Slice(m.Components, func(i, j int) bool { return m.Components[i].Name < m.Components[j].Name })
	for _, list := range [][]Artifact{m.Binaries, m.Files} {
		sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	}
	sort.Slice(m.Images, func(i, j int) bool { return m.Images[i].Name < m.Images[j].Name })
}

// encode returns the canonical form: one line of JSON with the fields in the order of the type.
func (m *Manifest) encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode bundle manifest")
	}
	return append(data, '\n'), nil
}

func idOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// artifacts returns all files of the bundle in the blob directory.
func (m *Manifest) artifacts() []Artifact {
	out := slices.Concat(m.Binaries, m.Files)
	for _, i := range m.Images {
		out = append(out, i.Archive)
	}
	return out
}

// maxBundle bounds the bytes that a foreign manifest can make us write. Bundles have less than 2 GiB.
const maxBundle = 16 << 30

func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, err
	}
	return m, m.check()
}

// check refuses an unknown schema, invalid versions, digests and sizes, names that could lead out of a directory, and duplicate names.
func (m *Manifest) check() error {
	if m.Schema != schemaVersion {
		return fmt.Errorf("schema %d is not known to this version of naupegos (it knows %d)", m.Schema, schemaVersion)
	}
	if _, ok := release.Parse(m.Kubernetes); !ok {
		return fmt.Errorf("%q is not a version of the form %s", m.Kubernetes, release.Default)
	}
	seen := map[string]bool{}
	var total int64
	for _, a := range m.artifacts() {
		if !validDigest(a.Digest) {
			return fmt.Errorf("artifact %q: %q is not a sha256 digest", a.Name, a.Digest)
		}
		if a.Size < 0 {
			return fmt.Errorf("artifact %q: size %d", a.Name, a.Size)
		}
		if total += min(a.Size, maxBundle+1); total > maxBundle {
			return fmt.Errorf("artifact %q: with its %d bytes the bundle is larger than %d GiB", a.Name, a.Size, maxBundle>>30)
		}
		if a.Name == "" || path.IsAbs(a.Name) || path.Clean(a.Name) != a.Name || strings.HasPrefix(a.Name, "..") {
			return fmt.Errorf("artifact name %q is not a clean relative path", a.Name)
		}
		if seen[a.Name] {
			return fmt.Errorf("artifact %q is named twice", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func validDigest(d string) bool {
	h, ok := strings.CutPrefix(d, "sha256:")
	return ok && isHex(h)
}

func isHex(s string) bool { return len(s) == 64 && isHexDigits(s) }

func isHexDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

func itoa(n int) string { return strconv.Itoa(n) }

func contains(list []string, s string) bool { return slices.Contains(list, s) }
