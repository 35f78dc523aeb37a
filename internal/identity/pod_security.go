package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// PodSecurityPlugin is the name of the admission plugin.
const PodSecurityPlugin = "PodSecurity"

// PodSecurity is the configuration of the admission plugin PodSecurity: levels with their versions, and exemptions.
type PodSecurity struct {
	Enforce, EnforceVersion               string
	Audit, AuditVersion                   string
	Warn, WarnVersion                     string
	Namespaces, Usernames, RuntimeClasses []string
}

var levelVersion = regexp.MustCompile(`^v1\.(0|[1-9][0-9]{0,3})$`)

// controllerAccount matches the service accounts of Kubernetes' own controllers.
var controllerAccount = regexp.MustCompile(`^system:serviceaccount:kube-system:[a-z-]*controller$`)

// Check returns the faults of versions and exemptions. own is the minor of the API servers: "v1.37".
func (p PodSecurity) Check(own string) (all []Problem) {
	for _, v := range []struct{ field, text string }{{"enforceVersion", p.EnforceVersion}, {"auditVersion", p.AuditVersion}, {"warnVersion", p.WarnVersion}} {
		switch {
		case v.text == "" || v.text == "latest":
		case !levelVersion.MatchString(v.text):
			all = append(all, Problem{v.field, strconv.Quote(v.text) + " is not a version of the levels", "write latest, or a minor as " + own})
		case minorOf(v.text) > minorOf(own):
			all = append(all, Problem{v.field, v.text + " is newer than the cluster's release", "write latest, or a minor up to " + own})
		}
	}
	for _, list := range []struct {
		field   string
		items   []string
		problem func(string) (text, hint string)
	}{{"namespaces", p.Namespaces, exemptNamespace}, {"usernames", p.Usernames, exemptUser}, {"runtimeClasses", p.RuntimeClasses, exemptClass}} {
		for i, item := range list.items {
			field := fmt.Sprintf("exemptions.%s[%d]", list.field, i)
			if text, hint := list.problem(item); text != "" {
				all = append(all, Problem{field, strconv.Quote(item) + " " + text, hint})
			} else if first := slices.Index(list.items, item); first < i {
				all = append(all, Problem{field, fmt.Sprintf("%q is already listed, at %s[%d]", item, list.field, first), "remove it"})
			}
		}
	}
	return all
}

// minorOf returns 37 of "v1.37".
func minorOf(version string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(version, "v1."))
	if err != nil {
		return 0
	}
	return n
}

func exemptNamespace(name string) (text, hint string) {
	switch {
	case strings.ContainsAny(name, "*?"):
		return "is a pattern, and API servers compare whole names", "list each namespace, or label it pod-security.kubernetes.io/enforce: privileged"
	case len(validation.IsDNS1123Label(name)) > 0:
		return "is not the name of a namespace", ""
	}
	return "", ""
}

func exemptUser(name string) (text, hint string) {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return "is not the name of a user", "write it as Kubernetes knows it: corp:alice"
	case controllerAccount.MatchString(name):
		return "creates the pods of all users' workloads: none would be checked", "exempt the namespaces of the workloads"
	}
	return "", ""
}

func exemptClass(name string) (text, hint string) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "is not the name of a runtime class", ""
	}
	return "", ""
}

// exempt are namespaces of components of the cluster that need rights which only the level privileged gives.
var exempt = []string{"kube-system"}

// AdmissionConfig returns an AdmissionConfiguration with the plugins of base, which may be empty, and with PodSecurity.
func AdmissionConfig(base string, p PodSecurity) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(base), &config); err != nil {
		return "", fail.Wrap(fail.Internal, err, "read the AdmissionConfiguration")
	}
	if len(config) == 0 {
		config = map[string]any{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
	}
	namespaces := slices.Clone(exempt)
	for _, n := range p.Namespaces {
		if !slices.Contains(namespaces, n) {
			namespaces = append(namespaces, n)
		}
	}
	exemptions := map[string]any{"namespaces": namespaces}
	if len(p.Usernames) > 0 {
		exemptions["usernames"] = p.Usernames
	}
	if len(p.RuntimeClasses) > 0 {
		exemptions["runtimeClasses"] = p.RuntimeClasses
	}
	plugins, _ := config["plugins"].([]any)
	config["plugins"] = append(plugins, map[string]any{"name": PodSecurityPlugin, "configuration": map[string]any{
		"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration", "exemptions": exemptions,
		"defaults": map[string]string{
			"enforce": p.Enforce, "enforce-version": p.EnforceVersion, "audit": p.Audit, "audit-version": p.AuditVersion, "warn": p.Warn, "warn-version": p.WarnVersion,
		},
	}})
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "render the AdmissionConfiguration")
	}
	return string(out), nil
}
