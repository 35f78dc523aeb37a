package kube

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStoredTokens: StoredTokens names the key that signed each token in Secrets, and RenewToken replaces one.
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

// TestDistrust removes one authority from those that API servers publish, and never the last.
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

// TestPods: Pods omits ended and unscheduled pods, and says which have tokens.
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

// TestDisown: Disown removes tokens and load balancers, makes volumes stay, and changes nothing else.
func TestDisown(t *testing.T) {
	c, ctx, immutable := fakeClient(), t.Context(), true
	tracker := c.set.(*fake.Clientset).Tracker()
	token := map[string][]byte{"token": []byte("a.b.c"), "ca.crt": []byte("x"), "namespace": []byte("n")}
	for _, o := range []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "token"}, Type: corev1.SecretTypeServiceAccountToken, Data: token},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "fixed"}, Type: corev1.SecretTypeServiceAccountToken, Data: token, Immutable: &immutable},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "front", Annotations: map[string]string{balancerAnnotations[0]: "1", "own": "2"}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.4"}}}},
		},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "back"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}},
	} {
		testkit.Must(t, tracker.Add(o))
	}
	if d := testkit.Value(c.Disown(ctx))(t); d != (Disowned{Tokens: 2, Volumes: 1, Services: 1}) {
		t.Errorf("taken out are %+v", d)
	}
	secrets := testkit.Value(c.set.CoreV1().Secrets("n").List(ctx, metav1.ListOptions{}))(t).Items
	if len(secrets) != 1 || secrets[0].Name != "token" || len(secrets[0].Data) != 1 {
		t.Errorf("there are %+v", secrets)
	}
	if v := testkit.Value(c.set.CoreV1().PersistentVolumes().Get(ctx, "v", metav1.GetOptions{}))(t); v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("a volume is to be %s", v.Spec.PersistentVolumeReclaimPolicy)
	}
	s := testkit.Value(c.set.CoreV1().Services("n").Get(ctx, "front", metav1.GetOptions{}))(t)
	if len(s.Annotations) != 1 || len(s.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("a Service is %+v", s)
	}
	if d := testkit.Value(c.Disown(ctx))(t); d.Volumes != 0 {
		t.Errorf("again, %+v", d)
	}
}
