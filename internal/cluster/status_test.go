package cluster

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCertificatesDue: a certificate is due for renewal long before it expires.
func TestCertificatesDue(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	testkit.Must(t, l.PKI.Ensure(t.Context()))
	leaf := pki.LeafSpec{Name: "demo-cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true}
	testkit.Value(l.PKI.Leaf(t.Context(), leaf))(t)
	const day = 24 * time.Hour
	for after, want := range map[time.Duration]int{day: 0, 230 * day: 0, 250 * day: 1} {
		s := &report.Status{}
		testkit.Must(t, l.CertificateStatus(t.Context(), s, time.Now().Add(after)))
		if len(s.Due) != want || s.ExpiresOf != leaf.Name {
			t.Errorf("after %v: due %v, first to expire: %s", after, s.Due, s.ExpiresOf)
		}
	}
}
