// Package staged takes a cluster from one value to another in stages, each of which all machines reach before the next begins: another release of
// Kubernetes, other keys, another encryption of Secrets.
package staged

import "github.com/naupegos/naupegos/internal/cluster/addons"

// Staged leads one cluster through stages.
type Staged struct {
	*addons.Addons
}
