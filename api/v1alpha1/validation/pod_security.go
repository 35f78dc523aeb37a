package validation

import (
	"slices"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/release"
)

const podSecurityAt = "spec.identity.podSecurity"

// checkPodSecurity checks versions and exemptions, and that the plugin has no other configuration.
func checkPodSecurity(c *v1alpha1.Cluster, r *findings) {
	p := c.Spec.Identity.PodSecurity
	if p == nil {
		return
	}
	for _, problem := range p.Config().Check("v" + release.MinorOf(c.Spec.Kubernetes.Version)) {
		r.Add(podSecurityAt+"."+problem.Field, problem.Text, problem.Hint)
	}
	a := c.Spec.Kubernetes.APIServer
	const elsewhere = "remove one of them: spec.identity.podSecurity writes the configuration of the admission plugin"
	if slices.Contains(a.DisableAdmissionPlugins, identity.PodSecurityPlugin) {
		r.Add(podSecurityAt, "the admission plugin PodSecurity is switched off by spec.kubernetes.apiServer.disableAdmissionPlugins", elsewhere)
	}
	docs, err := strict.Documents([]byte(a.AdmissionConfig))
	if err != nil || len(docs) != 1 || child(docs[0], "plugins") == nil { // reported with apiServer
		return
	}
	for _, plugin := range child(docs[0], "plugins").Content {
		if valueOf(plugin, "name") == identity.PodSecurityPlugin {
			r.Add(podSecurityAt, "spec.kubernetes.apiServer.admissionConfig configures the admission plugin PodSecurity, too", elsewhere)
		}
	}
}
