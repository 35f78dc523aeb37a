package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIssuersRestartNothing: a change of issuers changes their file, but not the digest that restarts the API server.
func TestIssuersRestartNothing(t *testing.T) {
	k := testPKI(t, testTime)
	without := render(t, testParams(), k, 0)
	with := testParams()
	with.Issuers = []byte("jwt:\n- issuer: {url: https://login.example.org}\n")
	c := render(t, with, k, 0)
	if got := string(content(t, c, authenticationPath)); !strings.HasSuffix(got, string(with.Issuers)) || !strings.HasPrefix(got, authenticationBase) {
		t.Errorf("the file is\n%s", got)
	}
	if got := string(content(t, without, authenticationPath)); got != authenticationBase {
		t.Errorf("without issuers the file is\n%s", got)
	}
	if a, b := annotations(t, without), annotations(t, c); a["kube-apiserver"] != b["kube-apiserver"] || a["kube-apiserver"] == "" {
		t.Errorf("the digests of the API server's files are %q and %q", a["kube-apiserver"], b["kube-apiserver"])
	}
	former := authenticationBase
	defer func() { authenticationBase = former }()
	authenticationBase += "# changed\n"
	if a, b := annotations(t, without), annotations(t, render(t, with, k, 0)); a["kube-apiserver"] == b["kube-apiserver"] {
		t.Error("the API server does not restart after a change of files that it reads only at its start")
	}
}

// TestWebhooksRestartNothing: with the first authorization webhook, API servers get the file instead of the modes; later changes of the webhook and
// its files leave their manifests unchanged.
func TestWebhooksRestartNothing(t *testing.T) {
	k := testPKI(t, testTime)
	with := func(url string) machine.Config {
		p := testParams()
		content := []byte(WebhookKubeconfig(url, "", map[string]any{"token": "secret-word"}))
		at := WebhookPath("site", content)
		p.Authorization = Authorization{Config: []byte("kind: AuthorizationConfiguration # " + at), Kubeconfigs: []machine.File{{Path: at, Mode: 0o600, Content: content, Secret: true}}}
		c := render(t, p, k, 0)
		testkit.Must(t, c.Validate())
		return c
	}
	a, b := with("https://a.example.org"), with("https://b.example.org")
	text := textOf(t, a, manifestOf("kube-apiserver"))
	if text != textOf(t, b, manifestOf("kube-apiserver")) {
		t.Error("another webhook restarts the API server")
	}
	if strings.Contains(text, "--authorization-mode") || strings.Count(text, "--authorization-config="+authorizationPath+"\n") != 1 {
		t.Errorf("the manifest is\n%s", text)
	}
	if record := textOf(t, a, KubeadmConfigPath); !strings.Contains(record, "name: authorization-config\n") || strings.Contains(record, "secret-word") {
		t.Errorf("kubeadm's record is\n%s", record)
	}
	order := func(c machine.Config, prefix string) int {
		return slices.IndexFunc(c.Files, func(f machine.File) bool { return strings.HasPrefix(f.Path, prefix) })
	}
	if at := order(a, webhookPrefix); at < 0 || at > order(a, authorizationPath) || a.Files[at].Path == b.Files[order(b, webhookPrefix)].Path {
		t.Errorf("the files are at %d and %d, and %s", at, order(a, authorizationPath), a.Files[at].Path)
	}
	if text := textOf(t, render(t, testParams(), k, 0), manifestOf("kube-apiserver")); !strings.Contains(text, "--authorization-mode=Node,RBAC\n") || strings.Contains(text, "authorization-config") {
		t.Errorf("without a webhook the manifest is\n%s", text)
	}
}
