package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnion(t *testing.T) {
	a := []ref{{"v1", "ConfigMap", "x", "a"}, {"apps/v1beta1", "Deployment", "x", "d"}}
	b := []ref{{"apps/v1", "Deployment", "x", "d"}, {"v1", "ConfigMap", "y", "a"}}
	want := []ref{{"v1", "ConfigMap", "x", "a"}, {"apps/v1", "Deployment", "x", "d"}, {"v1", "ConfigMap", "y", "a"}}
	if d := cmp.Diff(want, union(a, b)); d != "" {
		t.Error(d)
	}
}
