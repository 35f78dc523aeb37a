package cluster

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCertificatesDue: past the time of its renewal a certificate makes a cluster unhealthy, long before it expires.
func TestCertificatesDue(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	testkit.Must(t, l.PKI.Ensure(t.Context()))
	leaf := pki.LeafSpec{Name: "demo-cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true}
	testkit.Value(l.PKI.Leaf(t.Context(), leaf))(t)
	const day = 24 * time.Hour
	for after, want := range map[time.Duration]int{day: 0, 230 * day: 0, 250 * day: 1} {
		s := &Status{Healthy: true}
		testkit.Must(t, l.certificateStatus(t.Context(), s, time.Now().Add(after)))
		if len(s.Due) != want || s.Healthy != (want == 0) || s.ExpiresOf != leaf.Name {
			t.Errorf("after %v: due %v, healthy: %t, first to expire: %s", after, s.Due, s.Healthy, s.ExpiresOf)
		}
	}
}
