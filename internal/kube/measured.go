package kube

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// measuredPause is the pause between two requests for metrics.
const measuredPause = time.Second

// WaitMeasuredNodes waits until the API metrics.k8s.io returns metrics of a node, bounded by ctx, and returns the number of nodes with metrics.
func WaitMeasuredNodes(ctx context.Context, c *Client) (int, error) {
	n := 0
	err := poll(ctx, measuredPause, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		raw, err := c.set.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(ctx)
		if err != nil {
			return fail.Wrap(fail.NotReady, err, "get the metrics of nodes").At(c.server).Do("look at Deployment kube-system/metrics-server and at APIService v1beta1.metrics.k8s.io")
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil {
			return fail.Wrap(fail.Internal, err, "read the metrics of nodes").At(c.server)
		}
		if n = len(list.Items); n == 0 {
			return fail.New(fail.NotReady, "there are no metrics of nodes yet").At(c.server).Do("look at the log of metrics-server in kube-system: which kubelet does it not reach?")
		}
		return nil
	})
	return n, err
}

// VolumesOf lists the PersistentVolumes of a provisioner as "namespace/claim (volume)", sorted.
func VolumesOf(ctx context.Context, c *Client, provisioner string) ([]string, error) {
	list, err := c.set.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list PersistentVolumes").At(c.server)
	}
	var out []string
	for i := range list.Items {
		v := &list.Items[i]
		if v.Annotations["pv.kubernetes.io/provisioned-by"] != provisioner {
			continue
		}
		name := v.Name
		if r := v.Spec.ClaimRef; r != nil {
			name = r.Namespace + "/" + r.Name + " (" + v.Name + ")"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}
