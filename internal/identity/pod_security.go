package identity

import (
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// PodSecurity is the configuration of the admission plugin PodSecurity.
type PodSecurity struct {
	Levels                                map[string]string // of the field defaults: "enforce", "enforce-version", …
	Namespaces, Usernames, RuntimeClasses []string          // exemptions
}

// exempt are namespaces in which components of the cluster run that need rights which no level but privileged gives.
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
	plugins, _ := config["plugins"].([]any)
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
	config["plugins"] = append(plugins, map[string]any{
		"name": "PodSecurity",
		"configuration": map[string]any{
			"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration", "defaults": p.Levels, "exemptions": exemptions,
		},
	})
	out, err := yaml.Marshal(config)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "render the AdmissionConfiguration")
	}
	return string(out), nil
}
