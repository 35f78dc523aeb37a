package cli

import (
	"context"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/shell"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/access"
)

// shell returns the Host of the verbs that log in to machines.
func (a *App) shell() shell.Host {
	return shell.Host{
		In: a.In, Out: a.Out, Err: a.Err, Color: a.Color, Server: a.server, Version: version,
		Exit: func(status int) error { return exitCode(status) },
		On: func(ctx context.Context, cluster string, whole bool, do func(*operate.Session) error) error {
			o := sessionOptions{readOnly: true}
			if whole {
				o.bundle = bundles.IfHere
			}
			return a.onCluster(ctx, cluster, o, func(s *session) error { return do(s.Session) })
		},
		Noted: func(ctx context.Context, s *operate.Session, action string, do func() error) error {
			name := s.Cluster.Name()
			return access.OnHost(ctx, s.Store, action+" "+name, name, func() (string, error) { return "", do() })
		},
	}
}
