package cli

import (
	"context"
	"io"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/work"
)

// foresee returns a function that makes a verb's plan without its bundle, as a dry run does. Because making a bundle takes long, a verb that
// can't succeed fails before: if the host lacks memory, without root, with invalid credentials, or with machines that can't be used yet.
// propose, which may be nil, shows that plan and asks.
func foresee(a *App, asked operate.Asked, here func(*operate.Options), propose func(context.Context, *operate.Begun) error) func(context.Context) error {
	return func(ctx context.Context) error {
		say := io.Discard
		if propose != nil {
			say = a.Err
		}
		o := a.options(optionsOf(&asked, work.Need{Say: say}))
		if here != nil {
			here(&o)
		}
		st, err := a.viewStore(ctx)
		if err != nil {
			return err
		}
		b, err := operate.Begin(ctx, st, asked, o)
		if err != nil {
			return err
		}
		if err := b.First.Unready; err != nil || propose == nil {
			return b.CloseWith(err)
		}
		return b.CloseWith(propose(ctx, b))
	}
}
