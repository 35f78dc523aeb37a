package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
)

// TestRenewalOnALivingCluster moves the clock: when certificates are due, control-plane machines get new ones, one machine at a time with
// a gate after each, and once they have them there is nothing to do.
func TestRenewalOnALivingCluster(t *testing.T) {
	doc := document(t, 3, 2, 1)
	l := newLab(t, doc)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l.PKI = pki.Open(l.Secrets, pki.Options{Now: func() time.Time { return now }})
	l.Running(doc)
	const month = 30 * 24 * time.Hour
	now = now.Add(7 * month) // of a year; certificates are renewed in its last third
	if got := l.mustPlan(l.observed(nil, controlPlanes(3)...)); got != "" {
		t.Errorf("certificates that are good for five months more are renewed:\n%s", got)
	}
	now = now.Add(2 * month)
	l.PKI.HoldRenewals(true)
	if got := l.mustPlan(l.observed(nil, controlPlanes(3)...)); got != "" {
		t.Errorf("certificates are renewed that were to stay:\n%s", got)
	}
	l.PKI.HoldRenewals(false)
	got := l.mustPlan(l.observed(nil, controlPlanes(3)...))
	for _, want := range []string{
		"change  configure/demo-cp-1  (", "wait    health/demo-cp-1  <- configure/demo-cp-1",
		"change  configure/demo-cp-2  <- health/demo-cp-1", "change  configure/demo-cp-3  <- health/demo-cp-2", "wait    health/demo-cp-3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the plan lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "demo-gw-") {
		t.Errorf("gateways have no certificates of their own, and are touched:\n%s", got)
	}
	l.Configure(doc, l.Known())
	if got := l.mustPlan(l.observed(nil, controlPlanes(3)...)); got != "" {
		t.Errorf("after the renewal there is still to do:\n%s", got)
	}
}
