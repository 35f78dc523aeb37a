package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCommit: secrets from planning are only in memory; after Commit, they and all later ones are in the store.
func TestCommit(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, store.Location{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	l := newLab(t, document(t, 1, 2, 1))
	rec := &store.Cluster{ID: "demo-0a0b0c0d", Name: "demo"}
	under, over := st.Secrets(rec.ID), memory.NewOverlay(st.Secrets(rec.ID))
	l.Secrets, l.Store, l.Record, l.Facts = over, st, rec, memory.NewFacts(rec, nil)

	if err := over.Put(ctx, "key", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := l.Facts.Set(ctx, "fact", "one"); err != nil {
		t.Fatal(err)
	}
	if all, err := st.Clusters(ctx); err != nil || len(all) != 0 {
		t.Fatalf("planning left %v, %v", all, err)
	}
	if _, err := under.Get(ctx, "key"); fail.KindOf(err) != fail.NotFound {
		t.Fatalf("planning left a secret: %v", err)
	}

	if _, err := st.CreateCluster(ctx, *rec); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := over.PutIfAbsent(ctx, "key", []byte("two")); err != nil || string(v) != "one" {
		t.Errorf("what was planned with is %q now, %v", v, err)
	}
	if err := over.Put(ctx, "later", []byte("three")); err != nil {
		t.Fatal(err)
	}
	if err := l.Facts.Set(ctx, "later", "three"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"key": "one", "later": "three"} {
		if v, err := under.Get(ctx, name); err != nil || string(v) != want {
			t.Errorf("the store's %s is %q, %v", name, v, err)
		}
	}
	got, err := st.Cluster(ctx, "demo")
	if err != nil || got.Facts[store.Fact{Kind: "fact"}] != "one" || got.Facts[store.Fact{Kind: "later"}] != "three" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := over.Delete(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := under.Get(ctx, "key"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("deleted, it is still there: %v", err)
	}
}

// TestCommitForgetsAccounts: credentials that a document refers to are kept in the store until a document without the reference is committed.
func TestCommitForgetsAccounts(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "account")
	testkit.Must(t, os.WriteFile(file, []byte("me:secret\n"), 0o600))
	auth := &v1alpha1.BasicAuth{CredentialsFile: file}
	doc := document(t, 1, 2, 1)
	doc.Spec.Proxy = &v1alpha1.Proxy{HTTP: "http://a.example.org:3128", HTTPS: "http://b.example.org:3128", Auth: auth}
	doc.Spec.Registries = []v1alpha1.Registry{{Host: "docker.io", Auth: auth, Mirrors: []v1alpha1.Mirror{{URL: "https://mirror.example.org", Auth: auth}}}}
	doc.Spec.Identity.AuthorizationWebhooks = identityDocument(t, strings.Replace(webhook, "FILE", file, 1)).Spec.Identity.AuthorizationWebhooks
	doc.Spec.Kubernetes.APIServer.AuditWebhook = &v1alpha1.AuditWebhook{URL: "https://audit.example.org", Auth: (*v1alpha1.WebhookAuth)(auth)}
	doc.Spec.Addons = []v1alpha1.Addon{{Name: v1alpha1.AddonExternalDNS, ExternalDNS: &v1alpha1.ExternalDNS{RFC2136: &v1alpha1.RFC2136{Server: "ns.example.org", Port: 53, Auth: auth}}}}
	l := newLab(t, doc).Running(doc)
	l.Secrets = memory.NewOverlay(l.Secrets)
	accounts := func() (names []string) {
		for _, name := range testkit.Value(l.Secrets.Names(ctx))(t) {
			if strings.HasPrefix(name, "account-") {
				names = append(names, name)
			}
		}
		return names
	}
	testkit.Must(t, l.LoadTarget(ctx))
	for _, s := range siteSlots() {
		testkit.Value(l.Config(ctx, s, machine.Facts{CgroupVersion: 2, Interface: "eth0"}))(t)
	}
	testkit.Value(l.RegistryCheck(ctx))(t)
	testkit.Must(t, l.CheckUpdateKey(ctx))
	testkit.Must(t, l.Secrets.Put(ctx, "another", []byte("x")))
	all := accounts()
	if len(all) != 7 {
		t.Errorf("kept are %q", all)
	}
	testkit.Must(t, l.Commit(ctx))
	if now := accounts(); !slices.Equal(now, all) {
		t.Errorf("of %q, the commit left %q", all, now)
	}
	doc.Spec.Kubernetes.APIServer.AuditWebhook.Auth = nil
	doc.Spec.Proxy.HTTP, doc.Spec.Identity.AuthorizationWebhooks, doc.Spec.Registries[0].Mirrors[0].URL = "", nil, "https://other.example.org"
	testkit.Must(t, l.Commit(ctx))
	if now := accounts(); len(now) != 3 {
		t.Errorf("after references left the document, %q are kept", now)
	}
	testkit.Value(l.Secrets.Get(ctx, "another"))(t)
}
