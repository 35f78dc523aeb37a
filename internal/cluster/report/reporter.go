// Package report reports on a cluster: its status, its checks, and the logs of its machines.
package report

import "github.com/naupegos/naupegos/internal/cluster/removal"

// Reporter reports on one cluster.
type Reporter struct {
	*removal.Removal
}
