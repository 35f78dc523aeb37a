//go:build integration

package boot_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/testkit"
)

// buildMatchbox builds matchbox from the module that pins it.
func buildMatchbox(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "matchbox")
	testkit.Must(t, testkit.Required("../../../bench/boot/matchbox", program, "github.com/poseidon/matchbox/cmd/matchbox"))
	return program
}

// startMatchbox runs matchbox on a data directory until the test ends, and returns its URL.
func startMatchbox(t *testing.T, data string) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	cmd := exec.Command(buildMatchbox(t), "-address", addr, "-data-path", data, "-assets-path", filepath.Join(data, "assets"), "-log-level", "error")
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		resp, err := http.Get("http://" + addr)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	})
	return "http://" + addr
}

// queries are the labels of machines: each group of testdata/rack matches at least one of them.
var queries = []string{
	"", "?", "?mac=52-54-00-aa-bb-01", "?mac=52:54:00:AA:BB:01&hostname=a", "?mac=5254.00aa.bb01", "?mac=nonsense", "?mac=52-54-00-aa-bb-01&os=installed",
	"?mac=52-54-00-aa-bb-01&os=other", "?mac=52-54-00-aa-bb-01&mac=52-54-00-aa-bb-09&os=installed&os=", "?uuid=16e7d8a7-bfa9-428b-9117-363341bb330b",
	"?uuid=16E7D8A7-bfa9-428b-9117-363341bb330b", "?uuid=16e7d8a7-bfa9-428b-9117-363341bb330b&mac=52-54-00-aa-bb-01", "?region=eu&zone=a", "?zone=a&region=eu&rack=7",
	"?zone=a&region=eu&rack=8", "?region=EU", "?hostname=node-7.example.org", "?serial=CZ%201%2F2%2B3", "?serial=CZ+1/2%2B3", "?serial=CZ+1/2+3",
	"?MAC=52-54-00-aa-bb-02&Site=Berlin", "?mac=52-54-00-aa-bb-02&Site=Berlin", "?kind=spare", "?kind=spare&os=", "?kind=spare&os=installed", "?a;b=c", "?mac=%zz&region=eu",
	"?hostname=<script>&mac=52-54-00-aa-bb-01", "?case=badmac&mac=nonsense", "?case=broken", "?case=7", "?case=noid", "?case=folded", "?case=noprofile", "?case=unprofiled",
	"?case=butane", "?case=butane&mac=52-54-00-00-00-01", "?case=badbutane", "?case=missingkey", "?case=badtemplate", "?case=badign", "?case=oldign", "?case=noboot",
	"?case=emptyboot", "?case=script", "?case=neither", "?case=badcloud", "?case=html", "?case=empty", "?case=long", "?case=profilenoid", "?case=invalid", "?case=nested",
}

// others are requests in addition to those that are combined with queries.
var others = []request{
	{path: "/"}, {path: "/nothing", elsewhere: true}, {path: "/boot.ipxe"}, {path: "/boot.ipxe.0"}, {path: "/boot.ipxe?mac=1"}, {path: "/ipxe/", elsewhere: true}, {path: "//ipxe"}, {path: "/a/../ipxe"}, {path: "/ipxe.sig", elsewhere: true},
	{path: "/assets"}, {path: "/assets/"}, {path: "/assets/os"}, {path: "/assets/os/"}, {path: "/assets/os/1.0/vmlinuz"}, {path: "/assets/os/1.0/initrd.img"}, {path: "/assets/os/versions.json"},
	{path: "/assets/absent"}, {path: "/assets/../groups/default.json", elsewhere: true}, {path: "/assets/%2e%2e/groups/default.json"},
	{path: "/assets/os/1.0/vmlinuz", header: http.Header{"Range": {"bytes=2-5"}}}, {path: "/assets/os/1.0/vmlinuz", header: http.Header{"Range": {"bytes=90-99"}}},
	{path: "/generic?case=long", header: http.Header{"Range": {"bytes=10-19"}}}, {method: "HEAD", path: "/ipxe"}, {method: "HEAD", path: "/generic?case=long"}, {method: "POST", path: "/ipxe"},
	{method: "PUT", path: "/metadata?region=eu"}, {method: "HEAD", path: "/assets/os/1.0/vmlinuz"},
}

type request struct {
	method, path string
	header       http.Header
	elsewhere    bool // not one of the paths for booting machines: the server answers it differently
}

// answer is the part of an answer that must be equal.
type answer struct {
	Status                int
	Type, Location, Range string
	Body                  string
}

func ask(t *testing.T, base string, r request) answer {
	t.Helper()
	req := testkit.Value(http.NewRequest(r.method, base, nil))(t)
	path, query, asks := strings.Cut(r.path, "?")
	req.URL.Opaque, req.URL.RawQuery, req.URL.ForceQuery = path, query, asks // not normalised
	req.URL.Host, req.URL.Scheme = strings.TrimPrefix(base, "http://"), "http"
	req.URL.Opaque = "//" + req.URL.Host + path
	req.Header = r.header
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := testkit.Value(client.Do(req))(t)
	defer resp.Body.Close()
	body := string(testkit.Value(io.ReadAll(resp.Body))(t))
	if strings.HasPrefix(path, "/metadata") {
		lines := strings.SplitAfter(body, "\n")
		slices.Sort(lines) // matchbox's order is random
		body = strings.Join(lines, "")
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Location"), resp.Header.Get("Content-Range"), body}
}

// startServer runs naupegos server until the test ends, imports a data directory with naupegos server import-matchbox meanwhile, and returns the
// server's URL.
func startServer(t *testing.T, data string) string {
	t.Helper()
	program, state := filepath.Join(t.TempDir(), "naupegos"), t.TempDir()
	testkit.Must(t, testkit.Program(program, "cmd/naupegos", ""))
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	cmd := exec.Command(program, "server", "--state-dir", state, "--listen-http", addr, "--listen-https", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("naupegos server: %v\n%s", err, said.String())
		}
	})
	answers := func(path string, status int) {
		testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
			resp, err := http.Get("http://" + addr + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != status {
				return fmt.Errorf("%s: %s", path, resp.Status)
			}
			return nil
		})
	}
	answers("/ipxe", http.StatusNotFound)
	if out, err := exec.Command(program, "server", "import-matchbox", data, "--state-dir", state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	answers("/generic?case=html", http.StatusOK) // the import copies groups last
	answers("/metadata?zone=a", http.StatusOK)
	return "http://" + addr
}

// TestMatchboxAnswersTheSame imports the data directory of a real matchbox and sends it the same requests as Naupegos: to the boot endpoints
// alone, and to a complete server.
func TestMatchboxAnswersTheSame(t *testing.T) {
	data := testkit.Value(filepath.Abs("testdata/rack"))(t)
	theirs, command := startMatchbox(t, data), startServer(t, data)
	imported := filepath.Join(t.TempDir(), "boot")
	testkit.Must(t, os.MkdirAll(imported, 0o755))
	plan := testkit.Value(boot.PlanImport(data, "", imported))(t)
	testkit.Must(t, plan.Run(context.Background(), false))
	dir := testkit.Value(boot.OpenDirectory(imported, slog.New(slog.DiscardHandler)))(t)
	endpoints := httptest.NewServer(boot.Handler(boot.Options{Catalogs: []*boot.Catalog{dir.Catalog}, Assets: boot.AssetsOf(imported)}))
	defer endpoints.Close()

	requests := slices.Clone(others)
	for _, path := range []string{"/ipxe", "/grub", "/ignition", "/cloud", "/generic", "/metadata"} {
		for _, q := range queries {
			requests = append(requests, request{path: path + q})
		}
	}
	good := 0
	for _, r := range requests {
		want := ask(t, theirs, r)
		if want.Status == http.StatusOK {
			good++
		}
		if lists := strings.HasPrefix(r.path, "/assets") && (want.Status == http.StatusMovedPermanently || strings.HasPrefix(want.Body, "<!doctype html>")); lists {
			want = ask(t, endpoints.URL, request{path: "/assets/none"}) // our endpoints do not list directories
		}
		if got := ask(t, endpoints.URL, r); got != want {
			t.Errorf("%s %s:\nmatchbox  %+v\nendpoints %+v", r.method, r.path, want, got)
		}
		if r.elsewhere {
			continue
		}
		if got := ask(t, command, r); got != want {
			t.Errorf("%s %s:\nmatchbox %+v\nserver   %+v", r.method, r.path, want, got)
		}
	}
	if good < 150 {
		t.Errorf("only %d requests were answered with something", good)
	}
	t.Logf("%d requests, %d answered with something, %d problems named", len(requests), good, len(plan.Problems))
}
