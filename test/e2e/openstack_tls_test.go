//go:build e2e

package e2e_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// refusesBalancers asserts that a cluster behind Octavia is refused, before anything is created, in a region without Octavia.
func (c *cloud) refusesBalancers(t *testing.T) {
	t.Helper()
	r, s := c.rig(t, "nolb", 1)
	s.entry = bed.TLSCloud
	r.document(size{controlPlanes: 1, workers: 1})
	for _, verb := range [][]string{{"plan", "-f", r.file}, {"apply", "-f", r.file, "--yes"}} {
		res := r.must(fail.Refused.ExitCode(), verb...)
		if said := strings.TrimSpace(res.stderr); !strings.Contains(said, "find the load-balancer service in region RegionTLS") ||
			!strings.Contains(said, "use another kind of spec.endpoint, such as gateways") || strings.Count(said, "load-balancer service") != 1 {
			t.Errorf("the error does not clearly state that there is no Octavia: %v", res)
		}
	}
	made, err := c.api.of(t.Context(), r.name)
	if err != nil || len(made) > 0 {
		t.Errorf("resources were created: %v %v", made, err)
	}
}

// tlsRequests returns the requests to the region with TLS from the log of the bed's proxy, one line each: client, path, result.
func (s *onCloud) tlsRequests() []string {
	text, err := os.ReadFile(s.bed.Service("haproxy").LogFile())
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// behindTLS asserts that the cluster reports the cloud's lack of load balancers, and that its pods use TLS with the cloud and trust its authority.
// before is the result of tlsRequests before the cluster was made.
func (s *onCloud) behindTLS(r *rig, applied result, before []string) {
	r.t.Helper()
	for _, want := range []string{
		"Warning: the cloud has no load-balancer service: Services of type LoadBalancer will get no address", "smoke test: a PersistentVolumeClaim gets a volume",
	} {
		if !strings.Contains(applied.stdout+applied.stderr, want) {
			r.t.Errorf("apply does not say %q: %v", want, applied)
		}
	}
	secret, err := r.api().CoreV1().Secrets("kube-system").Get(r.t.Context(), addon.CloudConfigName, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	conf := string(secret.Data["cloud.conf"])
	for _, want := range []string{`auth-url = "https://`, `region = "RegionTLS"`, `ca-file = "` + addon.AuthoritiesDir, "[LoadBalancer]\nenabled = false\n"} {
		if !strings.Contains(conf, want) {
			r.t.Errorf("cloud.conf does not say %q", want)
		}
	}
	for _, line := range []string{" compute GET .* 200 .*openstack-cloud-controller-manager", " volumev3 POST .* 202 .*cinder-csi"} {
		is := regexp.MustCompile(line)
		until(r.t, time.Minute, time.Second, func() error {
			for _, l := range s.tlsRequests()[len(before):] {
				if is.MatchString(l) {
					return nil
				}
			}
			return fail.New(fail.NotReady, "no request %q has reached the region behind TLS", line)
		})
	}
}
