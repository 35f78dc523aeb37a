package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/testkit"
)

func goodWebhook() v1.WebhookConfiguration {
	d := metav1.Duration{Duration: time.Second}
	return v1.WebhookConfiguration{AuthorizedTTL: d, UnauthorizedTTL: d, Timeout: d, SubjectAccessReviewVersion: "v1", MatchConditionSubjectAccessReviewVersion: "v1",
		FailurePolicy: "NoOpinion", MatchConditions: []v1.WebhookMatchCondition{{Expression: "!request.user.startsWith('system:')"}}}
}

// TestCheckWebhooks: API servers' own validation runs here, and each of its findings becomes one line.
func TestCheckWebhooks(t *testing.T) {
	if got := testkit.Value(identity.CheckWebhooks([]v1.WebhookConfiguration{goodWebhook()}))(t); len(got) != 0 {
		t.Fatalf("a good webhook: %v", got)
	}
	for name, c := range map[string]struct {
		change func(*v1.WebhookConfiguration)
		want   []identity.Problem
	}{
		"timeout": {func(w *v1.WebhookConfiguration) { w.Timeout.Duration = time.Minute }, []identity.Problem{{Field: "webhooks[1].timeout", Text: "must be > 0s and <= 30s"}}},
		"no such variable": {func(w *v1.WebhookConfiguration) { w.MatchConditions[0].Expression = "user == 'a'" },
			[]identity.Problem{{Field: "webhooks[1].matchConditions[0].expression", Text: "is no CEL expression: undeclared reference to 'user' (in container '') (column 1)"}}},
		"not true or false": {func(w *v1.WebhookConfiguration) { w.MatchConditions[0].Expression = "request.user" },
			[]identity.Problem{{Field: "webhooks[1].matchConditions[0].expression", Text: "must evaluate to bool but got string"}}},
		"failure policy": {func(w *v1.WebhookConfiguration) { w.FailurePolicy = "Ignore" }, []identity.Problem{{Field: "webhooks[1].failurePolicy", Text: `supported values: "NoOpinion", "Deny"`}}},
	} {
		w := goodWebhook()
		c.change(&w)
		if d := cmp.Diff(c.want, testkit.Value(identity.CheckWebhooks([]v1.WebhookConfiguration{goodWebhook(), w}))(t)); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

// TestAuthorizationConfig: Node and RBAC come before any webhook.
func TestAuthorizationConfig(t *testing.T) {
	got := string(testkit.Value(identity.AuthorizationConfig([]identity.Webhook{{Name: "site", Kubeconfig: "/etc/x.yaml", Config: goodWebhook()}}))(t))
	node, rbac, site := strings.Index(got, "type: Node"), strings.Index(got, "type: RBAC"), strings.Index(got, "type: Webhook")
	if node < 0 || rbac < node || site < rbac || !strings.Contains(got, "kubeConfigFile: /etc/x.yaml") || !strings.HasPrefix(got, "apiVersion: apiserver.config.k8s.io/v1\n") {
		t.Errorf("the configuration is\n%s", got)
	}
}
