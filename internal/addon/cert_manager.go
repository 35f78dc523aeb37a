package addon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
)

// deployed is one of cert-manager's programs, for its manifest.
type deployed struct {
	Name, Image, Args string // Args is the content of a YAML list
	PortName          string
	Port              int
	Probe, Path       string
	ProbePort         int
}

func certManager(in Input, a v1alpha1.Addon) ([]byte, error) {
	refs := map[string]string{}
	for _, name := range []string{catalogue.ImageCertManager, catalogue.ImageCertManagerWebhook, catalogue.ImageCertManagerCAInjector, catalogue.ImageCertManagerSolver} {
		ref, err := image(in.Bundle, name, a.Name)
		if err != nil {
			return nil, err
		}
		refs[name] = ref
	}
	m := a.CertManager
	args := []string{"--cluster-resource-namespace=" + m.ClusterResourceNamespace, "--acme-solver-image=" + refs[catalogue.ImageCertManagerSolver]}
	if d := m.DNS01; d != nil {
		args = append(args, "--dns01-recursive-nameservers="+strings.Join(d.RecursiveNameservers, ","), fmt.Sprintf("--dns01-recursive-nameservers-only=%v", d.Only))
	}
	if m.GatewayAPI {
		args = append(args, "--enable-gateway-api")
	}
	var gates, set []string
	for _, g := range slices.Sorted(maps.Keys(m.FeatureGates)) {
		set = append(set, fmt.Sprintf("%s=%v", g, m.FeatureGates[g]))
	}
	if len(set) > 0 {
		gates = []string{"--feature-gates=" + strings.Join(set, ",")}
	}
	return withDefinitions(in, a.Name, certManagerManifest, map[string]any{"Replicas": m.Replicas, "GatewayAPI": m.GatewayAPI, "Programs": []deployed{
		{"cert-manager", refs[catalogue.ImageCertManager], list(append(args, gates...)), "metrics", 9402, "livenessProbe", "/livez", 9403},
		{"cert-manager-cainjector", refs[catalogue.ImageCertManagerCAInjector], "", "health", 8081, "readinessProbe", "/healthz", 8081},
		{"cert-manager-webhook", refs[catalogue.ImageCertManagerWebhook], list(gates), "https", 10250, "readinessProbe", "/healthz", 6080},
	}})
}

// list renders texts as the content of a YAML list.
func list(texts []string) string {
	var out []string
	for _, t := range texts {
		out = append(out, "'"+quoted(t)+"'")
	}
	return strings.Join(out, ", ")
}
