package layout

import (
	"strings"
	"testing"
)

// TestIssuersRestartNothing: a change of issuers changes their file, and not the digest that restarts the API server.
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
		t.Error("the API server does not restart for what it reads only when it starts")
	}
}
