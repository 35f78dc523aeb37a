package env

import (
	"encoding/json"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Recovering is the recovery of etcd from the survivor of a lost quorum: remembered from before its first step; while it is not done, apply refuses.
type Recovering struct {
	From string           `json:"from"` // the machine whose member survived
	Run  string           `json:"run"`  // tells this recovery from others
	Left *laying.Salvaged `json:"left,omitempty"`
	Done bool             `json:"done,omitempty"`
}

// LastRecovery returns the last recovery of etcd, or nil.
func (c *Env) LastRecovery() *Recovering {
	var r Recovering
	if json.Unmarshal([]byte(c.Facts.Get(memory.Recovering)), &r) != nil { // also if the fact is empty
		return nil
	}
	return &r
}

// Recovering returns the recovery of etcd in progress; nil if there is none.
func (c *Env) Recovering() *Recovering {
	if r := c.LastRecovery(); r != nil && !r.Done {
		return r
	}
	return nil
}

// Place returns the directories of the recovery's files on the machine.
func (r *Recovering) Place() laying.Place {
	return laying.On("/var/lib/naupegos/recovering/"+r.Run, r.Run)
}

// ErrRecovering refuses another verb while a recovery is in progress.
func (c *Env) ErrRecovering() error {
	return fail.New(fail.Refused, "etcd of cluster %s is being recovered, and that has not come to its end", c.Name()).
		Do("naupegos etcd recover %s --from %s continues it", c.Name(), c.Recovering().From)
}

// Releasing reports whether a release of the cluster was begun.
func (c *Env) Releasing() bool { return c.Facts.Is(memory.Releasing) }

// ErrReleasing refuses another verb while a cluster is being released.
func ErrReleasing(name string) error {
	return fail.New(fail.Refused, "cluster %s is being released", name).Do("naupegos release %s continues it", name)
}

// Importing reports whether the cluster of a record is being taken over.
func Importing(rec *store.Cluster) bool { return memory.NewFacts(rec, nil).Is(memory.Importing) }

// ErrImporting refuses another verb while a cluster is being imported.
func ErrImporting(name string) error {
	return fail.New(fail.Refused, "cluster %s is not taken over yet", name).Do("naupegos import %s --adopt continues it", name)
}

// ErrResetting returns the error for an unfinished reset.
func (c *Env) ErrResetting() error {
	return fail.New(fail.Refused, "a reset of cluster %s was begun and is not finished", c.Name()).
		Do("naupegos reset %s continues it; then naupegos apply builds the cluster again", c.Name())
}

// Restoring is a restore in progress. It is recorded until the cluster conforms to its document, so that the same command continues it.
type Restoring struct {
	Set        string    `json:"set"`        // the backup's ID
	Made       time.Time `json:"made"`       // when the backup was made
	Kubernetes string    `json:"kubernetes"` // release of the backup
	Run        string    `json:"run"`        // tells this restore from others of the same backup
	// Living: the cluster lives, and its data is replaced; apply waits for the end of that.
	Living bool  `json:"living,omitempty"`
	Bump   int64 `json:"bump,omitempty"` // by how much revisions grow: laying.Place
}

// Restoring returns the restore in progress; nil if there is none.
func (c *Env) Restoring() *Restoring { return RestoringBy(c.Facts) }

// RestoringBy returns the restore in progress according to facts, or nil.
func RestoringBy(f *memory.Facts) *Restoring {
	var r Restoring
	if json.Unmarshal([]byte(f.Get(memory.Restoring)), &r) != nil { // also if the fact is empty
		return nil
	}
	return &r
}

// LayTimeout bounds sending a snapshot to a machine and making a data directory of it.
const LayTimeout = 20 * time.Minute

// Place returns the directory of the restore's files on a machine.
func (r *Restoring) Place() laying.Place {
	p := laying.On("/var/lib/naupegos/restoring/"+r.Run, r.Run)
	p.Bump = r.Bump
	return p
}
