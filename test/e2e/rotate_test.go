//go:build e2e

package e2e_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// keysRotate rotates all authorities and keys under the client, which switches to a new kubeconfig once it gets one; the rotation is killed on the
// way. In the end the old credentials are refused, and no pod was restarted.
func keysRotate(t *testing.T, r *rig, l *load) {
	cp, worker := machinesOf(r.status(), provider.ControlPlane)[0].Name, machinesOf(r.status(), provider.Worker)[0].Name
	old, pods, login := r.restConfig(), r.restarts(), r.look(worker, "cat /root/.ssh/authorized_keys")
	unhurt := unhurt
	if testkit.Full() {
		unhurt.failed = 0
	}
	token, stored := r.accountToken(), r.storedToken()
	w, m, began := startWatch(t, l), l.mark(), time.Now()
	var res result
	done := make(chan struct{})
	go func() {
		defer close(done)
		res = r.rotationDies()
	}()
	r.takesNewKubeconfig(l, old, done)
	<-done
	if res.code != 0 {
		t.Fatal(res)
	}
	t.Logf("FIGURE all authorities and keys rotated in %v", time.Since(began).Round(time.Second))
	w.end(t, unhurt)
	l.suffered(t, "authorities and keys rotated", m, unhurt)
	l.verify(t)
	r.healthy()

	r.refused("the kubeconfig from before", old)
	bearer := func(token string) *rest.Config {
		cfg := rest.AnonymousClientConfig(old)
		cfg.BearerToken = token
		return cfg
	}
	r.refused("a token from before", bearer(token))
	r.refused("a token in a Secret from before", bearer(stored))
	if now := r.storedToken(); now == stored || identify(t, bearer(now)) != nil {
		t.Errorf("the token in a Secret was not made again, or is refused: %v", identify(t, bearer(now)))
	}
	for pod, was := range pods {
		if now := r.restarts()[pod]; now != was {
			t.Errorf("pod %s: %s, before: %s", pod, now, was)
		}
	}
	t.Logf("FIGURE %d pods were not restarted", len(pods))
	if now := r.look(worker, "cat /root/.ssh/authorized_keys"); strings.Contains(now, strings.Fields(login)[1]) {
		t.Error("machines let the former SSH key in")
	}
	if out := r.look(cp, "kubeadm certs check-expiration 2>&1"); !strings.Contains(out, "apiserver-kubelet-client") || strings.Contains(out, "MISSING") {
		t.Errorf("kubeadm says of its certificates:\n%s", out)
	}
	if config := r.look(cp, "cat /etc/kubernetes/naupegos/encryption.yaml"); strings.Contains(config, "key1") {
		t.Error("API servers still have the former key of Secrets")
	}
	r.trustsOne(cp)
	said, err := r.api().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || strings.Count(said.Data["client-ca-file"], "BEGIN") != 1 || strings.Count(said.Data["requestheader-client-ca-file"], "BEGIN") != 1 {
		t.Errorf("API servers tell others to trust %v: %v", said, err)
	}
	if err := r.logs(worker); err != nil {
		t.Errorf("API servers and kubelets don't trust each other: %v", err)
	}
	r.unchanged()
}

// rotationIsAbandoned abandons a rotation that was killed while it distributed the next keys to the machines.
func (r *rig) rotationIsAbandoned(t *testing.T, l *load) {
	t.Helper()
	m, old := l.mark(), r.restConfig()
	machines := r.size.controlPlanes + r.size.workers + r.size.gateways
	r.killedAt(1+testkit.Rand(t).IntN(2*machines), "certs", "rotate", r.name, "--all", "--yes")
	r.must(0, "certs", "rotate", r.name, "--abandon", "--yes")
	l.suffered(t, "a rotation taken back", m, unhurt)
	for _, cp := range machinesOf(r.status(), provider.ControlPlane) {
		r.trustsOne(cp.Name)
	}
	testkit.Must(t, identify(t, old))
	r.unchanged()
}

// trustsOne asserts that a control-plane machine trusts exactly one authority of each kind.
func (r *rig) trustsOne(machine string) {
	r.t.Helper()
	trusted := r.look(machine, "grep -c BEGIN /etc/kubernetes/pki/ca.crt /etc/kubernetes/pki/sa.pub /etc/kubernetes/pki/etcd/ca.crt /etc/kubernetes/pki/front-proxy-ca.crt")
	if strings.Count(trusted, ":1\n") != 4 {
		r.t.Errorf("%s does not trust one authority each:\n%s", machine, trusted)
	}
}

// rotationDies rotates all authorities and keys, killed at a random boundary, and continues with the same command or apply; with -full, applies are
// killed at every boundary. It returns the last result.
func (r *rig) rotationDies() result {
	r.t.Helper()
	rotate, apply := []string{"certs", "rotate", r.name, "--all", "--yes"}, []string{"apply", "-f", r.file, "--yes"}
	machines := r.size.controlPlanes + r.size.workers + r.size.gateways
	if !testkit.Full() {
		// Each of the three phases has a step for each machine, or other steps in its place.
		r.killedAt(1+testkit.Rand(r.t).IntN(2*3*machines), rotate...)
		res := r.run(testkit.Sample(r.t, 1, [][]string{rotate, apply})[0]...)
		if res.code == 4 && strings.Contains(res.stderr, "naupegos apply continues that") { // the keys were rotated already, but not the encryption
			res = r.run(apply...)
		}
		return res
	}
	died, once := 0, "NAUPEGOS_KILL_ONCE="+filepath.Join(r.dir, "rotation-boundaries")
	for again := rotate; r.diesAgain(&died, 200, once, again...); again = apply {
	}
	r.t.Logf("FIGURE a rotation was killed at %d boundaries", died)
	if died < 2*machines {
		r.t.Errorf("it was killed %d times only", died)
	}
	return r.run(apply...)
}

// takesNewKubeconfig switches the client to the first kubeconfig with a certificate of another authority.
func (r *rig) takesNewKubeconfig(l *load, old *rest.Config, done <-chan struct{}) {
	r.t.Helper()
	until(r.t, 15*time.Minute, time.Second, func() error {
		now := r.restConfig()
		if !bytes.Equal(issuer(r.t, now.CertData), issuer(r.t, old.CertData)) {
			l.takes(r.clientset(requestTimeout))
			r.t.Log("the client has another kubeconfig")
			return nil
		}
		select {
		case <-done:
			r.t.Error("the rotation ended before another kubeconfig was to be had")
			return nil
		default:
			return fmt.Errorf("kubeconfigs are as before")
		}
	})
}

// issuer returns the key ID of the authority that signed a certificate.
func issuer(t testing.TB, cert []byte) []byte {
	t.Helper()
	b, _ := pem.Decode(cert)
	if b == nil {
		t.Fatal("there is no certificate")
	}
	return testkit.Value(x509.ParseCertificate(b.Bytes))(t).AuthorityKeyId
}

// restarts returns the UID and the number of restarts of each running pod, except the control plane's.
func (r *rig) restarts() map[string]string {
	r.t.Helper()
	list := testkit.Value(r.api().CoreV1().Pods("").List(r.t.Context(), metav1.ListOptions{}))(r.t)
	nodes := map[string]bool{}
	for _, n := range testkit.Value(r.api().CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{}))(r.t).Items {
		nodes[n.Name] = true
	}
	all := map[string]string{}
	for i := range list.Items {
		p := &list.Items[i]
		if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static || p.Status.Phase != corev1.PodRunning || !nodes[p.Spec.NodeName] { // for a minute, Kubernetes still lists the pods of a removed node
			continue
		}
		n := int32(0)
		for _, s := range p.Status.ContainerStatuses {
			n += s.RestartCount
		}
		all[p.Namespace+"/"+p.Name] = fmt.Sprintf("%s restarted %d times", p.UID, n)
	}
	if len(all) == 0 {
		r.t.Fatal("there are no pods")
	}
	return all
}

// accountToken requests a token for a service account.
func (r *rig) accountToken() string {
	r.t.Helper()
	req := &authenticationv1.TokenRequest{}
	return testkit.Value(r.api().CoreV1().ServiceAccounts("default").CreateToken(r.t.Context(), "default", req, metav1.CreateOptions{}))(r.t).Status.Token
}

// storedToken returns the token in a Secret, which it creates if needed.
func (r *rig) storedToken() (token string) {
	r.t.Helper()
	secrets := r.api().CoreV1().Secrets("default")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stored", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken}
	if _, err := secrets.Create(r.t.Context(), s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	until(r.t, time.Minute, 200*time.Millisecond, func() error {
		have, err := secrets.Get(r.t.Context(), "stored", metav1.GetOptions{})
		if err == nil && len(have.Data["token"]) == 0 {
			err = fmt.Errorf("it has no token")
		}
		if err == nil {
			token = string(have.Data["token"])
		}
		return err
	})
	return token
}

// identify asks the API for the identity behind a configuration.
func identify(t testing.TB, cfg *rest.Config) error {
	t.Helper()
	_, err := testkit.Value(kubernetes.NewForConfig(cfg))(t).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err
}

// refused asserts that every API server refuses a configuration as unauthorized.
func (r *rig) refused(what string, cfg *rest.Config) {
	r.t.Helper()
	for range 6 { // the endpoint uses the servers in turn
		if err := identify(r.t, rest.CopyConfig(cfg)); !apierrors.IsUnauthorized(err) {
			r.t.Errorf("%s is not refused: %v", what, err)
		}
	}
}

// logs reads the logs of a pod on a machine from kubelet, through an API server.
func (r *rig) logs(machine string) error {
	pods, err := r.api().CoreV1().Pods("kube-system").List(r.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + machine})
	if err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("there is no pod on %s", machine)
	}
	_, err = r.api().CoreV1().Pods("kube-system").GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(r.t.Context())
	return err
}
