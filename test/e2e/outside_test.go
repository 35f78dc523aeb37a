//go:build e2e

package e2e_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// outside is the site of local machines in a network that the test chooses, with servers of the test on this host: the outside world of the cluster.
type outside struct {
	onHost
	t    *testing.T
	net  string // the first three bytes of the network: 10.76.7
	ca   *pkitest.Authority
	cert tls.Certificate
}

// newOutside makes an authority that no machine trusts, and a certificate for this host's address in the network and for names.
func newOutside(t *testing.T, network string, names ...string) *outside {
	t.Helper()
	o := &outside{t: t, net: network, ca: pkitest.NewAuthority(t)}
	o.cert = o.ca.Certificate(o.leaf(names...))
	return o
}

func (o *outside) leaf(names ...string) pki.LeafSpec {
	return pki.LeafSpec{CommonName: "outside", DNSNames: names, IPs: []net.IP{net.ParseIP(o.host4()), net.IPv4(127, 0, 0, 1)}, Server: true}
}

func (o *outside) provider() string { return "    local:\n      network: {cidr: " + o.net + ".0/24}\n" }

// host4 is this host's address in the cluster's network.
func (o *outside) host4() string { return o.net + ".1" }

// at returns the host and port of a port of this host, as machines reach it.
func (o *outside) at(port int) string { return net.JoinHostPort(o.host4(), itoa(port)) }

// indented renders the authority's certificate as YAML text, indented by n spaces.
func (o *outside) indented(n int) string {
	pad := "\n" + strings.Repeat(" ", n)
	return "|" + pad + strings.ReplaceAll(strings.TrimSpace(string(o.ca.PEM())), "\n", pad) + "\n"
}

// serve serves by TLS on all addresses of this host until the test ends or stop is called.
func (o *outside) serve(h http.Handler) (port int, stop func()) {
	o.t.Helper()
	l := testkit.Value(net.Listen("tcp4", "0.0.0.0:0"))(o.t)
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{o.cert}, MinVersion: tls.VersionTLS12},
		ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(l, "", "") }()
	stop = func() {
		if err := s.Close(); err != nil {
			o.t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			o.t.Error(err)
		}
		done <- http.ErrServerClosed // for another call
	}
	o.t.Cleanup(stop)
	return l.Addr().(*net.TCPAddr).Port, stop
}

// images serves a registry with basic authentication, which holds images that print their own name, and returns the requests that it answered.
func (o *outside) images(user, password string, repositories ...string) (port int, stop func(), seen func() []string) {
	o.t.Helper()
	var log testkit.Buffer
	inner := registry.New(registry.Logger(logger(io.Discard)))
	port, stop = o.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); password != "" && (!ok || u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(&log, "%s %s\n", r.Method, r.URL.Path)
		inner.ServeHTTP(w, r)
	}))
	for _, repository := range repositories {
		tag := testkit.Value(name.NewTag(fmt.Sprintf("127.0.0.1:%d/%s:v1", port, repository)))(o.t)
		testkit.Must(o.t, remote.Write(tag, hello(o.t, repository), remote.WithTransport(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.ca.Pool(), MinVersion: tls.VersionTLS12}}),
			remote.WithAuth(basic{user, password})))
	}
	return port, stop, func() []string { return strings.Split(strings.TrimSpace(log.String()), "\n") }
}

func logger(w io.Writer) *log.Logger { return log.New(w, "", 0) }

// hello returns an image whose program answers requests with a text.
func hello(t *testing.T, text string) v1.Image {
	t.Helper()
	program := filepath.Join(built.dir, "hello")
	if _, err := os.Stat(program); err != nil {
		testkit.Must(t, testkit.Program(program, "test/e2e/testdata/hello", ""))
	}
	return imageOf(t, program, "hello", text)
}

// imageOf returns an image with one program, which it runs as an ordinary user under this name with these arguments.
func imageOf(t *testing.T, program, as string, args ...string) v1.Image {
	t.Helper()
	var layer bytes.Buffer
	w, data := tar.NewWriter(&layer), testkit.Value(os.ReadFile(program))(t)
	testkit.Must(t, w.WriteHeader(&tar.Header{Name: as, Mode: 0o755, Size: int64(len(data))}))
	testkit.Value(w.Write(data))(t)
	testkit.Must(t, w.Close())
	img := testkit.Value(mutate.AppendLayers(empty.Image, testkit.Value(tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}))(t)))(t)
	config := testkit.Value(img.ConfigFile())(t).DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint, config.Config.User = append([]string{"/" + as}, args...), "65532:65532"
	return testkit.Value(mutate.ConfigFile(img, config))(t)
}

// packages returns the handler of a signed Debian repository with one package, and the key that signs it. The package installs /usr/share/NAME/greeting.
func packages(t *testing.T, pkg string) (h http.Handler, key string) {
	t.Helper()
	dir, tree, home := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(path, text string) {
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	run := func(argv ...string) string {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GNUPGHOME="+home)
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			errors.As(err, &exit)
			t.Fatalf("%v: %v\n%s", argv, err, exit.Stderr)
		}
		return string(out)
	}
	control := "Package: " + pkg + "\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@example.org>\nDescription: test\n"
	write(filepath.Join(tree, "DEBIAN/control"), control)
	write(filepath.Join(tree, "usr/share", pkg, "greeting"), "hello\n")
	run("dpkg-deb", "--root-owner-group", "-b", tree, filepath.Join(dir, pkg+".deb"))
	deb := testkit.Value(os.ReadFile(filepath.Join(dir, pkg+".deb")))(t)
	index := fmt.Sprintf("%sFilename: ./%s.deb\nSize: %d\nSHA256: %x\n\n", control, pkg, len(deb), sha256.Sum256(deb))
	write(filepath.Join(dir, "Packages"), index)
	write(filepath.Join(dir, "Release"), fmt.Sprintf("Origin: test\nDate: %s\nSHA256:\n %x %d Packages\n", time.Now().UTC().Format(time.RFC1123), sha256.Sum256([]byte(index)), len(index)))
	run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "e2e@example.org", "rsa3072", "sign", "never")
	run("gpg", "--batch", "--clearsign", "-o", filepath.Join(dir, "InRelease"), filepath.Join(dir, "Release"))
	t.Cleanup(func() { run("gpgconf", "--kill", "all") }) // gpg started an agent
	return http.FileServer(http.Dir(dir)), run("gpg", "--batch", "--armor", "--export")
}

// filtered drops what machines send to the outside, and to this host except to these ports, before the cluster's network exists. dropped lists it, without
// questions to the machines' name servers, through which CoreDNS looks for loops.
func (o *outside) filtered(ports ...int) (dropped func() string) {
	o.t.Helper()
	table := "e2e_" + strings.ReplaceAll(o.net, ".", "_")
	var list []string
	for _, p := range ports {
		list = append(list, itoa(p))
	}
	rules := fmt.Sprintf(`table ip %[1]s {
	counter dropped { }
	set to { type ipv4_addr . inet_proto . inet_service; flags dynamic; size 1000; }
	chain drops {
		udp dport 53 drop
		meta l4proto { tcp, udp } add @to { ip daddr . meta l4proto . th dport }
		counter name dropped drop
	}
	chain forward {
		type filter hook forward priority -10;
		ip saddr %[2]s.0/24 ip daddr != { %[2]s.0/24, 224.0.0.0/4 } goto drops
	}
	chain input {
		type filter hook input priority -10;
		ip saddr != %[2]s.0/24 accept
		ct state established,related accept
		ip daddr 224.0.0.0/4 accept
		tcp dport { %[3]s } accept
		goto drops
	}
}
`, table, o.net, strings.Join(list, ", "))
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		o.t.Fatalf("nft: %v\n%s%s", err, out, rules)
	}
	o.t.Cleanup(func() {
		if out, err := exec.Command("nft", "delete", "table", "ip", table).CombinedOutput(); err != nil {
			o.t.Errorf("nft: %v: %s", err, out)
		}
	})
	return func() string {
		o.t.Helper()
		out := string(testkit.Value(exec.Command("nft", "list", "table", "ip", table).Output())(o.t))
		if regexp.MustCompile(`packets 0 bytes 0`).MatchString(out) {
			return ""
		}
		return out
	}
}

// squid starts squid on all addresses of this host, which finds these names at this host, and returns its port and the requests that it served so far.
func (o *outside) squid(names ...string) (port int, requests func() []string) {
	o.t.Helper()
	if _, err := exec.LookPath("squid"); err != nil {
		o.t.Fatal("squid is not installed: hack/setup test installs it")
	}
	dir := o.t.TempDir()
	testkit.Must(o.t, os.Chmod(filepath.Dir(dir), 0o755)) // squid gives up root, and must reach the directory
	testkit.Must(o.t, os.Chmod(dir, 0o777))
	port = testkit.FreePort(o.t)
	access := filepath.Join(dir, "access.log")
	for file, text := range map[string]string{
		"hosts": "127.0.0.1 localhost " + strings.Join(names, " ") + "\n",
		"squid.conf": fmt.Sprintf("http_port 0.0.0.0:%d\npid_filename none\ncache_log %[2]s/cache.log\naccess_log stdio:%[2]s/access.log\nlogfile_rotate 0\nvisible_hostname squid.test\nmax_filedescriptors 1024\n"+
			"pinger_enable off\ncache deny all\ncoredump_dir %[2]s\nshutdown_lifetime 1 seconds\nhosts_file %[2]s/hosts\nbuffered_logs off\nhttp_access allow all\n", port, dir),
	} {
		testkit.Must(o.t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "squid", "-N", "-f", filepath.Join(dir, "squid.conf"))
	var said testkit.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(o.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	o.t.Cleanup(func() { cancel(); <-ended })
	until(o.t, 2*time.Minute, 50*time.Millisecond, func() error {
		select {
		case err := <-ended:
			out, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
			o.t.Fatalf("squid has ended: %v\n%s\n%s", err, &said, out)
		default:
		}
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	return port, func() (all []string) {
		text, err := os.ReadFile(access)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			o.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 6 && f[3] != "NONE_NONE/000" { // the test's own connection without a request
				all = append(all, strings.Join(append(f[2:4:4], f[5:7]...), " ")) // CLIENT RESULT METHOD URL
			}
		}
		return all
	}
}
