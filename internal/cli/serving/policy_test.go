package serving

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnreadablePolicy: a server whose policy can't be read, or is wrong, does not start, and does not even open its store.
func TestUnreadablePolicy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	loop := filepath.Join(dir, "loop")
	testkit.Must(t, os.Symlink(loop, loop))
	const head = "apiVersion: naupegos.dev/v1alpha1\nkind: ServerPolicy\n"
	for name, file := range map[string]string{
		"missing": filepath.Join(dir, "nowhere"), "a directory": dir, "a link to itself": loop, "empty": write("empty", ""), "no YAML": write("bytes", "\x00\x01"),
		"of another kind": write("kind", "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\n"), "a misspelt field": write("field", head+"provider: [metal]\n"),
		"an unknown provider": write("provider", head+"providers: [mainframe]\n"), "cut off": write("cut", head+"clusters: [{names: [\"prod-"),
	} {
		f := &flags{http: "127.0.0.1:0", https: "127.0.0.1:0", logFormat: "text"}
		f.policy.file = file
		h := Host{Err: io.Discard, OpenStore: func(context.Context) (store.Store, error) {
			t.Errorf("%s: the store was opened", name)
			return nil, fail.New(fail.Refused, "no store")
		}}
		testkit.Fails(t, h.serve(t.Context(), f), fail.Invalid, file)
	}
}
