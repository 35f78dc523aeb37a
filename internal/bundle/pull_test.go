package bundle

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

var modTime = time.Unix(1_700_000_000, 0)

func quickFetcher() *fetcher {
	f := newFetcher()
	f.stall, f.largest = 300*time.Millisecond, 8<<20
	return f
}

func TestPullTakesEverythingVerified(t *testing.T) {
	r := testRecipe(t)
	u, l := newUpstream(t, r), newLibrary(t)
	var bytes atomic.Int64
	report := &reporter{to: func(e Event) {
		if e.Finished && !e.Cached {
			bytes.Add(e.Done)
		}
	}}
	progs, components, err := l.pullAll(context.Background(), quickFetcher(), r.downloads(u.urls.orOfficial()), report)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range hostBinaries() {
		if from == "cni-flannel" {
			continue // ours, compiled
		}
		data, err := os.ReadFile(progs[from].file)
		if err != nil || digestOf(data) != progs[from].Digest {
			t.Errorf("%s: %v", from, err)
		}
	}
	if got, err := os.ReadFile(progs["containerd"].file); err != nil || string(got) != "program containerd" {
		t.Errorf("containerd: %q, %v", got, err)
	}
	if len(components) != 6 || components[4].Name != "flannel" || components[4].Source != u.urls.Flannel+"/"+r.Flannel {
		t.Errorf("components: %+v", components)
	}
	if bytes.Load() < 700_000 {
		t.Errorf("progress reports only %d bytes", bytes.Load())
	}
	// The second pull requests only checksums.
	before := u.asked["/k/"+r.Kubernetes+"/bin/linux/"+runtime.GOARCH+"/kubelet"]
	if _, _, err := l.pullAll(context.Background(), quickFetcher(), r.downloads(u.urls.orOfficial()), report); err != nil {
		t.Fatal(err)
	}
	if after := u.asked["/k/"+r.Kubernetes+"/bin/linux/"+runtime.GOARCH+"/kubelet"]; before != 1 || after != before {
		t.Errorf("kubelet was asked for %d times, then %d", before, after)
	}
}

func TestPullFaults(t *testing.T) {
	r := testRecipe(t)
	kubelet := "/k/" + r.Kubernetes + "/bin/linux/" + runtime.GOARCH + "/kubelet"
	flannel := "/f/" + r.Flannel + "/flanneld-" + runtime.GOARCH
	etcd := "/e/" + r.Etcd + "/etcd-" + r.Etcd + "-linux-" + runtime.GOARCH + ".tar.gz"
	for _, c := range []struct {
		name  string
		spoil func(u *upstream)
		kind  fail.Kind // Internal: none, it succeeds
		says  []string
	}{
		{"wrong checksum", func(u *upstream) { u.files[kubelet][7] ^= 1 }, fail.Refused, []string{"kubelet", "the project publishes sha256:", "do not use it"}},
		{"wrong checksum of an archive", func(u *upstream) { u.files[etcd][30] ^= 1 }, fail.Refused, []string{"etcd-"}},
		{"wrong digest in the API", func(u *upstream) { u.files[flannel] = append(u.files[flannel], 'x') }, fail.Refused, []string{"flanneld"}},
		{"no digest in the API", func(u *upstream) { u.files["/api/tags/"+r.Flannel] = []byte(`{"assets":[]}`) }, fail.Refused, []string{"flanneld", "not published"}},
		{"a page in place of a checksum", func(u *upstream) { u.files[kubelet+".sha256"] = []byte("<html>log in</html>") }, fail.Refused, []string{"not published"}},
		{"404", func(u *upstream) { delete(u.files, kubelet) }, fail.NotFound, []string{"kubelet", "404"}},
		{"checksum 404", func(u *upstream) { delete(u.files, kubelet+".sha256") }, fail.NotFound, []string{"kubelet.sha256"}},
		{"403", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				http.Error(w, "no", http.StatusForbidden)
				return true
			}
		}, fail.Unreachable, []string{"403"}},
		{"a file without an end", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, r *http.Request, _ []byte, _ int) bool {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						break
					}
				}
				return true
			}
		}, fail.Refused, []string{"kubelet", "larger than 8388608 bytes"}},
		{"503 once", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, _ *http.Request, _ []byte, times int) bool {
				if times == 1 {
					http.Error(w, "later", http.StatusServiceUnavailable)
				}
				return times == 1
			}
		}, fail.Internal, nil},
		{"503 always", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return true
			}
		}, fail.Unreachable, []string{"4 attempts", "503"}},
		{"cut once, resumed", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, r *http.Request, content []byte, times int) bool {
				if times == 1 {
					cut(w, content, 60_000)
				}
				if !strings.HasPrefix(r.Header.Get("Range"), "bytes=") {
					http.Error(w, "you had some", http.StatusTeapot)
					return true
				}
				return false
			}
		}, fail.Internal, nil},
		{"cut once, server does not resume", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, _ *http.Request, content []byte, times int) bool {
				if times == 1 {
					cut(w, content, 60_000)
				}
				_, _ = w.Write(content)
				return true
			}
		}, fail.Internal, nil},
		{"always cut", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, _ *http.Request, content []byte, _ int) bool {
				cut(w, content, 10)
				return true
			}
		}, fail.Unreachable, []string{"kubelet", "attempts"}},
		{"stalls once", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, r *http.Request, content []byte, times int) bool {
				if times > 1 {
					return false
				}
				w.Header().Set("Content-Length", "100000")
				_, _ = w.Write(content[:10])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return true
			}
		}, fail.Internal, nil},
		{"drips", func(u *upstream) {
			u.faults[kubelet] = func(w http.ResponseWriter, r *http.Request, content []byte, _ int) bool {
				w.Header().Set("Content-Length", "100000")
				for i := 0; r.Context().Err() == nil; i++ {
					_, _ = w.Write(content[i : i+1])
					w.(http.Flusher).Flush()
					select {
					case <-time.After(20 * time.Millisecond):
					case <-r.Context().Done():
					}
				}
				return true
			}
		}, fail.Unreachable, []string{"kubelet", "less than 4 KiB in 300ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u, l := newUpstream(t, r), newLibrary(t)
			c.spoil(u)
			progs, _, err := l.pullAll(context.Background(), quickFetcher(), r.downloads(u.urls.orOfficial()), &reporter{})
			if c.kind == fail.Internal {
				if err != nil {
					t.Fatal(err)
				}
				if got := progs["kubelet"].Digest; got != digestOf(u.files[kubelet]) {
					t.Errorf("kubelet has digest %s", got)
				}
			} else {
				wantKind(t, err, c.kind, c.says...)
				if left, _ := filepath.Glob(filepath.Join(l.cacheDir(), "pull-kubelet-*")); len(left) > 0 && strings.Contains(c.name, "checksum") && !strings.Contains(c.name, "archive") {
					t.Errorf("kept all the same: %v", left)
				}
			}
			if left := names(t, l.tmpDir()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestArchiveThatLacksAProgram(t *testing.T) {
	r := testRecipe(t)
	u := newUpstream(t, r)
	dir := "/d/" + r.CoreDNS + "/"
	file := "coredns_" + r.CoreDNS[1:] + "_linux_" + runtime.GOARCH + ".tgz"
	u.files[dir+file] = targz(t, "", "something-else", "../coredns")
	u.files[dir+file+".sha256"] = []byte(hexOf(digestOf(u.files[dir+file])) + "  release/" + file + "\n")
	_, _, err := newLibrary(t).pullAll(context.Background(), quickFetcher(), r.downloads(u.urls.orOfficial()), &reporter{})
	if err == nil || !strings.Contains(err.Error(), "lacks [coredns]") {
		t.Errorf("got %v", err)
	}
}

func TestPullStopsWhenAsked(t *testing.T) {
	r := testRecipe(t)
	u := newUpstream(t, r)
	ctx, cancel := context.WithCancel(context.Background())
	u.faults["/k/"+r.Kubernetes+"/bin/linux/"+runtime.GOARCH+"/kubelet"] = func(_ http.ResponseWriter, q *http.Request, _ []byte, _ int) bool {
		cancel()
		<-q.Context().Done()
		return true
	}
	_, _, err := newLibrary(t).pullAll(ctx, newFetcher(), r.downloads(u.urls.orOfficial()), &reporter{})
	wantKind(t, err, fail.Interrupted)
}

func TestReachable(t *testing.T) {
	r := testRecipe(t)
	u := newUpstream(t, r)
	ctx := context.Background()
	if !reachable(ctx, u.urls, r.Kubernetes, time.Second) {
		t.Error("a mirror that answers counts as unreachable")
	}
	if reachable(ctx, u.urls, "v9.9.9", time.Second) {
		t.Error("a mirror without the release counts as reachable")
	}
	sums := "/k/" + r.Kubernetes + "/bin/linux/" + runtime.GOARCH + "/kubeadm.sha256"
	u.faults[sums] = func(_ http.ResponseWriter, q *http.Request, _ []byte, _ int) bool { <-q.Context().Done(); return true }
	began := time.Now()
	if reachable(ctx, u.urls, r.Kubernetes, 50*time.Millisecond) || time.Since(began) > 5*time.Second {
		t.Errorf("a silent mirror was waited for %s", time.Since(began))
	}
}

func TestMirrorsPasswordStaysSecret(t *testing.T) {
	const mirror = "https://me:hunter2@mirror.example.org/k/v1"
	if got := publicURL(mirror+"/", "kubelet"); got != "https://mirror.example.org/k/v1" {
		t.Errorf("in the manifest: %s", got)
	}
	f := quickFetcher()
	f.client = &http.Client{Transport: failing{}}
	_, err := f.text(context.Background(), mirror)
	wantKind(t, err, fail.Unreachable)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("in the error: %v", err)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }

func TestNoDowngrade(t *testing.T) {
	secure, _ := http.NewRequest(http.MethodGet, "https://a", nil)
	plain, _ := http.NewRequest(http.MethodGet, "http://b", nil)
	if noDowngrade(plain, []*http.Request{secure}) == nil {
		t.Error("a redirection from https to http is followed")
	}
	if err := noDowngrade(secure, []*http.Request{plain}); err != nil {
		t.Error(err)
	}
}

func TestFindSum(t *testing.T) {
	a, b := hexOf(digestOf([]byte("a"))), hexOf(digestOf([]byte("b")))
	for doc, want := range map[string]string{
		a: a, a + "\n": a, strings.ToUpper(a): a,
		b + "  other\n" + a + "  file\n": a, a + " *file\n": a, a + "  ./dir/file\n": a,
		"": "", "file": "", b + "  other\n": "", "<html>": "",
	} {
		got, err := findSum(doc, "file")
		if got != want || (err == nil) == (want == "") {
			t.Errorf("%q: %q, %v", doc, got, err)
		}
	}
}

func TestOfficialPlaces(t *testing.T) {
	u := BaseURLs{Etcd: "http://mirror/etcd/"}.orOfficial()
	if u.Etcd != "http://mirror/etcd" || u.Kubernetes != "https://dl.k8s.io/release" {
		t.Errorf("got %+v", u)
	}
	var all []string
	r := recipe{Release: release.Release{Kubernetes: "v1.36.3", Etcd: "v3.6.8", CoreDNS: "v1.14.2", Flannel: "v0.28.4", CNI: "v1.9.1", Containerd: "v2.2.9"}}
	for _, d := range r.downloads(OfficialURLs()) {
		all = append(all, strings.ReplaceAll(d.url+" "+d.sums, runtime.GOARCH, "ARCH"))
	}
	testkit.Golden(t, "downloads.golden", strings.Join(all, "\n")+"\n")
}
