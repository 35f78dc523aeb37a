package show

import (
	"errors"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
)

func TestUnsaid(t *testing.T) {
	p := &plan.Plan{Warnings: []string{"apply does not begin before this is fixed: a: it is down", "the backup is old: a month", "plain"}}
	if got := Unsaid(p, nil); len(got.Warnings) != 3 {
		t.Errorf("without an error: %q", got.Warnings)
	}
	got := Unsaid(p, errors.New("1 machine can't be used yet: a: it is down"))
	if want := p.Warnings[1:]; !slices.Equal(got.Warnings, want) || len(p.Warnings) != 3 {
		t.Errorf("%q, want %q", got.Warnings, want)
	}
}
