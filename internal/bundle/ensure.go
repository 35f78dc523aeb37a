package bundle

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

const defaultProbe = 4 * time.Second

// Ensure returns the library's bundle of a version. If it has none, Ensure pulls one, provided that the recipe pins the digests of all
// downloads and the official sites are reachable; otherwise it builds one. A download that does not match its pin is an error, not a
// reason to build.
// Addons' programs are always built.
func (l *Library) Ensure(ctx context.Context, version string, o EnsureOptions) (*Bundle, error) {
	b, err := l.Find(ctx, version, o.Addons...)
	if err == nil || fail.KindOf(err) != fail.NotFound {
		return b, err
	}
	if len(o.Addons) > 0 {
		return l.ensureExtended(ctx, version, o)
	}
	rec, err := findRecipe(version)
	if err != nil {
		return nil, err
	}
	urls := o.BaseURLs.orOfficial()
	if len(unpinned(rec.downloads(urls))) == 0 && reachable(ctx, urls, version, o.Probe) {
		b, err := l.Pull(ctx, PullOptions{Kubernetes: version, BaseURLs: urls, Progress: o.Progress, Go: o.Go})
		if k := fail.KindOf(err); err == nil || (k != fail.Unreachable && k != fail.NotFound) {
			return b, err
		}
		(&reporter{to: o.Progress}).note("downloads", fmt.Sprintf("building from source, for the official downloads fail: %v", err))
	}
	return l.Build(ctx, BuildOptions{Kubernetes: version, Progress: o.Progress, Parallel: o.Parallel, Go: o.Go})
}

// reachable reports whether one small file of the release can be downloaded.
func reachable(ctx context.Context, u BaseURLs, version string, bound time.Duration) bool {
	if bound <= 0 {
		bound = defaultProbe
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	url := fmt.Sprintf("%s/%s/bin/linux/%s/kubeadm.sha256", u.Kubernetes, version, runtime.GOARCH)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := newFetcher().client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close() // only the status counts
	return resp.StatusCode == http.StatusOK
}
