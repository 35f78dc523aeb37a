// Package removal destroys and resets clusters and single machines, and gives a cluster's resources back to its cloud.
package removal

import "github.com/naupegos/naupegos/internal/cluster/staged"

// Removal removes one cluster, or machines of it.
type Removal struct {
	*staged.Staged
}
