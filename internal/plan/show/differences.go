package show

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Differences compares a plan with one that was saved as JSON: actions, subjects, reasons, consents and order. It returns one line per difference:
// "-" was saved and is missing now, "+" is new, "~" has changed. If there are none, executing one plan is the same as executing the other.
func Differences(p *plan.Plan, saved []byte) ([]string, error) {
	var was, is planJSON
	if err := json.Unmarshal(saved, &was); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the saved plan")
	}
	now, err := json.Marshal(JSON(p))
	if err == nil {
		err = json.Unmarshal(now, &is)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "compare the plans")
	}
	var out []string
	if was.Verb != is.Verb || was.Cluster != is.Cluster {
		out = append(out, fmt.Sprintf("~ %s of cluster %s, not %s of cluster %s", is.Verb, is.Cluster, was.Verb, was.Cluster))
	}
	steps := map[string]stepJSON{}
	for _, s := range is.Steps {
		steps[s.ID] = s
	}
	for _, s := range was.Steps {
		if now, ok := steps[s.ID]; ok {
			if was.Document == nil { // an earlier naupegos saved it, without contents
				now.Differences, s.Differences = nil, nil
			}
			out = append(out, s.differences(now)...)
		} else {
			out = append(out, "- "+s.line())
		}
		delete(steps, s.ID)
	}
	for _, s := range is.Steps {
		if _, ok := steps[s.ID]; ok {
			out = append(out, "+ "+s.line())
		}
	}
	return out, nil
}

func (s stepJSON) line() string {
	text := string(s.Action) + ": " + words.Line(s.Title)
	if s.Reason != "" {
		text += "  (" + words.Line(s.Reason) + ")"
	}
	return text
}

// differences returns the fields in which a step has changed.
func (s stepJSON) differences(now stepJSON) []string {
	var out []string
	differ := func(what, was, is string) {
		if was != is {
			out = append(out, fmt.Sprintf("~ %s: %s was %q, is %q", words.Line(s.Title), what, words.Line(was), words.Line(is)))
		}
	}
	differ("its action", string(s.Action), string(now.Action))
	differ("its title", s.Title, now.Title)
	differ("its subject", s.Subject, now.Subject)
	differ("the reason", s.Reason, now.Reason)
	differ("the consent it needs", s.Consent, now.Consent)
	differ("its disruption", string(s.Disruption), string(now.Disruption))
	differ("what it waits for", strings.Join(s.Needs, ", "), strings.Join(now.Needs, ", "))
	for _, d := range unlike(s, now) {
		out = append(out, "- "+words.Line(s.Title)+": "+words.Line(d.Line()))
	}
	for _, d := range unlike(now, s) {
		out = append(out, "+ "+words.Line(s.Title)+": "+words.Line(d.Line()))
	}
	for _, d := range s.Details {
		if !slices.Contains(now.Details, d) {
			out = append(out, "- "+words.Line(s.Title)+": "+words.Line(d))
		}
	}
	for _, d := range now.Details {
		if !slices.Contains(s.Details, d) {
			out = append(out, "+ "+words.Line(s.Title)+": "+words.Line(d))
		}
	}
	return out
}

// unlike returns the differences of s that o shows differently. Differences that o lacks entirely are already covered by the Details.
func unlike(s, o stepJSON) (out []delta.Delta) {
	for _, d := range s.Differences {
		same := slices.ContainsFunc(o.Differences, func(p delta.Delta) bool { return d.Same(&p) })
		if !same && slices.Contains(s.Details, d.Detail()) == slices.Contains(o.Details, d.Detail()) {
			out = append(out, d)
		}
	}
	return out
}
