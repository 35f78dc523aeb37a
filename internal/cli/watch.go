package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/watch"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/operate"
)

// watchVerbs returns the commands that show clusters in full.
func watchVerbs(a *App) []*cobra.Command {
	h := watch.Host{
		Out: a.Out, Screen: func() watch.Screen { return screen(a) },
		Describe: func(ctx context.Context, cluster string, in operate.Subject) (*operate.Description, error) {
			return look(ctx, a, cluster, operate.Describe, in)
		},
		Events: func(ctx context.Context, cluster string, in operate.EventsOf) (*operate.EventList, error) {
			return look(ctx, a, cluster, operate.Events, in)
		},
	}
	quiet := *a
	quiet.Err = io.Discard // a missing bundle shows in the state
	top := watch.TopHost{
		In: a.In, Out: a.Out, Terminal: terminal.Is(a.In) && terminal.Is(a.Out), Screen: h.Screen, List: func(ctx context.Context) ([]operate.Row, error) { return listRows(ctx, a) }, Status: quiet.lookAt,
		Usage: func(ctx context.Context, cluster string) (*operate.UsageList, error) {
			return look(ctx, &quiet, cluster, operate.Used, operate.Plainly{})
		},
		Describe: func(ctx context.Context, cluster string, in operate.Subject) (*operate.Description, error) {
			return look(ctx, &quiet, cluster, operate.Describe, in)
		},
	}
	return []*cobra.Command{watch.NewDescribe(h), watch.NewEvents(h), watch.NewTop(top)}
}

// look is see with the cluster's bundle if it is on this host: machines can be compared with the document only with the bundle.
func look[In, T any](ctx context.Context, a *App, name string, v operate.View[In, T], in In) (out *T, err error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		return client.See(ctx, c, name, v, in)
	}
	err = a.onCluster(ctx, name, sessionOptions{look: true, readOnly: true, bundle: bundles.IfHere}, func(s *session) (err error) {
		out, err = v.See(ctx, s.Session, in)
		return err
	})
	return out, err
}

// listRows lists the clusters of the store or of a server, without a look at them.
func listRows(ctx context.Context, a *App) ([]operate.Row, error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		return c.Clusters(ctx, 0)
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return operate.Rows(ctx, st)
}
