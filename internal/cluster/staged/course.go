package staged

import (
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/pki"
)

// Course names the stage that the last plan takes the cluster to: the releases of an upgrade with the hop, or the phase of a rotation.
// Both are empty if the plan takes it to no stage.
func (c *Staged) Course() (releases, stage string) {
	if now, err := c.ToldRotation(); err == nil && !now.IsZero() {
		return "", c.phase(now)
	}
	run, err := hops.Parse(c.Facts.Get(memory.ReleasesRun))
	if err != nil || !c.Facts.Bootstrapped() {
		return "", c.encryptionStage()
	}
	way := hops.CourseOf(run, c.Told(), c.Goal())
	switch {
	case way.From == "":
		return "", c.encryptionStage()
	case way.Hop > 0:
		stage = fmt.Sprintf("hop %d of %d", way.Hop, way.Of)
	}
	return way.From + " → " + way.To, stage
}

// phase numbers a phase of a rotation; "" for the way back.
func (c *Staged) phase(now rotation.Rotation) string {
	phases := []rotation.Phase{rotation.Trust, rotation.Use, rotation.Drop}
	if now.Phase == rotation.Make || c.Vault != nil && now.Has(pki.Authorities()...) {
		phases = append([]rotation.Phase{rotation.Make}, phases...)
	}
	i := slices.Index(phases, now.Phase)
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("phase %d of %d", i+1, len(phases))
}

func (c *Staged) encryptionStage() string {
	if c.EncryptionChanging() {
		return "encryption of Secrets"
	}
	return ""
}
