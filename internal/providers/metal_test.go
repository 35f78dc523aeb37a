package providers

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNewestSystem: the last one of the release, or the one that is named, if that is of the release.
func TestNewestSystem(t *testing.T) {
	id := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	all := []order.System{{ID: id("a"), Kubernetes: "v1.37.2"}, {ID: id("b"), Kubernetes: "v1.37.2+openstack"}, {ID: id("c"), Kubernetes: "v1.36.4"}, {ID: id("d"), Kubernetes: "v1.37.20"}}
	for _, test := range []struct{ version, named, want, why string }{
		{"v1.37.2", "", id("b"), ""},
		{"v1.37.2", id("a"), id("a"), ""},
		{"v1.36.4", "", id("c"), ""},
		{"v1.35.8", "", "", "naupegos image system --kubernetes v1.35.8"},
		{"v1.36.4", id("a"), "", "is of v1.37.2, and the cluster is to run v1.36.4"},
		{"v1.36.4", id("f"), "", "there is no system image " + id("f")},
	} {
		s, err := newest(all, test.version, test.named, "/systems")
		if test.why != "" {
			testkit.Fails(t, err, fail.Refused, test.why)
		} else if err != nil || s.ID != test.want {
			t.Errorf("%+v: %s, %v", test, s.ID, err)
		}
	}
}
