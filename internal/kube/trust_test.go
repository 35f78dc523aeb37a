package kube

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStoredTokens tells which key has signed the tokens in Secrets, and has one made again.
func TestStoredTokens(t *testing.T) {
	c := fakeClient()
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"kid":"by-this"}`))
	testkit.Must(t, c.set.(*fake.Clientset).Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "stored"}, Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(header + ".a.b"), "ca.crt": []byte("x")},
	}))
	got := testkit.Value(c.StoredTokens(t.Context()))(t)
	if len(got) != 1 || got[0] != (StoredToken{"n", "stored", "by-this"}) || got[0].String() != "n/stored" {
		t.Fatalf("there are %v", got)
	}
	testkit.Must(t, c.RenewToken(t.Context(), got[0]))
	s := testkit.Value(c.set.CoreV1().Secrets("n").Get(t.Context(), "stored", metav1.GetOptions{}))(t)
	if _, there := s.Data["token"]; there || len(s.Data["ca.crt"]) == 0 {
		t.Errorf("it has %v", s.Data)
	}
	if got := testkit.Value(c.StoredTokens(t.Context()))(t); got[0].KeyID != "" {
		t.Errorf("one that is still to be made is %v", got)
	}
	testkit.Must(t, c.RenewToken(t.Context(), StoredToken{"n", "gone", ""}))
}

// TestDistrust takes one authority out of what API servers tell others, and never the last.
func TestDistrust(t *testing.T) {
	c := fakeClient()
	former, next := string(pkitest.NewAuthority(t).PEM()), string(pkitest.NewAuthority(t).PEM())
	testkit.Must(t, c.set.(*fake.Clientset).Tracker().Add(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: authenticationConfig},
		Data:       map[string]string{"client-ca-file": former + next, "requestheader-client-ca-file": next, "requestheader-allowed-names": "[]"},
	}))
	for _, want := range []bool{true, false} {
		if found := testkit.Value(c.Distrust(t.Context(), []byte(former)))(t); found != want {
			t.Errorf("it was there: %v", found)
		}
		m := testkit.Value(c.set.CoreV1().ConfigMaps("kube-system").Get(t.Context(), authenticationConfig, metav1.GetOptions{}))(t)
		if m.Data["client-ca-file"] != next || m.Data["requestheader-client-ca-file"] != next || m.Data["requestheader-allowed-names"] != "[]" {
			t.Errorf("it holds %v", m.Data)
		}
	}
	if _, err := c.Distrust(t.Context(), []byte(next)); fail.KindOf(err) != fail.NotReady {
		t.Errorf("the last one: %v", err)
	}
}

// TestPods leaves out what has ended or runs nowhere, and says which are given tokens.
func TestPods(t *testing.T) {
	c := fakeClient()
	pod := func(name, node string, phase corev1.PodPhase, given bool) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "uid-of-" + "it"}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		if given {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}
		}
		testkit.Must(t, c.set.(*fake.Clientset).Tracker().Add(p))
	}
	pod("ended", "w", corev1.PodSucceeded, true)
	pod("nowhere", "", corev1.PodPending, true)
	pod("plain", "w", corev1.PodRunning, false)
	pod("given", "w", corev1.PodRunning, true)
	var got []string
	for _, p := range testkit.Value(c.Pods(t.Context()))(t) {
		if got = append(got, p.Name); p.Mounted != (p.Name == "given") || p.Node != "w" || p.UID == "" {
			t.Errorf("%+v", p)
		}
	}
	if strings.Join(got, " ") != "given plain" {
		t.Errorf("there are %v", got)
	}
}
