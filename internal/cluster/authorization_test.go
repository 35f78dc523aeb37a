package cluster

import (
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/testkit"
)

const webhook = "{authorizationWebhooks: [{name: site, url: 'https://authz.example.org', auth: {credentialsFile: FILE}}]}"

// TestPlanAuthorization follows webhooks from their first apply until they have left the document.
func TestPlanAuthorization(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(file, []byte("token=secret-word\n"), 0o600))
	l := identityLab(t, strings.Replace(webhook, "FILE", file, 1))
	if got := l.mustPlan(l.observed(nil, "demo-cp-1")); !strings.Contains(got, "wait    authorization") || strings.Contains(got, "secret-word") {
		t.Errorf("the plan is\n%s", got)
	}
	none := identityLab(t, "{}")
	testkit.Must(t, none.Facts.Set(t.Context(), memory.Authorized, "digest"))
	if got := none.mustPlan(none.observed(nil, "demo-cp-1")); !strings.Contains(got, "wait    authorization") {
		t.Errorf("after the last webhook the plan is\n%s", got)
	}
}

// TestWebhookCredentials: each form of a secret reaches the file on control-plane machines, under a name of its own; other forms are refused and never
// shown, and a server reads no file that a document names.
func TestWebhookCredentials(t *testing.T) {
	dir := t.TempDir()
	pair := pkitest.NewAuthority(t).Issue(pki.LeafSpec{CommonName: "client", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true})
	other := pkitest.NewAuthority(t).Issue(pki.LeafSpec{CommonName: "client", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true})
	seen := map[string]bool{}
	for name, c := range map[string]struct{ secret, want string }{
		"password":     {"me:secret:word\r\n", "password: secret:word"},
		"token":        {"token=secret-word", "token: secret-word"},
		"pair":         {string(pair.KeyPEM) + string(pair.CertPEM), "client-key-data: " + base64.StdEncoding.EncodeToString(pair.KeyPEM)},
		"foreign key":  {string(other.KeyPEM) + string(pair.CertPEM), ""},
		"key alone":    {string(pair.KeyPEM), ""},
		"nothing":      {"", ""},
		"word":         {"secret-word", ""},
		"empty token":  {"token=", ""},
		"two lines":    {"token=secret-word\ntoken=b", ""},
		"control sign": {"me:secret\x00word", ""},
	} {
		file := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(file, []byte(c.secret), 0o600))
		l := identityLab(t, "{}")
		l.Doc = identityDocument(t, strings.Replace(webhook, "FILE", "'"+file+"'", 1))
		err := l.LoadTarget(t.Context())
		var conf machine.Config
		if err == nil {
			conf, err = l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"})
		}
		if c.want == "" {
			if fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "secret-word") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		testkit.Must(t, err)
		for _, f := range conf.Files {
			if !strings.HasPrefix(f.Path, "/etc/kubernetes/naupegos/authorization-webhook-site-") {
				continue
			}
			if !strings.Contains(string(f.Content), c.want) || f.Mode != 0o600 || !f.Secret || seen[f.Path] {
				t.Errorf("%s: %s has mode %o, secret %v:\n%s", name, f.Path, f.Mode, f.Secret, f.Content)
			}
			seen[f.Path] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("files: %v", seen)
	}
	l := identityLab(t, "{}")
	l.Doc = identityLab(t, strings.Replace(webhook, "FILE", "'"+filepath.Join(dir, "token")+"'", 1)).Doc
	l.Credentials = env.NewCredentials(policy.Credentials{}, "demo", true)
	if _, err := l.Authorization(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("a server reads a file that a document names: %v", err)
	}
}

// TestAuditWebhookCredentials: API servers sign in to the audit webhook by a secret file that plans do not show, and restart when the secret changes; a server
// reads no file that a document names.
func TestAuditWebhookCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	doc := document(t, 1, 2, 1)
	w := &v1alpha1.AuditWebhook{URL: "https://audit.example.org/events"}
	doc.Spec.Kubernetes.APIServer.AuditWebhook = w
	rendered := func(secret string) (webhook, manifest *machine.File) {
		t.Helper()
		testkit.Must(t, os.WriteFile(file, []byte(secret), 0o600))
		l := newLab(t, doc).Running(doc)
		testkit.Must(t, l.LoadTarget(t.Context()))
		conf := testkit.Value(l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}))(t)
		return fileOf(conf, "/etc/kubernetes/naupegos/audit-webhook.yaml"), fileOf(conf, "/etc/kubernetes/manifests/kube-apiserver.yaml")
	}
	none, _ := rendered("")
	if none == nil || none.Secret || strings.Contains(string(none.Content), "token") {
		t.Errorf("without auth: %+v", none)
	}
	w.Auth = &v1alpha1.WebhookAuth{CredentialsFile: file}
	one, before := rendered("token=secret-word\n")
	other, after := rendered("token=another-word\n")
	if one == nil || !strings.Contains(string(one.Content), "token: secret-word") || !strings.Contains(string(other.Content), "token: another-word") || !one.Secret || one.Mode != 0o600 {
		t.Errorf("%+v, then %+v", one, other)
	}
	if string(before.Content) == string(after.Content) || strings.Contains(string(after.Content), "another-word") {
		t.Errorf("the manifest with another secret is\n%s", after.Content)
	}
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, os.WriteFile(file, []byte("secret-word"), 0o600))
	testkit.Must(t, l.LoadTarget(t.Context()))
	if _, err := l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}); fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), "secret-word") {
		t.Errorf("a word is taken for a credential: %v", err)
	}
	testkit.Must(t, os.WriteFile(file, []byte("token=secret-word"), 0o600))
	l.Credentials = env.NewCredentials(policy.Credentials{}, "demo", true)
	if _, err := l.Config(t.Context(), siteSlots()[0], machine.Facts{CgroupVersion: 2, Interface: "eth0"}); fail.KindOf(err) != fail.Refused {
		t.Errorf("a server reads a file that a document names: %v", err)
	}
}
