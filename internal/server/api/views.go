package api

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// seen is a request for a view with parameters.
type seen[In any] struct {
	Named
	Body In
}

// views registers the views of a cluster.
func (a *api) views() {
	view(a, operate.Nodes, "List machines and the nodes on them")
	view(a, operate.Machines, "List machines as their provider sees them")
	view(a, operate.Certificates, "List certificates with their expiry")
	view(a, operate.Volumes, "List the volumes on which the cluster and its cloud disagree")
	view(a, operate.Checks, "Check what the cluster needs from its provider, as naupegos doctor does")
	view(a, operate.IssuerChecks, "Check the Vault that signs the cluster's certificates")
	view(a, operate.LogsView, "Collect a support archive from all machines")
	view(a, operate.Backups, "List backups")
	view(a, operate.BackupView, "Look at a backup")
	view(a, operate.Describe, "Look at everything known about a cluster, a machine, a node or a backup")
	view(a, operate.Events, "List what happened: Kubernetes' events and Naupegos' runs")
	view(a, operate.Workloads, "List a page of what runs on a cluster: pods, Deployments, StatefulSets, DaemonSets, Jobs")
	view(a, operate.PodLog, "Get the last lines of a container's log")
	view(a, operate.Used, "List the resources that nodes use, as their kubelets measure them")
	view(a, operate.Users, "List who may use a cluster's API, and why")
	view(a, operate.Entrance, "Get the address of a cluster's API and how users sign in there, without a secret")
	view(a, operate.KubeconfigView, "Get a kubeconfig of the administrator or of a named user")
	view(a, operate.Handover, "Get everything that a cluster's new operator needs")
	view(a, operate.ReleaseView, "Get everything that a cluster's owner needs after its release, authorities and keys included")
}

// view registers one view. Views with parameters use POST, and so do secrets, so that the audit records who got them.
func view[In, T any](a *api, v operate.View[In, T], summary string) {
	o := operation{id: "cluster-" + v.Name, method: http.MethodGet, path: "/api/v1/clusters/{name}/" + v.Name, role: server.Read, scope: server.Cluster("name"), within: cmp.Or(v.Within, 2*time.Minute), summary: summary}
	if v.Operator {
		o.role = server.Operate
	}
	if v.Secret {
		if !v.Operator {
			o.role = server.Admin
		}
		o.text = "The answer may contain secrets, in base64. The audit records each request."
	}
	see := func(ctx context.Context, name string, in In) (*viewOf[T], error) {
		if !v.Secret {
			access.Looks(ctx)
		} else if v.Name != operate.LogsView.Name {
			if err := access.Sensitive(ctx); err != nil {
				return nil, err
			}
		}
		out, err := lookAt(ctx, a, name, func(s *operate.Session) (*T, error) { return v.See(ctx, s, in) })
		if err == nil {
			out, err = access.Shown(access.From(ctx), a.Store, out)
		}
		return &viewOf[T]{"no-store", out}, err
	}
	if reflect.TypeFor[In]() == reflect.TypeFor[operate.Plainly]() && !v.Secret {
		var none In
		add(a, o, func(ctx context.Context, in *Named) (*viewOf[T], error) { return see(ctx, in.Name, none) })
		return
	}
	o.method = http.MethodPost
	add(a, o, func(ctx context.Context, in *seen[In]) (*viewOf[T], error) { return see(ctx, in.Name, in.Body) })
}

type viewOf[T any] struct {
	Cache string `header:"Cache-Control"`
	Body  *T
}
