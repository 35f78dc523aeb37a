package identity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/apiserver"
	v1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authorization/cel"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Webhook is a service that API servers ask for authorization.
type Webhook struct {
	Name       string
	Kubeconfig string // file on the machine with address and credentials
	Config     v1.WebhookConfiguration
}

// AuthorizationConfig returns the AuthorizationConfiguration of API servers with these webhooks. Node and RBAC come first, so that the cluster's own
// components depend on no webhook.
func AuthorizationConfig(webhooks []Webhook) ([]byte, error) {
	c := v1.AuthorizationConfiguration{Authorizers: []v1.AuthorizerConfiguration{{Type: "Node", Name: "node"}, {Type: "RBAC", Name: "rbac"}}}
	c.APIVersion, c.Kind = v1.SchemeGroupVersion.String(), "AuthorizationConfiguration"
	for _, w := range webhooks {
		config := w.Config
		config.ConnectionInfo = v1.WebhookConnectionInfo{Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &w.Kubeconfig}
		c.Authorizers = append(c.Authorizers, v1.AuthorizerConfiguration{Type: "Webhook", Name: w.Name, Webhook: &config})
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the authorization webhooks")
	}
	return out, nil
}

// CheckWebhooks returns the problems that API servers find in webhooks, by their own validation. Fields begin with "webhooks[N].".
func CheckWebhooks(webhooks []v1.WebhookConfiguration) ([]Problem, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiserver.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "prepare the check of authorization webhooks")
		}
	}
	var all []Problem
	for i := range webhooks {
		var w apiserver.WebhookConfiguration
		if err := scheme.Convert(&webhooks[i], &w, nil); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "prepare the check of authorization webhooks")
		}
		for _, e := range validation.ValidateWebhookConfiguration(cel.NewDefaultCompiler(), nil, &w) {
			if !strings.HasPrefix(e.Field, "connectionInfo") { // the file is on machines
				all = append(all, Problem{Field: fmt.Sprintf("webhooks[%d].%s", i, e.Field), Text: text(e)})
			}
		}
	}
	return all, nil
}
