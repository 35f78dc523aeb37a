package cli

import (
	"context"
	"io"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/work"
)

// foresee returns a function that plans a verb without its bundle, as a dry run does. Making a bundle takes long: before that starts, a verb
// that can't succeed fails: on a host that lacks memory, without root, with credentials that don't log in, or on machines that can't be used yet.
func foresee(a *App, asked operate.Asked, here func(*operate.Options)) func(context.Context) error {
	return func(ctx context.Context) error {
		o := a.options(optionsOf(&asked, work.Need{Say: io.Discard}))
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
		return b.CloseWith(b.First.Unready)
	}
}
