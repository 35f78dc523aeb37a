package operate

import (
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rehearse"
)

// Done is the result of a request.
type Done struct {
	Changed bool                `json:"changed"`
	Created bool                `json:"created,omitempty"` // the cluster is new
	Seconds float64             `json:"seconds,omitempty"` // duration of the runs, without planning and questions
	Said    string              `json:"said,omitempty"`    // a message about the result, for people
	Paused  bool                `json:"paused,omitempty"`  // of upgrade: stopped at the requested machine
	Kept    []string            `json:"kept,omitempty"`    // of destroy: volumes kept on request
	Left    []string            `json:"left,omitempty"`    // of destroy: machines forgotten without a reset
	Renewed []string            `json:"renewed,omitempty"` // of renew: names of certificates
	Next    time.Time           `json:"next,omitzero"`     // of renew: when the next one is due
	Round   *upkeep.Round       `json:"round,omitempty"`   // of repair
	Backup  *backup.Set         `json:"backup,omitempty"`  // of backup create
	Where   string              `json:"where,omitempty"`   // of backup create: location of the backup, for people
	Proof   *rehearse.Proof     `json:"proof,omitempty"`   // of backup rehearse
	Proofs  []addons.Proof      `json:"proofs,omitempty"`  // of test
	Volumes []removal.OddVolume `json:"volumes,omitempty"` // of backup restore: volumes on which the cluster and its cloud disagree
	Names   []string            `json:"names,omitempty"`   // of machine: the switched machines
	Soaks   string              `json:"soaks,omitempty"`   // what an upgrade waits for and how to continue, for people
	// Evidence is what the runs of an upgrade or a rotation observed; nil if nothing was observed.
	Evidence *plan.Evidence `json:"evidence,omitempty"`
}

// Text describes the result of destroy.
func (d Done) Text(name string) string {
	switch {
	case len(d.Kept) > 0:
		return fmt.Sprintf("Cluster %s is gone. Kept of it are:\n  %s\n", name, strings.Join(d.Kept, "\n  "))
	case len(d.Left) > 0:
		return fmt.Sprintf("Cluster %s is gone. These machines were not cleaned; reinstall them before you use them: %s\n",
			name, strings.Join(d.Left, ", "))
	}
	return fmt.Sprintf("Cluster %s is gone; nothing of it is left.\n", name)
}
