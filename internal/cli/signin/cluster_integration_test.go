//go:build integration

package signin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/access"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIssuersWithoutRestart: a real API server accepts tokens of two real providers that come into its file while it runs, and refuses those of one that
// leaves it within a minute. It is the same process all the time.
func TestIssuersWithoutRestart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, content []byte) {
		testkit.Must(t, os.WriteFile(at(name+".new"), content, 0o600))
		testkit.Must(t, os.Rename(at(name+".new"), at(name)))
	}
	start := func(argv ...string) *exec.Cmd {
		var out bytes.Buffer
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%s:\n%s", filepath.Base(argv[0]), out.Bytes()[max(0, out.Len()-3000):])
			}
		})
		return cmd
	}
	ca := pkitest.NewAuthority(t)
	pair := ca.Issue(pki.LeafSpec{CommonName: "admin", Organizations: []string{"system:masters"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	write("ca.crt", ca.PEM())
	write("tls.crt", pair.CertPEM)
	write("tls.key", pair.KeyPEM)

	a, b := newPeople(t, "kubernetes"), newPeople(t, "kubernetes")
	issuer := func(name string, p *people) v1alpha1.IdentityIssuer {
		return v1alpha1.IdentityIssuer{Name: name, URL: p.signIn.URL, Audiences: []string{"kubernetes"}, CA: string(p.signIn.CA)}
	}
	config := func(issuers ...v1alpha1.IdentityIssuer) []byte {
		return layout.AuthenticationConfig(testkit.Value(identity.Render(v1alpha1.Identity{Issuers: issuers}.Authenticators()))(t))
	}
	write("authentication.yaml", config())
	write("admission.yaml", []byte(testkit.Value(identity.AdmissionConfig("", identity.PodSecurity{Enforce: "baseline", EnforceVersion: "latest", Audit: "restricted",
		AuditVersion: "latest", Warn: "restricted", WarnVersion: "v1.36", Namespaces: []string{"kube-public"}}))(t)))

	etcd, peer, port := testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	binary := func(name string) string { return bundletest.FromImage(t, bundletest.Of(t, release.Default), name) }
	start(binary("etcd"), "--data-dir", at("etcd"), "--listen-client-urls", fmt.Sprintf("http://127.0.0.1:%d", etcd), "--advertise-client-urls", fmt.Sprintf("http://127.0.0.1:%d", etcd),
		"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peer), "--initial-advertise-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peer),
		"--initial-cluster", fmt.Sprintf("default=http://127.0.0.1:%d", peer), "--log-level", "error")
	server := start(binary("kube-apiserver"), "--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", etcd), "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--secure-port", fmt.Sprint(port), "--cert-dir", dir, "--tls-cert-file", at("tls.crt"), "--tls-private-key-file", at("tls.key"), "--client-ca-file", at("ca.crt"),
		"--service-account-key-file", at("tls.key"), "--service-account-signing-key-file", at("tls.key"), "--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "Node,RBAC", "--endpoint-reconciler-type", "none", "--authentication-config", at("authentication.yaml"),
		"--admission-control-config-file", at("admission.yaml"), "--disable-admission-plugins", "ServiceAccount")
	kubeconfig := func(user string) []byte {
		return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\nusers: [{name: u, user: %s}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
			fmt.Sprintf("https://127.0.0.1:%d", port), at("ca.crt"), user)
	}
	connect := func(user string) *kube.Client {
		c := testkit.Value(kube.NewClient(kubeconfig(user), kube.ClientOptions{}))(t)
		t.Cleanup(c.Close)
		return c
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	admin := connect(fmt.Sprintf("{client-certificate: %q, client-key: %q}", at("tls.crt"), at("tls.key")))
	testkit.Must(t, admin.WaitReady(ctx))
	testkit.Must(t, access.Loaded(ctx, admin, access.Authentication, config()))
	podSecurity(t, fmt.Sprintf("https://127.0.0.1:%d", port), ca.PEM(), pair)

	userA, userB := connect("{token: "+a.token(t)+"}"), connect("{token: "+b.token(t)+"}")
	// await polls until a user is known by this name; "" stands for a refusal. It returns how long that took.
	await := func(c *kube.Client, want string) time.Duration {
		t.Helper()
		began, got := time.Now(), ""
		var err error
		for tick := time.Tick(500 * time.Millisecond); time.Since(began) < 60*time.Second; <-tick {
			if got, err = c.WhoAmI(ctx); got == want && (err == nil) == (want != "") {
				return time.Since(began)
			}
		}
		t.Fatalf("after a minute the user is %q (%v), want %q", got, err, want)
		return 0
	}
	await(userA, "")
	change := func(issuers ...v1alpha1.IdentityIssuer) {
		t.Helper()
		write("authentication.yaml", config(issuers...))
		for tick := time.Tick(500 * time.Millisecond); ; <-tick {
			err := access.Loaded(ctx, admin, access.Authentication, config(issuers...))
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	change(issuer("a", a), issuer("b", b))
	t.Logf("accepted after %s and %s", await(userA, "a:id1"), await(userB, "b:id1"))
	began := time.Now()
	write("authentication.yaml", config(issuer("b", b)))
	t.Logf("the token of an issuer that left is refused after %s", await(userA, ""))
	if d := time.Since(began); d > time.Minute {
		t.Errorf("that took %s", d)
	}
	await(userB, "b:id1")
	if err := server.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the API server is another process: %v", err)
	}
}

// podSecurity: a real API server refuses pods that do not comply, but for exempt namespaces.
func podSecurity(t *testing.T, server string, ca []byte, admin pki.Pair) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	own := testkit.Value(tls.X509KeyPair(admin.CertPEM, admin.KeyPEM))(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"hostNetwork":%t,"containers":[{"name":"x","image":"x"}]}}`
	for _, c := range []struct {
		namespace string
		host      bool // what the level baseline forbids
		want      int
	}{{"default", true, http.StatusForbidden}, {"default", false, http.StatusCreated}, {"kube-system", true, http.StatusCreated}, {"kube-public", true, http.StatusCreated}} {
		var answer *http.Response
		testkit.Until(t, time.Minute, time.Second, func() (err error) { // the API server makes its namespaces after it is ready
			answer, err = client.Post(server+"/api/v1/namespaces/"+c.namespace+"/pods?dryRun=All", "application/json", strings.NewReader(fmt.Sprintf(pod, c.host)))
			if err == nil && answer.StatusCode == http.StatusNotFound {
				err = fmt.Errorf("%s: %s", c.namespace, answer.Status)
				_ = answer.Body.Close()
			}
			return err
		})
		text := testkit.Value(io.ReadAll(answer.Body))(t)
		testkit.Must(t, answer.Body.Close())
		if answer.StatusCode != c.want || c.want == http.StatusForbidden && !strings.Contains(string(text), "violates PodSecurity") {
			t.Errorf("%+v: %s: %s", c, answer.Status, text)
		}
		if warned := strings.Contains(answer.Header.Get("Warning"), "restricted"); warned != (c.namespace == "default" && !c.host) {
			t.Errorf("%+v: warning %q", c, answer.Header.Get("Warning"))
		}
	}
}
