package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/release"
)

const podSecurityAt = "spec.identity.podSecurity"

// podSecurityPlugin is the admission plugin's name.
const podSecurityPlugin = "PodSecurity"

var levelVersion = regexp.MustCompile(`^v1\.(0|[1-9][0-9]*)$`)

// controllerAccount matches the service accounts of Kubernetes' own controllers.
var controllerAccount = regexp.MustCompile(`^system:serviceaccount:kube-system:[a-z-]*controller$`)

// checkPodSecurity checks levels, versions and exemptions, and that the plugin has no other configuration.
func (c *Cluster) checkPodSecurity(r *findings) {
	p := c.Spec.Identity.PodSecurity
	if p == nil {
		return
	}
	for _, v := range []struct{ key, text string }{{"enforceVersion", p.EnforceVersion}, {"auditVersion", p.AuditVersion}, {"warnVersion", p.WarnVersion}} {
		own := "v" + release.MinorOf(c.Spec.Kubernetes.Version)
		switch at := podSecurityAt + "." + v.key; {
		case v.text == "" || v.text == "latest":
		case !levelVersion.MatchString(v.text):
			r.Add(at, strict.Quote(v.text)+" is not a version of the levels", "write latest, or a minor as "+own)
		case newerMinor(v.text, own):
			r.Add(at, v.text+" is newer than the cluster's release", "write latest, or a minor up to "+own, "spec.kubernetes.version")
		}
	}
	p.Exemptions.check(r)
	a := c.Spec.Kubernetes.APIServer
	const elsewhere = "remove one of them: spec.identity.podSecurity writes the configuration of the admission plugin"
	if slices.Contains(a.DisableAdmissionPlugins, podSecurityPlugin) {
		r.Add(podSecurityAt, "the admission plugin PodSecurity is switched off by spec.kubernetes.apiServer.disableAdmissionPlugins", elsewhere, podSecurityAt, "spec.kubernetes.apiServer.disableAdmissionPlugins")
	}
	if slices.Contains(admissionPlugins(a.AdmissionConfig), podSecurityPlugin) {
		r.Add(podSecurityAt, "spec.kubernetes.apiServer.admissionConfig configures the admission plugin PodSecurity, too", elsewhere, podSecurityAt, "spec.kubernetes.apiServer.admissionConfig")
	}
}

// newerMinor compares "v1.37" and "v1.36".
func newerMinor(a, b string) bool { return release.Compare(a+".0", b+".0") > 0 }

// admissionPlugins lists the plugins that an AdmissionConfiguration configures. A text that is not one is reported elsewhere.
func admissionPlugins(text string) (names []string) {
	docs, err := strict.Documents([]byte(text))
	if err != nil || len(docs) != 1 {
		return nil
	}
	if plugins := child(docs[0], "plugins"); plugins != nil {
		for _, p := range plugins.Content {
			names = append(names, valueOf(p, "name"))
		}
	}
	return names
}

func (e PodSecurityExemptions) check(r *findings) {
	const at = podSecurityAt + ".exemptions"
	list := func(key string, items []string, problem func(string) (string, string)) {
		for i, item := range items {
			p := strict.Item(at+"."+key, i)
			if text, hint := problem(item); text != "" {
				r.Add(p, strict.Quote(item)+" "+text, hint)
			} else if first := slices.Index(items, item); first < i {
				r.Add(p, fmt.Sprintf("%s is already listed, at %s[%d]", strict.Quote(item), key, first), "remove it")
			}
		}
	}
	list("namespaces", e.Namespaces, func(n string) (string, string) {
		switch {
		case strings.ContainsAny(n, "*?"):
			return "is a pattern, and API servers compare whole names", "list each namespace, or label it pod-security.kubernetes.io/enforce: privileged"
		case len(validation.IsDNS1123Label(n)) > 0:
			return "is not the name of a namespace", ""
		}
		return "", ""
	})
	list("usernames", e.Usernames, func(n string) (string, string) {
		switch {
		case strings.TrimSpace(n) == "" || strings.TrimSpace(n) != n:
			return "is not the name of a user", "write it as Kubernetes knows it: corp:alice"
		case controllerAccount.MatchString(n):
			return "creates the pods of all users' workloads: nobody's would be checked", "exempt the namespaces of the workloads"
		}
		return "", ""
	})
	list("runtimeClasses", e.RuntimeClasses, func(n string) (string, string) {
		if len(validation.IsDNS1123Subdomain(n)) > 0 {
			return "is not the name of a runtime class", ""
		}
		return "", ""
	})
}
