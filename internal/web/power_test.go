package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/testkit"
)

// switched records the power actions.
type switched []string

// Power implements registry.Power.
func (s *switched) Power(_ context.Context, a bmc.Access, action, boot string) (bool, error) {
	*s = append(*s, strings.TrimSpace(strings.Join([]string{a.Address, action, boot}, " ")))
	return action != "off", nil
}

func TestPower(t *testing.T) {
	s := newSite(t)
	uuid, own := s.discover(1), []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	path := "/ui/machines/" + uuid
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, "naupegos machine bmc "+uuid) || strings.Contains(a.body, path+"/power") {
		t.Error("a machine without a BMC can be switched, or the page does not say how it could")
	}
	testkit.Value(s.pages.c.Machines.SetBMC(t.Context(), uuid, registry.BMC{Address: "192.0.2.7", User: "root"}, []byte("s3cret-word")))(t)
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, path+"/power") || !strings.Contains(a.body, "naupegos machine power "+uuid+" cycle") || strings.Contains(a.body, "s3cret-word") {
		t.Errorf("the page of a machine with a BMC: %s", a.body)
	}
	for _, c := range []struct {
		token string
		form  url.Values
		code  int
	}{
		{s.admin, url.Values{"action": {"cycle"}, "boot": {"network"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"off"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"explode"}}, http.StatusBadRequest},
		{s.reader, url.Values{"action": {"off"}}, http.StatusForbidden},
	} {
		if a := s.ask("POST", path+"/power", c.token, c.form, own...); a.code != c.code {
			t.Errorf("%v: %d, want %d", c.form, a.code, c.code)
		}
	}
	if want := []string{"192.0.2.7 cycle network", "192.0.2.7 off"}; !slices.Equal(s.switched, want) {
		t.Errorf("switched %q, want %q", s.switched, want)
	}
}

func TestHalted(t *testing.T) {
	steps := []plan.StepRecord{{Title: "drain w1", State: plan.Succeeded}, {Title: "w1 is ready", State: plan.Failed, Err: "kubelet does not answer"}, {Title: "uncordon w1"}, {Title: "drain w2"}}
	if h := haltedOf(&plan.RunRecord{Steps: steps}); h.Step != "w1 is ready" || h.Why != "kubelet does not answer" || h.Left != 2 {
		t.Errorf("a gate that failed: %+v", h)
	}
	if h := haltedOf(&plan.RunRecord{Steps: steps[:1]}); h.Step != "" || h.Left != 0 {
		t.Errorf("a run that was stopped: %+v", h)
	}
}
