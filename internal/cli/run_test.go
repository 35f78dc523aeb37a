package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// TestAgree: with --yes, too, the plan and its warnings are shown in the form of the progress.
func TestAgree(t *testing.T) {
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{{ID: "a", Action: plan.Create, Title: "make a", Subject: "a"}}, Warnings: []string{"it is odd"}}
	var said bytes.Buffer
	a := &App{In: strings.NewReader(""), Err: &said}
	agree := func(flags *runFlags) error {
		f := front{app: a, flags: flags}
		if err := f.Show(p, "There may be more."); err != nil {
			return err
		}
		return f.Agree(carryOut)
	}
	if err := agree(&runFlags{yes: true}); err != nil || !strings.Contains(said.String(), "make a") || !strings.Contains(said.String(), "Warning: it is odd\n") || !strings.HasSuffix(said.String(), "There may be more.\n") {
		t.Errorf("%q, %v", said.String(), err)
	}
	said.Reset()
	var line struct {
		Event string
		Plan  struct{ Steps []struct{ Title string } }
	}
	if err := agree(&runFlags{yes: true, progress: "json"}); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal(said.Bytes(), &line); err != nil || line.Event != "plan" || line.Plan.Steps[0].Title != "make a" {
		t.Errorf("%q, %v", said.String(), err)
	}
	said.Reset()
	err := agree(&runFlags{})
	if fail.KindOf(err) != fail.Refused || !strings.Contains(said.String(), "make a") || !strings.Contains(said.String(), "Warning: it is odd") {
		t.Errorf("%q, %v", said.String(), err)
	}
}

// TestConsentFlag: the flag takes names one by one, or several at once.
func TestConsentFlag(t *testing.T) {
	var f runFlags
	c := &cobra.Command{}
	f.bind(c)
	if err := c.ParseFlags([]string{"--consent", "replace-machines", "--consent=give-up-addresses,replace-machines=demo-a-1"}); err != nil {
		t.Fatal(err)
	}
	if got := f.consents.String(); got != "replace-machines,give-up-addresses,replace-machines=demo-a-1" {
		t.Errorf("consent is given to %s", got)
	}
	if err := c.ParseFlags([]string{"--consent", "replace-nodes=demo-a-1"}); err == nil {
		t.Error("an unknown kind is taken")
	}
}
