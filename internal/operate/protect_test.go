package operate

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestProtected: the stored document's protect refuses what ends the cluster or shrinks its control plane, whatever the new document says.
func TestProtected(t *testing.T) {
	with := strings.Replace(twoPools, "spec:\n", "spec:\n  protect: true\n", 1)
	fewer := strings.Replace(twoPools, "spec:\n", "spec:\n  controlPlane: {replicas: 1}\n", 1)
	for _, c := range []struct{ verb, was, now, want string }{
		{Destroy, with, with, "can't be destroyed"},
		{Destroy, twoPools, twoPools, ""},
		{"reset", with, with, "can't be reset"},
		{"reset", twoPools, twoPools, ""},
		{Apply, with, fewer, "keeps its control-plane machines"},
		{"node remove", with, fewer, "keeps its control-plane machines"},
		{Apply, twoPools, fewer, ""},
		{Apply, with, twoPools, ""},
		{Apply, fewer, with, ""},
		{"upgrade", with, with, ""},
		{Apply, "", with, ""},
	} {
		err := guarded("demo", c.verb, []byte(c.was), testkit.Value(validation.Parse("test", []byte(c.now)))(t))
		if c.want != "" {
			testkit.Fails(t, err, fail.Refused, c.want)
		} else if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
