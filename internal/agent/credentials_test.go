package agent_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCredentials: of a token, only the ID of its signing key leaves the machine.
func TestCredentials(t *testing.T) {
	root := t.TempDir()
	a := agent.New(agent.Options{Root: root})
	if got := testkit.Value(a.Credentials())(t); len(got) != 0 {
		t.Errorf("a machine without pods has %v", got)
	}
	put := func(pod, file, content string) {
		t.Helper()
		path := filepath.Join(root, "/var/lib/kubelet/pods", pod, "volumes/kubernetes.io~projected/kube-api-access", file)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"by-this"}`))
	put("1111", "token", header+".claims.signature\n")
	put("1111", "ca.crt", string(pkitest.NewAuthority(t).PEM())+string(pkitest.NewAuthority(t).PEM()))
	put("2222", "token", header+".claims.signature")
	got := testkit.Value(a.Credentials())(t)
	if len(got) != 2 || got[0].Pod != "1111" || got[0].Volume != "kube-api-access" || got[0].KeyID != "by-this" || len(got[0].Authorities) != 2 ||
		len(got[0].Authorities[0]) != 64 || got[0].Authorities[0] == got[0].Authorities[1] || got[1].Authorities != nil {
		t.Errorf("it says %+v", got)
	}
	put("3333", "token", "hunter2.claims.signature")
	if _, err := a.Credentials(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("for an invalid token it returns %v", err)
	}
}
