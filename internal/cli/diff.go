package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/differ"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/server/work"
)

func newDiffCmd(a *App) *cobra.Command {
	return differ.New(differ.Host{
		Out: a.Out, Err: a.Err, Color: a.Color, Differs: exitChanges,
		Plan: func(ctx context.Context, file, name string) (*plan.Plan, string, error) {
			asked := operate.Asked{Verb: operate.Apply, Cluster: name}
			if file == "" {
				p, later, _, err := foreseen(ctx, a, asked)
				return p, later, err
			}
			_, data, err := a.readDocument(file)
			if err != nil {
				return nil, "", err
			}
			p, later, _, err := foreseen(ctx, a, operate.Asked{Verb: operate.Apply, Document: string(data), From: shownFile(file)})
			return p, later, located(err, file, data)
		},
		Machines: func(ctx context.Context, name string) (names []string, err error) {
			list, err := see(ctx, a, name, operate.Machines, operate.Plainly{})
			if err != nil {
				return nil, err
			}
			for _, m := range list.Machines {
				names = append(names, m.Name)
			}
			return names, nil
		},
	})
}

// foreseen makes a plan, here or on a server, without changing anything. unready says why it could not begin.
func foreseen(ctx context.Context, a *App, asked operate.Asked) (p *plan.Plan, later string, unready, err error) {
	if c, err := a.server(); err != nil {
		return nil, "", nil, err
	} else if c != nil {
		got, p, err := a.planned(ctx, c, api.PlanRequest{Asked: asked})
		if err != nil {
			return nil, "", nil, err
		}
		return p, got.Later, got.Obstacle(), nil
	}
	b, err := a.begin(ctx, asked, work.Need{}, nil, nil)
	if err != nil {
		return nil, "", nil, err
	}
	return b.First.Plan, b.Later(), b.First.Unready, b.Close()
}

// lookOf returns the look of plans on w. With verbose logging it includes the changed lines of files.
func lookOf(a *App, w io.Writer, hunks bool) show.Look {
	return show.Look{Color: a.Color(w), Hunks: hunks || a.logging.verbose, Width: terminal.Limit(w)}
}
