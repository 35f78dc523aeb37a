package bundle

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"runtime"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// pinsFile contains the digests of pulled files in the format of sha256sum.
const pinsFile = "recipes/pulled.sha256"

// readPins parses the content of pinsFile: digests (hex) by name.
func readPins(text string) (map[string]string, error) {
	out := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 2 || !isHex(f[0]) || strings.Count(f[1], "/") != 3 {
			return nil, fmt.Errorf("line %d is not <sha256>  <component>/<version>/<processor>/<file>", i+1)
		}
		if _, ok := out[f[1]]; ok {
			return nil, fmt.Errorf("line %d: %s occurs twice", i+1, f[1])
		}
		out[f[1]] = f[0]
	}
	return out, nil
}

// pins returns the digests that the recipes pin, by pinName.
func pins() (map[string]string, error) {
	data, err := recipes.ReadFile(pinsFile)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the digests of pulled files")
	}
	out, err := readPins(string(data))
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the digests of pulled files").At(pinsFile)
	}
	return out, nil
}

// pinName returns the download's name in pinsFile.
func (d download) pinName() string {
	return path.Join(d.component, d.version, runtime.GOARCH, path.Base(d.url))
}

// unpinned returns the downloads without a pinned digest.
func unpinned(list []download) []download {
	var out []download
	for _, d := range list {
		if d.pin == "" {
			out = append(out, d)
		}
	}
	return out
}

// checkPins refuses to pull files without a pinned digest, for which only their publisher vouches, unless the user asked for it
// (wished). Even then they must come over an encrypted connection.
func checkPins(list []download, wished bool) error {
	open := unpinned(list)
	if len(open) == 0 {
		return nil
	}
	if !wished {
		return fail.New(fail.Refused, "the recipe knows no digest of %d of %d files, the first is %s", len(open), len(list), open[0].pinName()).
			Do("build the bundle from source: naupegos bundle build; or pull with --unpinned, which trusts the checksums that are published beside the files")
	}
	for _, d := range open {
		for _, address := range []string{d.url, d.sums} {
			if !encrypted(address) {
				return fail.New(fail.Refused, "the recipe knows no digest of %s, and it would come over an unprotected connection", d.pinName()).
					At(shown(address)).Do("use https")
			}
		}
	}
	return nil
}

// encrypted reports whether data from an address is protected from tampering in transit: its connection is encrypted, or does not leave this host.
func encrypted(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || ip != nil && ip.IsLoopback()
}
