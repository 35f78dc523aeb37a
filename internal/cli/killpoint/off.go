//go:build !killpoints

// Package killpoint has tests kill this program at the boundaries of steps, and has certificates be due early. It does nothing unless it is built
// with the tag killpoints.
package killpoint

import (
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// RenewBefore is how long before its end a certificate is due; 0 means what it means to package pki.
func RenewBefore() time.Duration { return 0 }

// Hook is for crash tests only, which are built with the tag killpoints.
func Hook() func(string, plan.Phase) { return nil }
