package netbooting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/front"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// The paths at which the front process contacts the main process.
const (
	catalogPath = front.Prefix + "catalog"
	profilePath = front.Prefix + "profile"
	toldPath    = front.Prefix + "told"
)

const (
	polling   = 30 * time.Second // time that a request for catalogs waits for a change
	mostAsked = 4096             // queries in one message
	maxAsked  = 512 << 10        // bytes of these
	mostKinds = 256              // kinds of requests in one message
	mostAlike = 100_000          // requests in one message
)

// catalogs are the data for answering machines.
type catalogs struct {
	Version  string      `json:"version"`
	Files    boot.Config `json:"files"`
	Registry boot.Config `json:"registry"`
}

// told is the front process's report of its requests.
type told struct {
	Asked    []string   `json:"asked,omitempty"` // queries of machines that asked what to boot
	Requests []requests `json:"requests,omitempty"`
}

// requests counts requests with the same answer.
type requests struct {
	Pattern string        `json:"pattern"`
	Method  string        `json:"method"`
	Code    int           `json:"code"`
	Count   int           `json:"count"`
	Took    time.Duration `json:"took"` // total time
}

// Forwarded is a route that the main process answers for the front process.
type Forwarded struct {
	Pattern string        `json:"pattern"`
	MaxBody int64         `json:"maxBody,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Stream  bool          `json:"stream,omitempty"`
}

// ForwardedOf returns the routes of parts that machines reach over plain HTTP.
func ForwardedOf(parts []server.Part) (all []Forwarded) {
	for _, p := range parts {
		for _, m := range p.Mounts {
			if m.On == server.Boot {
				all = append(all, Forwarded{m.Pattern, m.MaxBody, m.Timeout, m.Stream})
			}
		}
	}
	return all
}

// Leases returns the directory for DHCP's leases, or "" if this server gives out no addresses. It moves the leases of a former version there.
func (s Site) Leases() (string, error) {
	if s.cfg.Leases == "" {
		return "", nil
	}
	dir := filepath.Dir(s.cfg.Leases)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fail.Wrap(fail.Refused, err, "make the directory of leases")
	}
	former := filepath.Join(filepath.Dir(dir), "dhcp-leases")
	if _, err := os.Lstat(s.cfg.Leases); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(former, s.cfg.Leases); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fail.Wrap(fail.Refused, err, "move the leases of a former version")
		}
	}
	return dir, nil
}

// ForFront returns the configuration of the front process.
func (s Site) ForFront() netboot.Config {
	cfg := s.cfg
	if cfg.Leases != "" {
		cfg.Leases = front.LeasesDir + "/" + filepath.Base(cfg.Leases)
	}
	return cfg
}

// Assets opens kernels and images for the front process.
func (s Site) Assets() boot.Assets { return boot.AssetsOf(s.dir) }

// FrontMounts returns the routes for the front process. asked is called with machines' queries, observe with the front process's requests.
func (s Site) FrontMounts(asked func(url.Values), observe func(*http.Request, int, time.Duration)) []server.Mount {
	on := func(pattern string, h http.HandlerFunc) server.Mount {
		return server.Mount{Pattern: pattern, Handler: h, On: server.Front, Scope: server.Machine()}
	}
	hear := on("POST "+toldPath, func(w http.ResponseWriter, r *http.Request) {
		var t told
		if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
			problem.Write(w, fail.Wrap(fail.Invalid, err, "read the front process' report"))
			return
		}
		t.hear(asked, observe)
	})
	hear.MaxBody = 8 * maxAsked // JSON escapes them
	return []server.Mount{
		hear,
		on("GET "+catalogPath, s.giveCatalogs),
		on("GET "+profilePath, func(w http.ResponseWriter, r *http.Request) {
			if s.Fallback != nil {
				_, _ = io.WriteString(w, s.Fallback(r.Context(), boot.Labels(r.URL.Query()))) // the front process is gone
			}
		}),
	}
}

// hear passes on only data that an honest front process could have written: an attacker in that process must not fill the metrics with names or keep
// this process busy.
func (t told) hear(asked func(url.Values), observe func(*http.Request, int, time.Duration)) {
	for _, q := range t.Asked[:min(len(t.Asked), mostAsked)] {
		if values, err := url.ParseQuery(q); err == nil {
			asked(values)
		}
	}
	left := mostAlike
	for _, q := range t.Requests[:min(len(t.Requests), mostKinds)] {
		if q.Count <= 0 || q.Count > left || q.Code < 0 || q.Code > 599 || q.Pattern != "" && !slices.Contains(netboot.Paths, q.Pattern) {
			continue
		}
		left -= q.Count
		as := &http.Request{Method: q.Method, Pattern: q.Pattern, URL: &url.URL{}}
		for range q.Count {
			observe(as, q.Code, q.Took/time.Duration(q.Count))
		}
	}
}

// giveCatalogs sends the catalogs to a front process with old ones. Until there are new ones, it holds the request, up to a time limit.
func (s Site) giveCatalogs(w http.ResponseWriter, r *http.Request) {
	limit := time.NewTimer(polling)
	defer limit.Stop()
	for {
		files, n, filesChanged := s.Files().Config()
		known, m, knownChanged := s.Registry.Config()
		c := catalogs{Version: fmt.Sprintf("%d-%d", n, m), Files: files, Registry: known}
		if r.URL.Query().Get("have") != c.Version {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(c) // the front process is gone
			return
		}
		select {
		case <-filesChanged:
		case <-knownChanged:
		case <-limit.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
}
