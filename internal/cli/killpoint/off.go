//go:build !killpoints

// Package killpoint lets tests kill this program at step boundaries, and make certificates due early. It does nothing unless it is built with the
// tag killpoints.
package killpoint

import (
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// RenewBefore returns how long before its end a certificate is due; 0 means the default of package pki.
func RenewBefore() time.Duration { return 0 }

// Hook returns nil. Crash tests build the program with the tag killpoints.
func Hook() func(string, plan.Phase) { return nil }
