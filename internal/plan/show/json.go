package show

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

// planJSON is the plan as `naupegos plan -o json` prints it. Fields may be added, but never renamed or given another meaning.
type planJSON struct {
	Verb       string              `json:"verb"`
	Title      string              `json:"title,omitempty"`   // the verb with its arguments
	Subject    string              `json:"subject,omitempty"` // what the verb acts on: machines, a pool, a backup
	Cluster    string              `json:"cluster"`
	Changes    bool                `json:"changes"`                   // false: nothing to do
	Summary    map[plan.Action]int `json:"summary"`                   // number of steps by action; actions without steps are absent
	Consents   []string            `json:"consents"`                  // all consents that the plan requires, sorted
	Disruption plan.Disruption     `json:"disruption"`                // the highest class among the steps
	Warnings   []string            `json:"warnings"`                  // odd but possible wishes, for people
	LeftOut    []string            `json:"leftOut"`                   // further work, for people: the plan covers only a part of the cluster
	Document   []delta.Delta       `json:"document"`                  // the fields in which the document differs from the one that was applied last
	Estimate   float64             `json:"estimateSeconds,omitempty"` // expected duration, based on earlier runs of equal steps; absent: unknown
	Steps      []stepJSON          `json:"steps"`                     // in the order of planning; needs define the order of execution
}

type stepJSON struct {
	ID             string          `json:"id"`
	Action         plan.Action     `json:"action"`
	Title          string          `json:"title"`
	Subject        string          `json:"subject"`
	Reason         string          `json:"reason,omitempty"`
	Details        []string        `json:"details,omitempty"`
	Differences    []delta.Delta   `json:"differences,omitempty"` // the changes with their content; secrets are masked
	Stage          plan.Stage      `json:"stage,omitempty"`       // the phase of the plan that it belongs to
	Needs          []string        `json:"needs,omitempty"`
	Consent        string          `json:"consent,omitempty"`
	Disruption     plan.Disruption `json:"disruption"`
	Announces      plan.Disruption `json:"announces,omitempty"`      // the highest class of later plans of the same command
	TimeoutSeconds float64         `json:"timeoutSeconds,omitempty"` // absent: the default
}

// JSON returns a plan as JSON in a stable form: all fields are present, in the same order.
func JSON(p *plan.Plan) json.Marshaler { return newPlanJSON(p) }

// Agreed returns the part of a plan that an agreement covers: JSON without details that may change while the plan stays the same, namely the estimate
// and modification times of files.
func Agreed(p *plan.Plan) json.Marshaler {
	out := newPlanJSON(p)
	out.Estimate = 0
	for i := range out.Steps {
		out.Steps[i].Differences = slices.Clone(out.Steps[i].Differences)
		for j := range out.Steps[i].Differences {
			d := &out.Steps[i].Differences[j]
			d.Modified, d.ByHand = time.Time{}, false
		}
	}
	return out
}

func newPlanJSON(p *plan.Plan) *planJSON {
	out := &planJSON{
		Verb: p.Verb, Title: p.Title, Subject: p.Subject, Cluster: p.Cluster, Changes: !p.Empty(), Summary: p.Counts(),
		Consents: p.MissingConsents(nil), Disruption: p.Disruption(), Warnings: p.Warnings, LeftOut: p.LeftOut, Steps: make([]stepJSON, 0, len(p.Steps)),
		Document: p.Document, Estimate: p.Estimate.Round(time.Millisecond).Seconds(),
	}
	if out.Document == nil {
		out.Document = []delta.Delta{}
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	if out.LeftOut == nil {
		out.LeftOut = []string{}
	}
	if out.Consents == nil {
		out.Consents = []string{}
	}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, stepJSON{
			ID: s.ID, Action: s.Action, Title: s.Title, Subject: s.Subject, Reason: s.Reason, Details: s.Details, Differences: s.Deltas, Stage: s.Stage,
			Needs: s.Needs, Consent: s.Consent, Disruption: s.Disruption(), Announces: s.Announces, TimeoutSeconds: s.Timeout.Round(time.Millisecond).Seconds(),
		})
	}
	return out
}

// MarshalJSON encodes the plan the same way everywhere: alone, or through an encoder that does not escape < and >.
func (p *planJSON) MarshalJSON() ([]byte, error) {
	type fields planJSON
	return json.Marshal((*fields)(p))
}

// Parse returns the plan that was encoded by JSON. It can be shown and compared but not executed, because its steps have no Run.
func Parse(data []byte) (*plan.Plan, error) {
	var in planJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read a plan")
	}
	return in.plan(), nil
}

func (p *planJSON) plan() *plan.Plan {
	out := &plan.Plan{Verb: p.Verb, Title: p.Title, Subject: p.Subject, Cluster: p.Cluster, Final: p.Disruption == plan.Final, Warnings: p.Warnings, LeftOut: p.LeftOut,
		Document: p.Document, Estimate: time.Duration(p.Estimate * float64(time.Second))}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, &plan.Step{
			ID: s.ID, Action: s.Action, Title: s.Title, Subject: s.Subject, Reason: s.Reason, Details: s.Details, Deltas: s.Differences, Stage: s.Stage, Needs: s.Needs, Consent: s.Consent,
			Rolling: s.Disruption == plan.Rolling, Removes: s.Disruption == plan.Removing, Announces: s.Announces,
			Timeout: time.Duration(s.TimeoutSeconds * float64(time.Second)),
		})
	}
	return out
}
