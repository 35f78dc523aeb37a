package bundle

import (
	"context"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPinsAreOfDownloads: every pinned digest belongs to a download of some release.
func TestPinsAreOfDownloads(t *testing.T) {
	known := testkit.Value(pins())(t)
	for _, rel := range release.All() {
		for _, d := range (recipe{Release: rel}).downloads(OfficialURLs()) {
			for _, arch := range []string{"amd64", "arm64"} {
				delete(known, strings.ReplaceAll(d.pinName(), runtime.GOARCH, arch))
			}
		}
	}
	for name := range known {
		t.Errorf("%s is no download of any release", name)
	}
}

func TestReadPins(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	got, err := readPins("# why\n\n" + sum + "  etcd/v3.7.0/amd64/etcd.tar.gz\n")
	if err != nil || len(got) != 1 || got["etcd/v3.7.0/amd64/etcd.tar.gz"] != sum {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"x  etcd/v3.7.0/amd64/f", sum, sum + "  f", sum + "  a/b/c/d\n" + sum + "  a/b/c/d"} {
		if _, err := readPins(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// pinned pins the digests of all of a mirror's files in the recipe.
func (u *upstream) pinned(r *recipe) {
	r.pins = map[string]string{}
	for _, d := range r.downloads(u.urls.orOfficial()) {
		r.pins[d.pinName()] = hexOf(digestOf(u.files[strings.TrimPrefix(d.url, u.server.URL)]))
	}
}

// TestPinnedDownloads: for a pinned file, the published checksum is not even requested, and a changed file is refused even if the checksum was changed
// with it.
func TestPinnedDownloads(t *testing.T) {
	r := testRecipe(t)
	u, l := newUpstream(t, r), newLibrary(t)
	u.pinned(&r)
	kubelet := "/k/" + r.Kubernetes + "/bin/linux/" + runtime.GOARCH + "/kubelet"
	pull := func(l *Library) error {
		_, _, err := l.pullAll(t.Context(), quickFetcher(), r.downloads(u.urls.orOfficial()), &reporter{})
		return err
	}
	testkit.Must(t, pull(l))
	for asked := range u.asked {
		if strings.Contains(asked, "sha256") || strings.Contains(path.Base(asked), "SHA256SUMS") || strings.HasPrefix(asked, "/api/") {
			t.Errorf("%s was asked for", asked)
		}
	}
	u.files[kubelet][7] ^= 1 // and its published checksum accordingly
	u.files[kubelet+".sha256"] = []byte(hexOf(digestOf(u.files[kubelet])))
	wantKind(t, pull(newLibrary(t)), fail.Refused, "kubelet", "the recipe pins sha256:", "do not use it")
}

func TestUnpinnedHasToBeWishedFor(t *testing.T) {
	r := testRecipe(t)
	u := newUpstream(t, r)
	list := r.downloads(u.urls.orOfficial())
	wantKind(t, checkPins(list, false), fail.Refused, "no digest of 12 of 12 files", "kubernetes/"+r.Kubernetes, "--unpinned", "bundle build")
	if err := checkPins(list, true); err != nil {
		t.Errorf("from this host itself: %v", err)
	}
	plain := BaseURLs{Etcd: "http://user:hunter2@mirror.example.org/etcd"}.orOfficial()
	err := checkPins(r.downloads(plain), true)
	wantKind(t, err, fail.Refused, "etcd/"+r.Etcd, "mirror.example.org", "use https")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("in the error: %v", err)
	}
	u.pinned(&r)
	if err := checkPins(r.downloads(u.urls.orOfficial()), false); err != nil {
		t.Errorf("all is pinned: %v", err)
	}
	_, err = newLibrary(t).Pull(t.Context(), PullOptions{Kubernetes: r.Kubernetes, BaseURLs: u.urls})
	wantKind(t, err, fail.Refused, "--unpinned")
	if len(u.asked) > 0 {
		t.Errorf("asked for before that: %v", u.asked)
	}
}

// TestUnpinnedDigestsAreTold: a pull reports the digests of unpinned files in the format of pinsFile.
func TestUnpinnedDigestsAreTold(t *testing.T) {
	r := testRecipe(t)
	u, l := newUpstream(t, r), newLibrary(t)
	var told []string
	_, _, err := l.pullAll(t.Context(), quickFetcher(), r.downloads(u.urls.orOfficial()), &reporter{to: func(e Event) {
		if sum, ok := strings.CutPrefix(e.Note, "unpinned: "); ok {
			told = append(told, sum)
		}
	}})
	testkit.Must(t, err)
	got := testkit.Value(readPins(strings.Join(told, "\n")))(t)
	u.pinned(&r)
	if len(got) != len(r.pins) {
		t.Errorf("%d of %d digests are reported", len(got), len(r.pins))
	}
	for name, sum := range r.pins {
		if got[name] != sum {
			t.Errorf("%s: %s, want %s", name, got[name], sum)
		}
	}
}

// TestNothingUnpinnedComesByItself: if the recipe lacks a digest, Ensure builds the bundle and contacts no mirror.
func TestNothingUnpinnedComesByItself(t *testing.T) {
	r := testRecipe(t)
	u := newUpstream(t, r)
	if len(unpinned(r.downloads(u.urls.orOfficial()))) == 0 {
		t.Fatal("the release is pinned by now: use another one here")
	}
	_, err := newLibrary(t).Ensure(context.Background(), r.Kubernetes, EnsureOptions{BaseURLs: u.urls, Go: "/nonexistent/go"})
	wantKind(t, err, fail.Refused, "install Go")
	if len(u.asked) > 0 {
		t.Errorf("the mirror was asked: %v", u.asked)
	}
}
