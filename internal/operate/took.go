package operate

import (
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// shortBundle is how long finding a bundle takes at most; one that took longer was made.
const shortBundle = time.Second

// Took says how long the request took, without planning and questions: the runs, and before them bundled for its bundle.
func (d Done) Took(bundled time.Duration) string {
	cluster := words.Duration(time.Duration(d.Seconds * float64(time.Second)))
	if bundled < shortBundle {
		return cluster
	}
	return "bundle " + words.Duration(bundled) + " + cluster " + cluster
}

// Ended says that a cluster is as it was asked to be, how long that took, the evidence of an upgrade or a rotation, and what comes next.
func (d Done) Ended(name, state, took string) string {
	text := fmt.Sprintf("Cluster %s is %s (%s).\n", name, state, took)
	if d.Evidence != nil {
		text += d.Evidence.String() + ".\n"
	}
	if d.Soaks != "" {
		text += "Check it: naupegos test " + name + ". It soaks: " + d.Soaks + ".\n"
	}
	return text
}
