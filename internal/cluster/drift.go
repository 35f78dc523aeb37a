package cluster

import (
	"slices"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// consentReplace is what the user must consent to before machines are replaced because the document's shape of them changed.
const consentReplace = "replace-machines"

// Consents lists the names of all consents that plans ask for.
func Consents() []string { return []string{provider.ConsentAddresses, ConsentBundle, consentReplace} }

// drifted reports which of the wanted machines differ from the document in ways that only another machine mends, and how.
func (c *Cluster) drifted(o *Observed) (map[string][]string, error) {
	d, ok := c.prov.(provider.Drifter)
	if !ok || !c.facts.Bootstrapped() {
		return nil, nil
	}
	want, err := c.wantedMachines(o.Want)
	if err != nil {
		return nil, err
	}
	return d.Drift(want, o.Inventory), nil
}

// askConsent marks a step that removes a machine which drifted, and says how.
func askConsent(s *plan.Step, how []string) *plan.Step {
	if how == nil || s.Action != plan.Destroy && s.Action != plan.Replace {
		return s
	}
	marked := *s
	marked.Consent = consentReplace
	if s.Action == plan.Replace {
		marked.Details = append(slices.Clone(s.Details), how...)
	}
	return &marked
}
