//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/testkit"
)

// basic is a user with a password.
type basic struct{ user, password string }

// Authorization implements authn.Authenticator.
func (b basic) Authorization() (*authn.AuthConfig, error) {
	return &authn.AuthConfig{Username: b.user, Password: b.password}, nil
}

// TestRegistriesWithoutEgress: machines that reach nothing but a mirror with a password and an authority of its own come up, and run a Deployment with an
// image that only the mirror has; once the mirror is gone, they run one with an image of the registry inside. No other packet leaves the cluster.
func TestRegistriesWithoutEgress(t *testing.T) {
	testkit.OnlyFull(t, "integration tests of containerd's hosts.toml, the registry check and the registry inside")
	const password = "a:b c%d\"e" // every character counts
	o := newOutside(t, "10.76.7")
	port, stop, seen := o.images("robot", password, "team/mirrored")
	private, _, _ := o.images("kubelet", "expires soon", "team/private")
	dropped := o.filtered(port, private)
	r := newRigOn(t, o, "mirrored")
	credential := filepath.Join(r.dir, "credential")
	testkit.Must(t, os.WriteFile(credential, []byte("robot:"+password+"\n"), 0o600))
	registries := func(file string) string {
		return fmt.Sprintf("  registries:\n    - host: registry.example.org\n      mirrors:\n        - url: https://%s\n          auth: {credentialsFile: %s}\n          ca: %s", o.at(port), file, o.indented(12))
	}
	credentials := o.credentialProvider(private, "kubelet", "expires soon")
	cluster := size{controlPlanes: 3, workers: 1, gateways: 1, extra: registries(credential) + credentials}
	r.document(cluster)
	r.apply()
	r.answers(t, "mirrored", "registry.example.org/team/mirrored:v1", "team/mirrored")
	if !strings.Contains(strings.Join(seen(), "\n"), "GET /v2/team/mirrored/manifests/") {
		t.Errorf("the mirror was asked for %q", seen())
	}

	r.answers(t, "private", o.at(private)+"/team/private:v1", "team/private") // with what kubelet's credential provider says

	// A wrong password is named before anything changes.
	wrong := filepath.Join(r.dir, "wrong")
	testkit.Must(t, os.WriteFile(wrong, []byte("robot:wrong\n"), 0o600))
	cluster.extra = registries(wrong) + credentials
	r.document(cluster)
	if res := r.run("apply", "-f", r.file, "--yes"); res.code == 0 || !strings.Contains(res.stderr, "mirror https://"+o.at(port)) || !strings.Contains(res.stderr, r.name+"-cp-1") {
		t.Errorf("with a wrong password: %v", res)
	}

	set := "e2e-" + r.name
	archive := filepath.Join(r.dir, "inside.tar")
	testkit.Must(t, tarball.WriteToFile(archive, testkit.Value(name.NewTag("registry.example.org/team/inside:v1"))(t), hello(t, "team/inside")))
	r.must(0, "bundle", "add", "image", "--from", archive, "--set", set)
	t.Cleanup(func() {
		if res := naupegos(t, invocation{}, "bundle", "remove", set); res.code != 0 {
			t.Error(res)
		}
	})
	cluster.extra = registries(credential) + credentials + "  registry: {sets: [" + set + "]}\n"
	r.document(cluster)
	before := r.programs()
	r.apply()
	now := r.programs()
	for at, was := range before {
		if is := now[at]; is != was {
			t.Errorf("the registry inside restarted %s on %s: %q is %q now", at.name, at.machine, was, is)
		}
	}
	asked := len(seen())
	stop()
	r.answers(t, "inside", "registry.example.org/team/inside:v1", "team/inside")
	if now := len(seen()); now != asked {
		t.Errorf("the mirror answered after its end: %q", seen()[asked:])
	}
	r.unchanged()
	r.passesItsTest(t)
	if what := dropped(); what != "" {
		t.Errorf("machines sent packets to the outside:\n%s", what)
	}
	r.destroy()
}

// credentialProvider renders settings of a registry for which a program of kubelet's knows the password, below spec.registries.
func (o *outside) credentialProvider(port int, user, password string) string {
	return fmt.Sprintf(`    - host: %[1]s
      ca: %[2]s  machines:
    files:
      - path: /etc/kubelet-credentials/config.yaml
        content: |
          apiVersion: kubelet.config.k8s.io/v1
          kind: CredentialProviderConfig
          providers:
            - {name: from-test, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ["%[1]s"], defaultCacheDuration: 10m}
      - path: /usr/local/libexec/kubelet-credentials/from-test
        mode: "0755"
        content: |
          #!/bin/sh
          echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"10m","auth":{"%[1]s":{"username":"%[3]s","password":"%[4]s"}}}'
  kubernetes:
    kubelet:
      extraArgs:
        - {name: image-credential-provider-config, value: /etc/kubelet-credentials/config.yaml}
        - {name: image-credential-provider-bin-dir, value: /usr/local/libexec/kubelet-credentials}
`, o.at(port), o.indented(8), user, password)
}

// answers runs a Deployment of one pod with an image of hello, and reads its answer through the API.
func (r *rig) answers(t *testing.T, name, image, text string) {
	t.Helper()
	set, labels, began := r.clientset(patience), map[string]string{"app": name}, time.Now()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "hello", Image: image, ImagePullPolicy: corev1.PullAlways}}}}}}
	testkit.Value(set.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}))(t)
	until(t, 3*time.Minute*slower, time.Second, func() error {
		pods, err := set.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(pods.Items) == 0 {
			err = fmt.Errorf("%s has no pod yet", name)
		}
		if err != nil {
			return err
		}
		p := &pods.Items[0]
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil {
				err = fmt.Errorf("%s: %s: %s", p.Name, w.Reason, w.Message)
			}
		}
		if err != nil {
			return err
		}
		body, err := set.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").SubResource("proxy").Name(p.Name + ":8080").DoRaw(t.Context())
		if err == nil && strings.TrimSpace(string(body)) != text {
			err = fmt.Errorf("%s answers %q", p.Name, body)
		}
		return err
	})
	t.Logf("FIGURE a Deployment with %s answered after %v", image, time.Since(began).Round(100*time.Millisecond))
}
