//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/testkit"
)

// published are the tests that Traefik v3.7 passes according to its report on Gateway API v1.6.1, by profile, and those that it leaves out.
var published = map[string]struct{ core, extended, skipped int }{"GATEWAY-HTTP": {36, 26, 1}, "GATEWAY-GRPC": {15, 0, 0}, "GATEWAY-TLS": {20, 4, 0}}

// suite is the module of the Gateway API's conformance tests.
const suite = "sigs.k8s.io/gateway-api/conformance"

// TestGatewayConformance runs the Gateway API's own tests against the addon traefik: as many have to pass as in Traefik's published report.
func TestGatewayConformance(t *testing.T) {
	testkit.OnlyFull(t, "TestAddons sends requests through a Gateway")
	module := suiteModule(t)
	program := filepath.Join(module, "conformance.test")
	inModule(t, module, "test", "-c", "-o", program, suite)
	source := inModule(t, module, "list", "-f", "{{.Dir}}", suite)
	port := serveEcho(t, module)
	r := newRigOn(t, inNetwork{}, "gateways")
	r.document(size{controlPlanes: 1, workers: 1, extra: fmt.Sprintf(`  registries: [{host: registry.k8s.io, mirrors: [{url: "http://10.76.5.1:%d"}]}]
`, port) + addonList([]addonSetting{
		{catalogue.MetalLB, ", metallb: {pools: [{name: services, addresses: [10.76.5.200-10.76.5.209]}]}"},
		{catalogue.Traefik, ", traefik: {gatewayAPI: true, entryPoints: [{name: web8080, port: 8080}, {name: web8090, port: 8090}, {name: tls8443, port: 8443}, {name: tls8883, port: 8883}]}"},
	})})
	r.apply()

	dir := t.TempDir()
	kubeconfig, report := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "report.yaml")
	testkit.Must(t, os.WriteFile(kubeconfig, r.kubeconfig(), 0o600))
	tests := exec.CommandContext(t.Context(), program, "-test.run", "^TestConformance$", "-test.timeout=90m", "--gateway-class=traefik",
		"--conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS", "--skip-tests=HTTPRouteMultipleGateways", "--organization=traefik", "--project=traefik",
		"--url=https://traefik.io", "--version=v3.7", "--contact=none", "--report-output="+report)
	tests.Dir, tests.Env = source, append(os.Environ(), "KUBECONFIG="+kubeconfig) // tests run in their package's directory
	out, err := tests.CombinedOutput()                                            // judged by the report
	var got struct {
		Profiles []struct {
			Name           string
			Core, Extended struct {
				Statistics struct{ Failed, Passed, Skipped int }
			}
		}
	}
	text, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("the tests left no report: %v\n%s", err, out[max(0, len(out)-10_000):])
	}
	testkit.Must(t, yaml.Unmarshal(text, &got))
	if len(got.Profiles) != len(published) {
		t.Errorf("the report has %d profiles, want %d", len(got.Profiles), len(published))
	}
	for _, p := range got.Profiles {
		want, core, extended := published[p.Name], p.Core.Statistics, p.Extended.Statistics
		t.Logf("FIGURE %s: core %+v, extended %+v; published %+v", p.Name, core, extended, want)
		if core.Failed+extended.Failed > 0 || core.Passed < want.core || extended.Passed < want.extended || core.Skipped+extended.Skipped > want.skipped {
			t.Errorf("%s: fewer tests pass than in the published report", p.Name)
		}
	}
	if t.Failed() {
		t.Logf("%v\n%s", err, out[max(0, len(out)-50_000):])
	}
	r.destroy()
}

// suiteModule makes a module that has the conformance tests, of the versions in testdata, and returns its directory.
func suiteModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"go.mod", "go.sum"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, file), testkit.Value(os.ReadFile(filepath.Join("testdata", "conformance", file+".lock")))(t), 0o644))
	}
	return dir
}

// inModule runs the go command in a module, and returns its output.
func inModule(t *testing.T, module string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = module, append(os.Environ(), "CGO_ENABLED=0"), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, &said)
	}
	return strings.TrimSpace(string(out))
}

// serveEcho serves the image of the suite's own server, which it compiles, on all addresses of this host, and returns the port.
func serveEcho(t *testing.T, module string) int {
	t.Helper()
	program := filepath.Join(t.TempDir(), "echo-basic")
	testkit.Must(t, testkit.Required(module, program, suite+"/echo-basic"))
	img := imageOf(t, program, "echo-basic")

	s := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	testkit.Must(t, s.Listener.Close())
	s.Listener = testkit.Value(net.Listen("tcp4", "0.0.0.0:0"))(t)
	s.Start()
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	for _, tag := range []string{"v1.5.1", "v1.6.0-dev.2", "v1.6.0-dev.3"} { // as the suite's manifests name them
		testkit.Must(t, remote.Write(testkit.Value(name.NewTag(fmt.Sprintf("127.0.0.1:%d/gateway-api/echo-basic:%s", port, tag), name.Insecure))(t), img))
	}
	return port
}
