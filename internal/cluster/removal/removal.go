// Package removal destroys and resets clusters and single machines, and gives back to a cloud what a cluster took.
package removal

import "github.com/naupegos/naupegos/internal/cluster/staged"

// Removal removes one cluster, or machines of it.
type Removal struct {
	*staged.Staged
}
