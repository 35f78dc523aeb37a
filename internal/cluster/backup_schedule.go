package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/etcd"
)

// Scheduled says how the backups are that machines make by themselves.
type Scheduled struct {
	Schedule string        `json:"schedule"`
	Last     *turns.Done   `json:"last,omitempty"`   // nil: none was made yet
	Failed   *turns.Failed `json:"failed,omitempty"` // since then
	Next     time.Time     `json:"next"`
	Overdue  bool          `json:"overdue"` // one should be there that is not
	Problem  string        `json:"problem,omitempty"`
}

// onSchedule looks at what machines say of the backups that they make; nil where they make none.
func (c *Cluster) onSchedule(ctx context.Context) *Scheduled {
	s, text, ok := c.Scheduled()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	now := time.Now()
	is := &Scheduled{Schedule: text, Next: s.Next(now)}
	err := c.WithEtcd(ctx, func(e *etcd.Client) error {
		for key, v := range map[string]any{turns.DoneKey: &is.Last, turns.FailedKey: &is.Failed} {
			raw, err := e.Get(ctx, key)
			if err == nil && raw != nil {
				err = json.Unmarshal(raw, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		is.Problem = err.Error()
		return is
	}
	since, _ := time.Parse(time.RFC3339, c.Facts.Get(memory.BackupFrom)) // zero where machines make none yet
	if is.Last != nil && is.Last.Turn.After(since) {
		since = is.Last.Turn
	}
	is.Overdue = !since.IsZero() && turns.Overdue(s, since, now)
	return is
}
