// Package staged changes a cluster in stages: to another Kubernetes release, other keys, or another encryption of Secrets. All machines reach a stage before
// the next one begins.
package staged

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/addons"
)

// Staged leads one cluster through stages.
type Staged struct {
	*addons.Addons
}

// Advance moves everything on that has reached its stage: the encryption, the rotation, the releases.
func (c *Staged) Advance(ctx context.Context) error {
	for _, advance := range []func(context.Context) error{c.recallEncryption, c.AdvanceEncryption, c.AdvanceRotation, c.AdvanceReleases} {
		if err := advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Between reports whether something is between two stages, so that a later plan has more to do.
func (c *Staged) Between() bool { return c.EncryptionChanging() || c.Upgrading() || c.Rotating() }
