package show

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
)

// Unsaid returns a plan for a command that ends with an error: without the warnings whose cause the error states again; nil: the plan itself.
func Unsaid(p *plan.Plan, said error) *plan.Plan {
	if said == nil {
		return p
	}
	out := *p
	out.Warnings = slices.DeleteFunc(slices.Clone(p.Warnings), func(w string) bool {
		_, cause, found := strings.Cut(w, ": ")
		return found && strings.Contains(said.Error(), cause)
	})
	return &out
}
