package certificates

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
)

// gates are the gates of cert-manager 1.20 that are not yet fixed and need nothing else.
var gates = []string{"ACMEHTTP01IngressPathTypeExact", "LiteralCertificateSubject", "NameConstraints", "OtherNames", "SecretsFilteredCaching",
	"ServerSideApply", "StableCertificateRequestName", "UseCertificateRequestBasicConstraints", "ValidateCAA"}

// Check reports invalid settings.
func (m *CertManager) Check(r *strict.Findings, field string) {
	if len(validation.IsDNS1123Label(m.ClusterResourceNamespace)) > 0 {
		r.Add(field+".clusterResourceNamespace", strict.Quote(m.ClusterResourceNamespace)+" is not the name of a namespace", "write it in lower case, with digits and -")
	}
	for _, name := range slices.Sorted(maps.Keys(m.FeatureGates)) {
		if !slices.Contains(gates, name) {
			r.Add(field+".featureGates["+strict.Clip(name)+"]", strict.Quote(name)+" is not a feature gate of cert-manager that can be set", "use "+strings.Join(gates, ", "))
		}
	}
	if m.DNS01 == nil {
		return
	}
	for i, s := range m.DNS01.RecursiveNameservers {
		if a, err := netip.ParseAddrPort(s); err != nil || a.Port() == 0 {
			r.Add(strict.Item(field+".dns01.recursiveNameservers", i), strict.Quote(s)+" is not the address and port of a name server", "write it like 10.0.0.53:53")
		}
	}
}
