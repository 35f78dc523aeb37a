package operate

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/kube/running"
)

// Workloads is the view of a cluster's workloads, with the reason for each one that is not ready. It needs the role operate, because arguments, images and messages may tell secrets.
var Workloads = View[running.Ask, running.List]{Name: "workloads", Operator: true, Within: 30 * time.Second, See: func(ctx context.Context, s *Session, in running.Ask) (*running.List, error) {
	return s.Cluster.Workloads(ctx, in)
}}

// PodLog is the view of the end of a container's log.
var PodLog = View[running.LogOf, running.Log]{Name: "podlog", Secret: true, Operator: true, Within: 30 * time.Second, See: func(ctx context.Context, s *Session, in running.LogOf) (*running.Log, error) {
	return s.Cluster.PodLog(ctx, in)
}}
