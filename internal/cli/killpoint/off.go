//go:build !killpoints

// Package killpoint has tests kill this program at the boundaries of steps. It does nothing unless it is built with the tag killpoints.
package killpoint

import "github.com/naupegos/naupegos/internal/plan"

// Hook is for crash tests only, which are built with the tag killpoints.
func Hook() func(string, plan.Phase) { return nil }
