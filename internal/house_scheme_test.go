package internal

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// ownClients are the files that make HTTP clients without scheme.Watch, because no user writes the scheme of their addresses.
var ownClients = map[string]string{
	"internal/agent/approver/files.go": "the API server of a kubeconfig of our own", "internal/agent/boot/server.go": "the server's machines' port", "internal/agent/discover/enrol.go": "as above",
	"internal/agent/containerd/images.go": "a socket", "internal/agent/gatewaycheck/gatewaycheck.go": "loopback", "internal/agent/install/ask/ask.go": "the server's machines' port", "internal/agent/turns/etcd.go": "etcd's own member",
	"internal/bundle/images/registry.go": "names of images have no scheme", "internal/bundle/recipes/tools/echo/get.go": "a program of the smoke test", "internal/cluster/addons/prove.go": "a Service of the cluster",
	"internal/kube/client.go": "a kubeconfig of our own", "internal/kube/connections.go": "as above", "internal/kube/proof/gateways.go": "a Service of the cluster", "internal/registry/bmc/trust.go": "always https", "internal/server/front/main.go": "a socket of our own",
	"internal/pki/vault/vaulttest/real.go": "a test's server", "cmd/naupegos-agent/discover.go": "the server's machines' port",
}

// TestSchemesAreWatched: each HTTP client for addresses that users write names a scheme that is not the service's.
func TestSchemesAreWatched(t *testing.T) {
	client := regexp.MustCompile(`http\.Transport\{|http\.DefaultTransport|http\.Client\{|http\.DefaultClient`)
	root := os.DirFS("..")
	for _, dir := range []string{"internal", "cmd"} {
		testkit.Must(t, fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "testdata" {
				return fs.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := fs.ReadFile(root, path)
			if err != nil || !client.Match(text) {
				return err
			}
			if watched := strings.Contains(string(text), "scheme.Watch("); watched == (ownClients[path] != "") {
				t.Errorf("%s: give its transport to scheme.Watch, or say in ownClients why no user writes its addresses; not both", path)
			}
			return nil
		}))
	}
}
