package images

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddKilled kills a process in the middle of a layer: no part of it is visible, and the next call continues.
func TestAddKilled(t *testing.T) {
	if root := os.Getenv("ADD_TO"); root != "" { // the process that is killed
		lib := testkit.Value(bundle.OpenLibrary(root))(t)
		_, err := Add(context.Background(), lib, parse(t, os.Getenv("ADD_IMAGE")), Options{Platforms: []string{"linux/amd64"}})
		t.Fatalf("not killed: %v", err)
	}
	s := newServer(t, true)
	s.push(t, "app:v1", imageFor(t, "linux/amd64", "app"))
	layer := testkit.Value(testkit.Value(imageFor(t, "linux/amd64", "app").Layers())(t)[0].Digest())(t)
	begun, release := make(chan struct{}), make(chan struct{})
	s.tampers(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, layer.String()) {
			return false
		}
		w.Header().Set("Content-Length", "4200")
		_, _ = w.Write([]byte(strings.Repeat("x", 2000)))
		w.(http.Flusher).Flush()
		close(begun)
		<-release
		return true
	})
	lib := newLibrary(t)
	child := exec.Command(os.Args[0], "-test.run=^TestAddKilled$")
	child.Env = append(os.Environ(), "ADD_TO="+lib.Root(), "ADD_IMAGE="+s.host+"/app:v1")
	testkit.Must(t, child.Start())
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Error("the layer was never asked for")
	}
	testkit.Must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	close(release)
	if sets := testkit.Value(lib.Sets(t.Context()))(t); len(sets) > 0 {
		t.Errorf("there are %v", sets)
	}
	for _, name := range blobsOf(t, lib) {
		if got := digestOf(testkit.Value(os.ReadFile(filepath.Join(lib.Root(), "blobs", "sha256", name)))(t)); got != "sha256:"+name {
			t.Errorf("%s is visible, and is %s", name, got)
		}
	}
	s.tampers(nil)
	testkit.Value(Add(t.Context(), lib, parse(t, s.host+"/app:v1"), Options{Platforms: []string{"linux/amd64"}}))(t)
	testkit.Must(t, lib.VerifySet(t.Context(), bundle.DefaultSet))
	if left := testkit.Value(os.ReadDir(filepath.Join(lib.Root(), "tmp")))(t); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
