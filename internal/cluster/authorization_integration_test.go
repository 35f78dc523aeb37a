//go:build integration

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/access"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// authorizer is a webhook that answers by the user's name: it permits "allowed", denies "denied", and has no opinion about others.
type authorizer struct {
	*httptest.Server
	mu    sync.Mutex
	hangs bool
	asked []string // names of users
	signs []string // values of the header Authorization
}

func newAuthorizer(t *testing.T) *authorizer {
	a := &authorizer{}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP answers a SubjectAccessReview.
func (a *authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review map[string]any
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	spec, _ := review["spec"].(map[string]any)
	user, _ := spec["user"].(string)
	a.mu.Lock()
	a.asked, a.signs = append(a.asked, user), append(a.signs, r.Header.Get("Authorization"))
	hangs := a.hangs
	a.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	review["status"] = map[string]any{"allowed": user == "allowed", "denied": user == "denied", "reason": "the site says so"}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (a *authorizer) hang(on bool) {
	a.mu.Lock()
	a.hangs = on
	a.mu.Unlock()
}

// take returns the users that API servers have asked about since the last call, and how they signed in.
func (a *authorizer) take() (asked, signs []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked, signs = a.asked, a.signs
	a.asked, a.signs = nil, nil
	return asked, signs
}

// certificate returns the webhook's certificate in PEM, indented for a document.
func (a *authorizer) certificate() string {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	return "\"" + strings.ReplaceAll(string(text), "\n", "\\n") + "\""
}

// webhookServer is a real API server with the files that Naupegos renders for spec.identity.authorizationWebhooks.
type webhookServer struct {
	t    *testing.T
	dir  string
	url  string
	ca   *pkitest.Authority
	args []string
	cmd  *exec.Cmd
}

func (s *webhookServer) at(name string) string { return filepath.Join(s.dir, name) }

// write puts a file into place as the agent does: by a rename.
func (s *webhookServer) write(name string, content []byte) {
	testkit.Must(s.t, os.WriteFile(s.at(name+".new"), content, 0o600))
	testkit.Must(s.t, os.Rename(s.at(name+".new"), s.at(name)))
}

// apply puts the files of this spec.identity into place and returns the configuration that the API server has to load.
func (s *webhookServer) apply(identity string) []byte {
	s.t.Helper()
	l := identityLab(s.t, "{}")
	l.Doc = identityDocument(s.t, identity)
	testkit.Must(s.t, l.LoadTarget(s.t.Context()))
	rendered := testkit.Value(l.Authorization(s.t.Context()))(s.t)
	const machines = "/etc/kubernetes/naupegos"
	for _, f := range rendered.Kubeconfigs {
		s.write(filepath.Base(f.Path), f.Content)
	}
	config := bytes.ReplaceAll(rendered.Config, []byte(machines), []byte(s.dir))
	s.write("authorization.yaml", config)
	return config
}

func (s *webhookServer) run(argv ...string) *exec.Cmd {
	s.t.Helper()
	out := &testkit.Buffer{}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.Must(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text := out.String(); s.t.Failed() {
			s.t.Logf("%s:\n%s", filepath.Base(argv[0]), text[max(0, len(text)-4000):])
		}
	})
	return cmd
}

// startWebhookServer starts etcd and an API server with this spec.identity.
func startWebhookServer(t *testing.T, identity string) *webhookServer {
	t.Helper()
	s := &webhookServer{t: t, dir: t.TempDir(), ca: pkitest.NewAuthority(t)}
	pair := s.ca.Issue(pki.LeafSpec{CommonName: "server", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	s.write("ca.crt", s.ca.PEM())
	s.write("tls.crt", pair.CertPEM)
	s.write("tls.key", pair.KeyPEM)
	s.apply(identity)
	b := bundletest.Of(t, release.Default)
	etcd, peer, port := testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	client, members := fmt.Sprintf("http://127.0.0.1:%d", etcd), fmt.Sprintf("http://127.0.0.1:%d", peer)
	s.run(bundletest.FromImage(t, b, "etcd"), "--data-dir", s.at("etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", members, "--initial-advertise-peer-urls", members, "--initial-cluster", "default="+members, "--log-level", "error")
	s.args = []string{
		bundletest.FromImage(t, b, "kube-apiserver"), "--etcd-servers", client, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--cert-dir", s.dir, "--tls-cert-file", s.at("tls.crt"), "--tls-private-key-file", s.at("tls.key"), "--client-ca-file", s.at("ca.crt"),
		"--service-account-key-file", s.at("tls.key"), "--service-account-signing-key-file", s.at("tls.key"), "--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none", "--disable-admission-plugins", "ServiceAccount", "--authorization-config", s.at("authorization.yaml"),
	}
	s.cmd = s.run(s.args...)
	return s
}

// as returns a client with a certificate of this user.
func (s *webhookServer) as(user string, groups ...string) *kube.Client {
	s.t.Helper()
	pair := s.ca.Issue(pki.LeafSpec{CommonName: user, Organizations: groups, Client: true})
	s.write(user+".crt", pair.CertPEM)
	s.write(user+".key", pair.KeyPEM)
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"users: [{name: u, user: {client-certificate: %q, client-key: %q}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
		s.url, s.at("ca.crt"), s.at(user+".crt"), s.at(user+".key"))
	c := testkit.Value(kube.NewClient([]byte(config), kube.ClientOptions{}))(s.t)
	s.t.Cleanup(c.Close)
	return c
}

// mayList reports whether the API server lets a user list namespaces.
func mayList(ctx context.Context, c *kube.Client) bool {
	return kube.Set(c).Discovery().RESTClient().Get().AbsPath("/api/v1/namespaces").Do(ctx).Error() == nil
}

// TestAuthorizationWebhooks: a real API server asks a real webhook about what RBAC does not permit, and about nothing else. Whatever the webhook
// does, administrators and the components of the cluster work on; webhooks change without a restart.
func TestAuthorizationWebhooks(t *testing.T) {
	w := newAuthorizer(t)
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("token=first\n"), 0o600))
	hook := func(name, url, ca, more string) string {
		return fmt.Sprintf("{name: %s, url: %q, ca: %s, auth: {credentialsFile: %q}, timeoutSeconds: 1, authorizedTTLSeconds: 1, unauthorizedTTLSeconds: 1%s}", name, url, ca, secret, more)
	}
	webhooks := func(all ...string) string { return "{authorizationWebhooks: [" + strings.Join(all, ", ") + "]}" }
	s := startWebhookServer(t, webhooks(hook("site", w.URL, w.certificate(), "")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	admin := s.as("admin", "system:masters")
	testkit.Must(t, admin.WaitReady(ctx))
	users := map[string]*kube.Client{}
	for _, name := range []string{"allowed", "denied", "other"} {
		users[name] = s.as(name)
	}
	// expect waits until exactly these users may list namespaces; an administrator may at once, each time.
	expect := func(what string, names ...string) {
		t.Helper()
		testkit.Until(t, time.Minute, 500*time.Millisecond, func() error {
			for name, c := range users {
				want := strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
				if got := mayList(ctx, c); got != want {
					return fmt.Errorf("%s: %q may list namespaces: %v", what, name, got)
				}
			}
			return nil
		})
		began := time.Now()
		if err := kube.Set(admin).Discovery().RESTClient().Get().AbsPath("/api/v1/namespaces").Do(ctx).Error(); err != nil {
			t.Errorf("%s: an administrator waits %s and gets %v", what, time.Since(began), err)
		}
	}
	change := func(identity string) {
		t.Helper()
		config := s.apply(identity)
		testkit.Until(t, 3*time.Minute, time.Second, func() error { return access.Loaded(ctx, admin, access.Authorization, config) })
	}

	expect("the webhook answers", "allowed")
	asked, signs := w.take()
	for _, user := range []string{"allowed", "denied", "other"} {
		if !strings.Contains(strings.Join(asked, " "), user) {
			t.Errorf("the webhook was not asked about %s: %v", user, asked)
		}
	}
	if strings.Contains(strings.Join(asked, " "), "admin") || signs[0] != "Bearer first" {
		t.Errorf("the webhook was asked about %v, signed in with %q", asked, signs[0])
	}

	w.hang(true)
	expect("the webhook hangs")
	w.hang(false)
	expect("the webhook is back", "allowed")

	testkit.Must(t, os.WriteFile(secret, []byte("token=second\n"), 0o600))
	change(webhooks(hook("site", w.URL, w.certificate(), "")))
	w.take()
	expect("another credential", "allowed")
	if _, signs := w.take(); len(signs) == 0 || signs[len(signs)-1] != "Bearer second" {
		t.Errorf("the webhook was signed in to with %v", signs)
	}

	other := pkitest.NewAuthority(t)
	unknown := "\"" + strings.ReplaceAll(string(other.PEM()), "\n", "\\n") + "\""
	change(webhooks(hook("site", w.URL, unknown, "")))
	w.take()
	expect("the webhook's authority is unknown")
	if asked, _ := w.take(); len(asked) > 0 {
		t.Errorf("a webhook of an unknown authority was asked about %v", asked)
	}
	change(webhooks(hook("broken", w.URL, unknown, ""), hook("site", w.URL, w.certificate(), "")))
	expect("the next webhook is asked", "allowed")
	change(webhooks(hook("broken", w.URL, unknown, ", failurePolicy: Deny"), hook("site", w.URL, w.certificate(), "")))
	expect("a failed webhook denies")
	change(webhooks(hook("site", w.URL, w.certificate(), `, matchConditions: ["request.user != 'allowed'"]`)))
	expect("a condition keeps the webhook from being asked")

	change(webhooks(hook("site", w.URL, w.certificate(), "")))
	expect("again", "allowed")
	w.Close()
	expect("the webhook is down")
	if err := s.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the API server is another process: %v", err)
	}
	// An API server that starts while the webhook is down serves administrators, too.
	testkit.Must(t, s.cmd.Process.Kill())
	_ = s.cmd.Wait()
	s.cmd = s.run(s.args...)
	testkit.Must(t, admin.WaitReady(ctx))
	expect("started without its webhook")
}
