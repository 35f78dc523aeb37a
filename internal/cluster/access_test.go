package cluster

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestWayInNeedsHostKey wants a gateway that has not told its host keys yet, as one whose console is still empty, to be waited for
// rather than refused.
func TestWayInNeedsHostKey(t *testing.T) {
	doc := document(t, 1, 2, 1)
	l := newLab(t, doc).running(doc)
	if _, err := l.Host(t.Context(), "demo-a-1"); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("without any host key: %v", err)
	}
	gw := l.cloud.machines["demo-gw-2"]
	gw.HostKeys = []string{"ssh-ed25519 AAAA"}
	l.cloud.machines["demo-gw-2"] = gw
	h, err := l.Host(t.Context(), "demo-a-1")
	if err != nil || len(h.Via) != 1 || h.Via[0].Name != "demo-gw-2" {
		t.Errorf("with one: via %v: %v", h.Via, err)
	}
}
