package userconf

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

const others = `apiVersion: v1
kind: Config
preferences: {}
clusters: [{name: work, cluster: {server: "https://work:6443", certificate-authority: ca.pem}}]
users: [{name: me, user: {token: abc}}]
contexts: [{name: work, context: {cluster: work, user: me, namespace: team}}]
current-context: work
`

// TestMerge adds to a kubeconfig through a link that stays, keeps other entries, and replaces its own.
func TestMerge(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	file, link := filepath.Join(dir, "real"), filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(others), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", link)
	k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{})
	for i, endpoint := range []string{"10.0.0.1:6443", "10.0.0.2:6443"} {
		conf, err := layout.Params{ClusterName: "demo"}.AdminKubeconfig(ctx, k, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		path, replaced, other, err := Merge(conf, "demo", "")
		if err != nil || other != "" || path != file || replaced != (i > 0) {
			t.Fatalf("%s, replaced: %t, %v", path, replaced, err)
		}
		got, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got.CurrentContext != "demo" || len(got.Contexts) != 2 || got.Contexts["work"].Namespace != "team" ||
			got.AuthInfos["me"].Token != "abc" || got.Clusters["work"].CertificateAuthority != "ca.pem" {
			t.Errorf("%+v", got)
		}
		mine := got.Contexts["demo"]
		if got.Clusters[mine.Cluster].Server != "https://"+endpoint || len(got.AuthInfos[mine.AuthInfo].ClientKeyData) == 0 {
			t.Errorf("%+v", got.Clusters[mine.Cluster])
		}
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestMergeIntoNothing creates kubectl's file if there is none, and leaves an unreadable one alone.
func TestMergeIntoNothing(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "new", "config"))
	conf, err := layout.Params{ClusterName: "demo"}.AdminKubeconfig(context.Background(), pki.Open(&pkitest.MemorySecrets{}, pki.Options{}), "10.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	path, _, _, err := Merge(conf, "demo", "")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Merge(conf, "demo", ""); err == nil {
		t.Error("merged into what is not a kubeconfig")
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != "{" {
		t.Errorf("%q, %v", left, err)
	}
}

// TestMergeForeign: a file's other contexts are never led to this cluster, whose server would get their credentials; a context that led to another cluster of this
// name is replaced, and the caller learns where it led.
func TestMergeForeign(t *testing.T) {
	conf := func(endpoint string) []byte {
		k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{})
		return testkit.Value(layout.Params{ClusterName: "demo"}.AdminKubeconfig(context.Background(), k, endpoint))(t)
	}
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	foreign := strings.NewReplacer("{name: work, cluster", "{name: demo, cluster", "{name: work, context: {cluster: work", "{name: mine, context: {cluster: demo", "current-context: work", "current-context: mine").Replace(others)
	testkit.Must(t, os.WriteFile(file, []byte(foreign), 0o600))
	_, _, _, err := Merge(conf("10.0.0.1:6443"), "demo", "")
	testkit.Fails(t, err, fail.Conflict, "context mine uses the cluster entry demo, which leads to https://work:6443")
	if left := string(testkit.Value(os.ReadFile(file))(t)); left != foreign {
		t.Errorf("changed: %s", left)
	}
	testkit.Must(t, os.Remove(file))
	for i, want := range []string{"", "https://10.0.0.1:6443"} {
		_, replaced, other, err := Merge(conf([]string{"10.0.0.1:6443", "10.0.0.2:6443"}[i]), "demo", "")
		if err != nil || replaced != (i > 0) || other != want {
			t.Errorf("%d: replaced %t, other %q, %v", i, replaced, other, err)
		}
	}
}

// TestMergeFiles: what $KUBECONFIG may name.
func TestMergeFiles(t *testing.T) {
	conf := testkit.Value(layout.Params{ClusterName: "demo"}.AdminKubeconfig(context.Background(), pki.Open(&pkitest.MemorySecrets{}, pki.Options{}), "10.0.0.1:6443"))(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	testkit.Must(t, os.WriteFile(in("empty"), nil, 0o600))
	testkit.Must(t, os.WriteFile(in("locked"), []byte(others), 0o400))
	testkit.Must(t, os.WriteFile(in("broken"), []byte("contexts: ["), 0o600))
	testkit.Must(t, os.WriteFile(in("list"), []byte("[1]"), 0o600))
	testkit.Must(t, os.Symlink("later", in("dangling")))
	testkit.Must(t, os.Symlink("loop", in("loop")))
	for _, c := range []struct{ env, path, fails string }{
		{env: in("empty"), path: in("empty")},
		{env: in("absent") + ":" + in("empty"), path: in("empty")},
		{env: ":" + in("empty") + ":", path: in("empty")},
		{env: in("dangling"), path: in("later")},
		{env: in("locked"), fails: "read-only"},
		{env: dir, fails: "is a directory"},
		{env: in("broken"), fails: "mend it"},
		{env: in("list"), fails: "mend it"},
		{env: in("loop"), fails: "loop"},
	} {
		t.Setenv("KUBECONFIG", c.env)
		path, _, _, err := Merge(conf, "demo", "")
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(), "--file") {
				t.Errorf("%s: %v", c.env, err)
			}
			continue
		}
		if err != nil || path != c.path {
			t.Errorf("%s: %s, %v", c.env, path, err)
		} else if got := testkit.Value(clientcmd.LoadFromFile(path))(t); got.CurrentContext != "demo" {
			t.Errorf("%s: %+v", c.env, got)
		}
	}
	if to := testkit.Value(os.Readlink(in("dangling")))(t); to != "later" {
		t.Errorf("the link leads to %s", to)
	}
}

// TestExec: the kubeconfig names the port that the browser returns to, if the issuer has one.
func TestExec(t *testing.T) {
	for port, want := range map[int][]string{0: nil, 8250: {"--port", "8250"}} {
		conf := testkit.Value(Exec("demo", "https://10.0.0.1:6443", nil, "corp", Login{Issuer: "https://login.example.org", ClientID: "k", Scopes: []string{"openid", "email"}, Port: port}))(t)
		args := testkit.Value(clientcmd.Load(conf))(t).AuthInfos["demo-corp"].Exec.Args
		if !slices.Equal(args, append([]string{"get-token", "--issuer", "https://login.example.org", "--client-id", "k", "--scope", "openid,email"}, want...)) {
			t.Errorf("%q", args)
		}
	}
}
