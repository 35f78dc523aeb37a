package kube

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReadyEndpoints returns the number of ready endpoints of a Service.
func (c *Client) ReadyEndpoints(ctx context.Context, namespace, service string) (int, error) {
	slices, err := c.set.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return 0, apiError(ctx, err, "list the endpoints of Service %s/%s", namespace, service).At(c.server)
	}
	n := 0
	for i := range slices.Items {
		for _, e := range slices.Items[i].Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready { // nil counts as ready (discovery/v1, EndpointConditions)
				n++
			}
		}
	}
	return n, nil
}
