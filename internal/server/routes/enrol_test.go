package routes_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/discover"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAgentEnrols: the agent's own code asks the server until the machine is approved.
func TestAgentEnrols(t *testing.T) {
	s := newSite(t, registry.Options{})
	key := testkit.Value(facts.NewKey())(t)
	const uuid, mac = "b7f5f93a-b029-475f-b3a4-479ba198cb8a", "52:54:00:e8:32:5b"
	d := &facts.Discovery{Boot: facts.BootInfo{UUID: uuid, MAC: mac, RandomID: "boot-1"}, Interfaces: []facts.Interface{{Name: "eth0", MAC: mac}}, Journal: []string{"a"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan *discover.Enrolled, 1)
	go func() {
		e, err := discover.Enrol(ctx, d, key, discover.Options{Server: s.http, Pause: 10 * time.Millisecond, HTTP: &http.Client{Timeout: time.Minute}})
		if err != nil {
			t.Error(err)
		}
		done <- e
	}()
	testkit.Until(t, time.Minute, 5*time.Millisecond, func() error {
		_, err := s.registry.Approve(t.Context(), uuid, facts.Fingerprint(key.Public()), "ann")
		return err
	})
	e := <-done
	if e == nil || e.UUID != uuid || e.Certificate == "" {
		t.Fatalf("%+v", e)
	}
	if all, _, err := s.registry.Find(t.Context(), metal.Query{Approval: "approved"}); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
