package cluster

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// actionFor reports whether a machine is configured for the first time. One that runs and could not be examined may well be configured.
func actionFor(s *Seen) plan.Action {
	switch {
	case s == nil:
		return plan.Create
	case s.Report == nil && s.Err != nil && s.Machine.MayRun():
		return plan.Change
	case s.Report == nil:
		return plan.Create
	}
	for _, ch := range s.Report.Changes {
		if ch.Action != "create" && ch.Action != "start" && ch.Action != "enable" {
			return plan.Change
		}
	}
	return plan.Create
}

// reasonFor says why a machine is configured.
func reasonFor(s *Seen, fresh bool) string {
	switch {
	case s == nil:
		return "it is new"
	case s.Machine.State == provider.Unreachable:
		return "it does not answer: " + s.Machine.Detail
	case s.Machine.State != provider.Running:
		return "it is " + string(s.Machine.State)
	case fresh:
		return "its machine is made or started"
	case s.Err != nil:
		return "it could not be examined: " + s.Err.Error()
	case s.Report == nil:
		return "it is not configured yet"
	}
	return "it differs from what the document says"
}

func details(s *Seen) []string {
	if s == nil {
		return nil
	}
	return describe(s.Report)
}

func join(parts []string) string { return strings.Join(parts, ",") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
