package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/plan"
)

// planLaying copies the store's data, sealed, to the machines that make backups: after all other steps, and only if the data changed.
func (a *applying) planLaying() error {
	was := a.Facts.Get(memory.BackupLaid)
	_, text, on := a.Scheduled()
	s := &plan.Step{ID: backups.LayOrderStep, Action: plan.Change, Subject: "cluster", Title: "copy the cluster's data from the store to etcd, encrypted", Run: a.LayOrder}
	switch {
	case !on && was == "":
		return nil
	case !on:
		s = a.TakeOrderStep("the document no longer schedules backups on machines")
	default:
		now, err := a.OrderDigest(context.Background())
		if err != nil {
			return err
		}
		if was == now && a.graph.Empty() {
			return nil
		}
		s.Reason = "machines include it in the backups that they make (" + text + ")"
		if was == "" {
			s.Action = plan.Create
		}
	}
	a.add(stage.Lay, s)
	return nil
}
