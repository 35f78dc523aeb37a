package objects

import (
	"strings"
	"testing"
)

const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: shop}\ndata: {a: x}\n"
	keptClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop, annotations: {helm.sh/resource-policy: keep}}\n"
)

// TestKeep: objects with helm.sh/resource-policy keep stay, whether they or their set leave the document, and no longer belong to the set.
func TestKeep(t *testing.T) {
	o := Options{Addon: "charts.shop", Prune: true, Shared: true}
	for _, whole := range []bool{false, true} {
		s := newSea(t)
		s.apply(t, configMap+"---\n"+keptClaim, o)
		if whole {
			going, stays, _, err := s.Departing(t.Context(), o.Addon)
			if err != nil || len(going) != 1 || len(stays) != 1 || stays[0].Kind != "PersistentVolumeClaim" {
				t.Errorf("departing: %v, stays %v: %v", going, stays, err)
			}
			if err := s.Delete(t.Context(), nil, o); err != nil {
				t.Fatal(err)
			}
		} else {
			if f := s.examine(t, configMap, o); f.Clean() || len(f.Pruned) != 0 || !strings.Contains(words(f), "PersistentVolumeClaim shop/data") || !strings.Contains(words(f), "stays") {
				t.Errorf("pruned %v:\n%s", f.Pruned, words(f))
			}
			s.apply(t, configMap, o)
			if f := s.examine(t, configMap, o); !f.Clean() {
				t.Errorf("afterwards:\n%s", words(f))
			}
		}
		if u := s.live(t, keptClaim); u == nil || u.GetLabels()[AddonLabel] != "" || u.GetAnnotations()[DigestAnnotation] != "" {
			t.Errorf("whole %t: the claim is %v", whole, u)
		}
		if gone := s.live(t, configMap) == nil; gone != whole {
			t.Errorf("whole %t: the ConfigMap is gone: %t", whole, gone)
		}
	}
}
