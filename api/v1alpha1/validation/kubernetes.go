package validation

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

const maxDNSDomain = 200 // leaves room in front for the names of a Service and a namespace

// checkKubernetes checks release and domain; checkNetworks checks the networks.
func checkKubernetes(c *v1alpha1.Cluster, r *findings) {
	k := c.Spec.Kubernetes
	if problem, hint := checkVersion(k.Version); problem != "" {
		r.Add("spec.kubernetes.version", problem, hint)
	}
	if k.CNI == v1alpha1.CNINone && c.Spec.SmokeTest != nil && *c.Spec.SmokeTest {
		r.Add("spec.kubernetes.cni", "the smoke test can't pass without a pod network", "set spec.smokeTest to false, and install a network after apply", "spec.smokeTest")
	}
	const domain = "spec.kubernetes.dnsDomain"
	switch d := k.DNSDomain; {
	case strings.HasSuffix(d, "."):
		r.Add(domain, strict.Quote(d)+" ends with a dot", "write it without")
	case d != strings.ToLower(d):
		r.Add(domain, strict.Quote(d)+" has capital letters", "write it in lower case")
	case len(validation.IsDNS1123Subdomain(d)) > 0:
		r.Add(domain, strict.Quote(d)+" is not a domain name", `write it like "cluster.local"`)
	case len(d) > maxDNSDomain:
		r.Add(domain, "is longer than 200 characters", "")
	}
}

// checkVersion reports why a text is not a release of a supported minor; empty if it is.
func checkVersion(v string) (problem, hint string) {
	parts := regexp.MustCompile(`^(v?)(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3}))?(-.+|\+.+)?$`).FindStringSubmatch(v)
	if parts == nil {
		return strict.Quote(v) + " is not a Kubernetes release", "write it like " + v1alpha1.LatestKubernetes
	}
	minor := parts[2] + "." + parts[3]
	switch {
	case !slices.Contains(v1alpha1.SupportedMinors(), minor):
		return "Kubernetes " + minor + " is not supported", "supported: " + strings.Join(v1alpha1.SupportedMinors(), ", ")
	case parts[6] != "":
		return strict.Quote(v) + " is not a release", "pre-releases and vendor builds are not supported"
	case parts[4] == "":
		return strict.Quote(v) + " lacks the patch number", "write it like " + v1alpha1.LatestKubernetes
	case parts[1] == "":
		return strict.Quote(v) + " lacks the v", "write v" + v
	}
	return "", ""
}
