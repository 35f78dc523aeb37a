package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// upstream serves the official layout of all projects, with faults on demand.
type upstream struct {
	mu     sync.Mutex
	files  map[string][]byte // by path
	asked  map[string]int
	faults map[string]func(w http.ResponseWriter, r *http.Request, content []byte, times int) bool // true: answered
	server *httptest.Server
	urls   BaseURLs
}

func newUpstream(t *testing.T, r recipe) *upstream {
	t.Helper()
	u := &upstream{files: map[string][]byte{}, asked: map[string]int{}, faults: map[string]func(http.ResponseWriter, *http.Request, []byte, int) bool{}}
	arch := runtime.GOARCH
	for i, target := range r.kubernetes().targets {
		path := fmt.Sprintf("/k/%s/bin/linux/%s/%s", r.Kubernetes, arch, target.name)
		u.files[path] = filler(100_000 + i)
		u.files[path+".sha256"] = []byte(hexOf(digestOf(u.files[path]))) // without a newline, as published
	}
	archive := func(dir, file, sums, member string, names ...string) {
		data := targz(t, member, names...)
		u.files[dir+file] = data
		u.files[dir+sums] = []byte(strings.Repeat("0", 64) + "  other-" + file + "\n" + hexOf(digestOf(data)) + "  " + file + "\n")
	}
	etcd := "etcd-" + r.Etcd + "-linux-" + arch
	archive("/e/"+r.Etcd+"/", etcd+".tar.gz", "SHA256SUMS", etcd+"/", "README.md", "etcd", "etcdctl", "etcdutl")
	cni := "cni-plugins-linux-" + arch + "-" + r.CNI + ".tgz"
	archive("/n/"+r.CNI+"/", cni, cni+".sha256", "./", "bridge", "dhcp", "host-local", "loopback", "portmap", "ptp")
	ctd := "containerd-static-" + r.Containerd[1:] + "-linux-" + arch + ".tar.gz"
	archive("/c/"+r.Containerd+"/", ctd, ctd+".sha256sum", "bin/", "containerd-stress", "ctr", "containerd-shim-runc-v2", "containerd")
	dns := "coredns_" + r.CoreDNS[1:] + "_linux_" + arch + ".tgz"
	archive("/d/"+r.CoreDNS+"/", dns, dns+".sha256", "", "coredns")
	flanneld := "/f/" + r.Flannel + "/flanneld-" + arch
	u.files[flanneld] = filler(50_000)
	api, err := json.Marshal(map[string]any{"assets": []map[string]any{{"name": "flanneld-" + arch, "digest": digestOf(u.files[flanneld])}, {"name": "other", "digest": nil}}})
	if err != nil {
		t.Fatal(err)
	}
	u.files["/api/tags/"+r.Flannel] = api
	u.server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.server.Close)
	s := u.server.URL
	u.urls = BaseURLs{Kubernetes: s + "/k", Etcd: s + "/e", CNI: s + "/n/", Containerd: s + "/c", CoreDNS: s + "/d", Flannel: s + "/f", FlannelAPI: s + "/api"}
	return u
}

func targz(t *testing.T, dir string, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range names {
		data := []byte("program " + n)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: dir + n, Size: int64(len(data)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.asked[r.URL.Path]++
	times, content, fault := u.asked[r.URL.Path], u.files[r.URL.Path], u.faults[r.URL.Path]
	u.mu.Unlock()
	if content == nil {
		http.NotFound(w, r)
		return
	}
	if fault != nil && fault(w, r, content, times) {
		return
	}
	http.ServeContent(w, r, "", modTime, bytes.NewReader(content)) // answers ranges
}

// cut sends only n bytes of the announced content and closes the connection.
func cut(w http.ResponseWriter, content []byte, n int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content[:n])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}
