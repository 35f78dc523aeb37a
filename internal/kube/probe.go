package kube

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// Ask sends one cheap request that the API server answers from etcd, like a user's request. /readyz would not do: it fails while a server that stops
// still answers.
func Ask(ctx context.Context, c *Client) error {
	_, err := c.set.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return apiError(ctx, err, "ask the API for a namespace").At(c.server)
	}
	return nil
}

// podPage is how many pods Restarts reads at once.
const podPage = "500"

// Restarts returns how often the containers of each pod were restarted, by the pod's UID. It leaves out static pods, which machines run.
func Restarts(ctx context.Context, c *Client) (map[string]int, error) {
	out, next := map[string]int{}, ""
	for {
		raw, err := c.set.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").Param("limit", podPage).Param("continue", next).DoRaw(ctx)
		if err != nil {
			return nil, apiError(ctx, err, "list pods").At(c.server)
		}
		var pods podRestarts
		if err := json.Unmarshal(raw, &pods); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read pods").At(c.server)
		}
		for _, p := range pods.Items {
			if p.Metadata.Annotations[corev1.MirrorPodAnnotationKey] != "" {
				continue
			}
			n := 0
			for _, s := range p.Status.ContainerStatuses {
				n += s.RestartCount
			}
			out[p.Metadata.UID] = n
		}
		if next = pods.Metadata.Continue; next == "" {
			return out, nil
		}
	}
}

// podRestarts is the part of a list of pods that Restarts reads.
type podRestarts struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			ContainerStatuses []struct {
				RestartCount int `json:"restartCount"`
			} `json:"containerStatuses"`
		} `json:"status"`
	} `json:"items"`
}
