//go:build !killpoints

package cli

import "github.com/naupegos/naupegos/internal/plan"

// killPoint is for crash tests only, which are built with the tag killpoints.
func killPoint() func(string, plan.Phase) { return nil }
