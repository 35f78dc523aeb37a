//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/chromium"
)

// TestIdentity: users of two real issuers sign in to one cluster in a browser and by a code, and have what the document's bindings give them. When an
// issuer leaves the document, its tokens are refused within a minute, by API servers that have not restarted.
func TestIdentity(t *testing.T) {
	testkit.OnlyFull(t, "TestIssuersWithoutRestart has an API server with two issuers, and TestGetToken and TestLoginToCluster sign in")
	o := newOutside(t, "10.76.9")
	corp, partner := o.corp(), o.partner()
	r := newRigOn(t, o, "people")
	issuer := func(name, url, claims string) string {
		return fmt.Sprintf("      - name: %s\n        url: %s\n        audiences: [kubernetes]\n%s        ca: %s", name, url, claims, o.indented(10))
	}
	corpIssuer := issuer("corp", corp, "        claims: {groups: {expression: \"[claims.sub == 'id1' ? 'corp:developers' : 'corp:others']\"}}\n")
	partnerIssuer := issuer("partner", partner, "")
	const bindings = `    bindings:
      - {group: "corp:developers", role: edit, namespaces: [shop]}
      - {group: "partner:platform", role: view}
      - {user: "partner:carol", role: edit, namespaces: [stage]}
`
	cluster := size{controlPlanes: 3, workers: 1, gateways: 1}
	r.document(cluster)
	r.apply()
	before := r.programs()
	cluster.extra = "  identity:\n    issuers:\n" + corpIssuer + partnerIssuer + bindings
	r.document(cluster)
	r.apply()

	options := []chromedp.ExecAllocatorOption{chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE "+o.host4()+", EXCLUDE 127.0.0.1")}
	browser := chromium.Start(t, options...)
	signedIn(browser, t, r, "corp", "test-user@"+o.host4())
	alice := r.userOf(t, "corp", "")
	signedIn(browser, t, r, "partner", "bob")
	bob := r.userOf(t, "partner", "")
	r.may(t, alice, "corp:id1", map[string]bool{"create configmaps shop": true, "list pods shop": true, "create configmaps default": false, "list pods kube-system": false, "list nodes ": false})
	r.may(t, bob, "partner:bob", map[string]bool{"list pods kube-system": true, "create configmaps shop": false, "list secrets shop": false, "create configmaps stage": false})
	r.must(0, "logout", r.name)
	signedIn(chromium.Start(t, options...), t, r, "partner", "carol", "--device") // in a browser that does not know bob
	carol := r.userOf(t, "partner", "")
	r.may(t, carol, "partner:carol", map[string]bool{"list pods kube-system": true, "create configmaps stage": true, "create configmaps shop": false})
	if list := r.must(0, "users", r.name, "--all-subjects", "-o", "json").stdout; !strings.Contains(list, "corp:developers") || !strings.Contains(list, "partner:carol") {
		t.Errorf("users lists %s", list)
	}

	// The issuer corp leaves. alice's token is asked of each API server, so that no balancer chooses.
	signedIn(browser, t, r, "corp", "test-user@"+o.host4())
	var servers []*kubernetes.Clientset
	for _, m := range machinesOf(r.status(), provider.ControlPlane) {
		servers = append(servers, r.userOf(t, "corp", m.Address))
	}
	for _, s := range servers {
		r.may(t, s, "corp:id1", map[string]bool{"create configmaps shop": true})
	}
	cluster.extra = "  identity:\n    issuers:\n" + partnerIssuer + strings.Replace(bindings, "      - {group: \"corp:developers\", role: edit, namespaces: [shop]}\n", "", 1)
	r.document(cluster)
	began := time.Now()
	r.apply()
	for _, s := range servers {
		until(t, time.Minute, time.Second, func() error {
			_, err := s.CoreV1().ConfigMaps("shop").List(t.Context(), metav1.ListOptions{})
			if apierrors.IsUnauthorized(err) {
				return nil
			}
			return fmt.Errorf("a token of the removed issuer gets %v", err) //nolint:errorlint // there may be none
		})
	}
	took := time.Since(began)
	t.Logf("FIGURE tokens of a removed issuer were refused by all API servers %v after apply had begun", took.Round(100*time.Millisecond))
	if took > time.Minute*slower {
		t.Errorf("that took %v", took)
	}
	r.may(t, carol, "partner:carol", map[string]bool{"create configmaps stage": true})
	after := r.programs()
	for at, was := range before {
		if is := after[at]; is != was {
			t.Errorf("%s on %s was restarted: %q is %q now", at.name, at.machine, was, is)
		}
	}
	r.destroy()
}

// corp starts the provider of zitadel's library, with one user, and returns its URL.
func (o *outside) corp() string {
	o.t.Helper()
	var op http.Handler
	port, _ := o.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { op.ServeHTTP(w, r) }))
	url := "https://" + o.at(port)
	storage.RegisterClients(storage.NativeClient("kubernetes", "http://127.0.0.1/callback"))
	op = exampleop.SetupServer(url, storage.NewStorage(storage.NewUserStore(url)), slog.New(slog.DiscardHandler), false)
	return url
}

// partner starts npm's oidc-provider, of the versions in testdata, and returns its URL.
func (o *outside) partner() string {
	o.t.Helper()
	dir := filepath.Join(o.t.TempDir(), "oidc-provider")
	testkit.Must(o.t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "oidc-provider"))))
	install := exec.CommandContext(o.t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		o.t.Fatalf("npm ci: %v\n%s", err, out)
	}
	pair := o.ca.Issue(o.leaf())
	testkit.Must(o.t, os.WriteFile(filepath.Join(dir, "tls.crt"), pair.CertPEM, 0o644))
	testkit.Must(o.t, os.WriteFile(filepath.Join(dir, "tls.key"), pair.KeyPEM, 0o600))
	port := testkit.FreePort(o.t)
	url := "https://" + o.at(port)
	ctx, cancel := context.WithCancel(context.Background())
	node := exec.CommandContext(ctx, "node", "provider.js", url, itoa(port), "tls.crt", "tls.key")
	node.Dir = dir
	var said testkit.Buffer
	node.Stdout, node.Stderr = &said, &said
	testkit.Must(o.t, node.Start())
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	o.t.Cleanup(func() {
		cancel()
		<-ended
		if o.t.Failed() {
			o.t.Logf("oidc-provider: %s", &said)
		}
	})
	until(o.t, time.Minute*slower, 100*time.Millisecond, func() error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", itoa(port)), time.Second)
		if err != nil {
			return fmt.Errorf("oidc-provider does not listen: %w\n%s", err, &said)
		}
		return c.Close()
	})
	return url
}

var (
	printedAddress = regexp.MustCompile(`(?m)^(?:  |or open )(https://\S+)$`)
	done           = "you can close this page"
)

// signedIn signs a user in to the cluster by naupegos login and Chromium.
func signedIn(browser context.Context, t *testing.T, r *rig, issuer, user string, flags ...string) {
	t.Helper()
	inv := r.invocation()
	cmd := exec.CommandContext(t.Context(), built.bin, append([]string{"--state-dir", r.state, "login", r.name, "--issuer", issuer}, flags...)...)
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1"), inv.env...)
	var said testkit.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	address := ""
	until(t, time.Minute, 100*time.Millisecond, func() error {
		if m := printedAddress.FindStringSubmatch(said.String()); m != nil {
			address = m[1]
			return nil
		}
		return fmt.Errorf("login prints no address: %s", &said)
	})
	tab, closeTab := chromedp.NewContext(browser)
	defer closeTab()
	until := done
	if len(flags) > 0 {
		until = "Success"
	}
	fills(tab, t, address, user, until)
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(said.String(), "Signed in to cluster "+r.name+" as") {
			t.Fatalf("login: %v: %s", err, &said)
		}
	case <-time.After(time.Minute * slower):
		_ = cmd.Process.Kill()
		t.Fatalf("login does not end: %s", &said)
	}
}

// fills opens an address and fills in the forms of a provider's pages, one after another, until a page has the text.
func fills(tab context.Context, t *testing.T, address, user, text string) {
	t.Helper()
	testkit.Must(t, chromedp.Do(tab, chromedp.Navigate("about:blank")))
	_, _ = chromedp.Run(tab, chromedp.Evaluate[string]("location.href = "+quoted(address))) // the page leaves meanwhile
	step := fmt.Sprintf(`(() => {
		if (document.readyState !== "complete") return "loading";
		const text = document.body ? document.body.innerText : "";
		if (text.includes(%s)) return "done";
		if (window.sentByTest) return "sent";
		for (const i of document.querySelectorAll("input")) {
			if (["login", "username"].includes(i.name)) i.value = %s;
			if (i.name === "password") i.value = "verysecure";
		}
		const go = [...document.querySelectorAll("button, input[type=submit]")].find(b => !/abort|cancel/i.test(b.innerText + b.name));
		if (!go) return location.href + ": " + text;
		window.sentByTest = true;
		go.click();
		return "clicked";
	})()`, quoted(text), quoted(user))
	until(t, 2*time.Minute*slower, 300*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(tab, 10*time.Second)
		defer cancel()
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string](step)) // fails between two pages
		if err == nil && at != "done" {
			err = fmt.Errorf("the browser is at: %s", at)
		}
		return err
	})
}

// userOf returns a client of the user who is signed in with an issuer: with the kubeconfig of kubeconfig --exec, and the API server at an address, if it
// is not empty.
func (r *rig) userOf(t *testing.T, issuer, address string) *kubernetes.Clientset {
	t.Helper()
	text := r.must(0, "kubeconfig", r.name, "--exec", "--issuer", issuer).stdout
	cfg := testkit.Value(clientcmd.RESTConfigFromKubeConfig([]byte(text)))(t)
	if cfg.ExecProvider == nil || cfg.ExecProvider.Command != "naupegos" || cfg.CertData != nil || cfg.BearerToken != "" {
		t.Fatalf("the kubeconfig holds a secret, or runs nothing: %s", text)
	}
	// kubectl runs the command with every request; the token is kept here, because a later sign-in takes its place.
	cmd := exec.CommandContext(t.Context(), built.bin, append([]string{"--state-dir", r.state}, cfg.ExecProvider.Args...)...)
	cmd.Env = append(os.Environ(), `KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cfg.ExecProvider.Args, err)
	}
	token := regexp.MustCompile(`"token":"([^"]+)"`).FindSubmatch(out)
	if token == nil {
		t.Fatal("get-token prints no token")
	}
	user := rest.AnonymousClientConfig(cfg)
	user.ExecProvider, user.BearerToken, user.Timeout = nil, string(token[1]), patience
	if address != "" {
		user.Host = "https://" + net.JoinHostPort(address, "6443")
	}
	return testkit.Value(kubernetes.NewForConfig(user))(t)
}

// may asserts a user's name, and what the user may do: "VERB RESOURCE NAMESPACE".
func (r *rig) may(t *testing.T, set *kubernetes.Clientset, name string, rights map[string]bool) {
	t.Helper()
	who := ""
	until(t, time.Minute, time.Second, func() error {
		status, err := set.RESTClient().Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)).DoRaw(t.Context())
		if err == nil && !strings.Contains(string(status), `"username":"`+name+`"`) {
			err = fmt.Errorf("the user is %s, want %s", status, name)
		}
		who = string(status)
		return err
	})
	for right, want := range rights {
		f := strings.Split(right, " ")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: f[0], Resource: f[1], Namespace: f[2]}}}
		got := testkit.Value(set.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t)
		if got.Status.Allowed != want {
			t.Errorf("%s may %s: %v, want %v (%s)", name, right, got.Status.Allowed, want, who)
		}
	}
}
