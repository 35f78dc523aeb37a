package inside

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/imageserver"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestConfig names each file once, restarts nothing when images change, and hides the key.
func TestConfig(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	p := Params{Agent: "/agent", Listen: "10.0.0.1:5443", Cert: []byte("cert\n"), Key: []byte("key\n"), Images: []imageserver.Image{{Name: "q.io/a", Tag: "1", Digest: a}},
		Blobs: []Blob{{b, 2}, {a, 1}, {b, 2}}}
	c := testkit.Value(Config(p))(t)
	c.Machine = "demo-cp-1"
	testkit.Must(t, c.Validate())
	if len(c.Binaries) != 2 || c.Binaries[0].Digest != a || c.Binaries[0].Path != BlobDir+"/"+strings.Repeat("a", 64) {
		t.Errorf("files: %+v", c.Binaries)
	}
	for _, f := range c.Files {
		if key := strings.HasSuffix(f.Path, ".key"); key != f.Secret || key != (f.Mode == 0o600) {
			t.Errorf("%s: mode %o, secret %v", f.Path, f.Mode, f.Secret)
		}
	}
	u := c.Units[0]
	for _, w := range u.Watches {
		if strings.HasSuffix(w, ".json") {
			t.Error("new images restart the server")
		}
	}
	if !strings.Contains(u.Content, "ExecStart=/agent images --listen 10.0.0.1:5443 ") || !strings.Contains(u.Content, "--group system:nodes") {
		t.Error(u.Content)
	}
}
