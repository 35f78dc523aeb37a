package cluster

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
)

// Backups says how a cluster's backups are.
type Backups struct {
	Last     time.Time `json:"last,omitzero"` // when the last one was made; none: zero
	LastID   string    `json:"lastID,omitempty"`
	Proven   time.Time `json:"proven,omitzero"` // when the last one was made that a rehearsal has found whole; none: zero
	ProvenID string    `json:"provenID,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why it can't be told
	// Scheduled are those that machines make by themselves; nil where they make none.
	Scheduled *Scheduled `json:"scheduled,omitempty"`
}

// backupsLook bounds looking for backups where something else is asked.
const backupsLook = 5 * time.Second

// backups looks for the last backup and the last proven one.
func (c *Cluster) backups(ctx context.Context) *Backups {
	scheduled := c.onSchedule(ctx)
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	last, proven, err := backup.Newest(ctx, c.BackupTarget(), c.Name(), c.Record.ID)
	b := &Backups{Scheduled: scheduled}
	if err != nil {
		b.Problem = err.Error()
	}
	if last != nil {
		b.Last, b.LastID = last.CreatedAt, last.ID
	}
	if proven != nil {
		b.Proven, b.ProvenID = proven.CreatedAt, proven.ID
	}
	return b
}
