package proof

import (
	"context"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// WaitKinds waits until the API serves kinds of resources in a version ("snapshot.storage.k8s.io/v1"), bounded by ctx.
func WaitKinds(ctx context.Context, c *kube.Client, groupVersion string, kinds ...string) error {
	return answer.Poll(ctx, pause, func(ctx context.Context) error {
		raw, err := kube.Set(c).Discovery().RESTClient().Get().AbsPath("/apis/" + groupVersion).DoRaw(ctx)
		if err != nil {
			return awaited(ctx, c, err, "ask which kinds %s has", groupVersion)
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(raw, &list); err != nil {
			return fail.Wrap(fail.Internal, err, "read which kinds %s has", groupVersion).At(c.Server())
		}
		served := map[string]bool{}
		for _, r := range list.APIResources {
			served[r.Kind] = true
		}
		for _, k := range kinds {
			if !served[k] {
				return fail.New(fail.NotReady, "the API does not serve %s of %s yet", k, groupVersion).At(c.Server()).
					Do("look at the conditions of the definition: kubectl get crd -o yaml")
			}
		}
		return nil
	})
}

// WaitLeader waits until an existing pod of an addon holds a lease of its namespace, bounded by ctx, and returns the pod's name. It finds the pods by the label
// app.kubernetes.io/name.
func WaitLeader(ctx context.Context, c *kube.Client, namespace, lease, app string) (string, error) {
	leader := ""
	err := answer.Poll(ctx, pause, func(ctx context.Context) error {
		l, err := kube.Set(c).CoordinationV1().Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
		if err != nil {
			return awaited(ctx, c, err, "get lease %s/%s", namespace, lease).Do("look at the logs of Deployment %s/%s", namespace, app)
		}
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		pods, err := kube.Set(c).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
		if err != nil {
			return kube.APIError(ctx, err, "list the pods of %s", app).At(c.Server())
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && (holder == p.Name || strings.HasPrefix(holder, p.Name+"_")) {
				leader = p.Name
				return nil
			}
		}
		return fail.New(fail.NotReady, "lease %s/%s is held by %q, which is no pod of %s", namespace, lease, holder, app).At(c.Server()).
			Do("look at the logs of Deployment %s/%s", namespace, app)
	})
	return leader, err
}

// awaited gives an error of the API a kind. A resource that the API does not find may still appear.
func awaited(ctx context.Context, c *kube.Client, err error, format string, args ...any) *fail.Error {
	e := kube.APIError(ctx, err, format, args...).At(c.Server())
	if e.Kind == fail.NotFound {
		e.Kind = fail.NotReady
	}
	return e
}
