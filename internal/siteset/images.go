package siteset

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/chart"
)

// Images lists the images of a rendered set and of its hooks, each once, sorted.
func Images(r chart.Rendered) []string {
	all := slices.Clone(r.Objects)
	for _, h := range slices.Concat(r.Before, r.After) {
		all = append(all, h.Object)
	}
	var out []string
	for _, u := range all {
		for _, at := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"template", "spec"}} {
			pod, ok, _ := unstructured.NestedMap(u.Object, at...)
			if !ok {
				continue
			}
			for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
				containers, _ := pod[list].([]any)
				for _, c := range containers {
					m, _ := c.(map[string]any)
					if image, _ := m["image"].(string); image != "" && !slices.Contains(out, image) {
						out = append(out, image)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
