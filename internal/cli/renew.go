package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/words"
)

func newRenewCmd(a *App) *cobra.Command {
	var f runFlags
	var all bool
	var out output.Format
	c := &cobra.Command{
		Use:   "renew NAME... | --all",
		Short: "Renew certificates that are due, and change nothing else",
		Long: `Renew the certificates that naupegos apply would renew, and nothing else. Run it from a timer or cron, unattended. A
certificate is due when a third of its year is left. If none is due, no machine is contacted.

Certificates are renewed as apply does it: on the control-plane machines one after another, with a health check after
each. If apply would change more than certificates, nothing is changed and the exit status is 4: look at naupegos plan,
and apply. Authorities are valid for ten years and are rotated (naupegos certs rotate); kubelets renew their own
certificates.

Several clusters are renewed one after another. If one fails, the others are still renewed, and the exit status is that
of the first failure.`,
		Example: `  naupegos renew demo
  naupegos renew --all --yes
  17 3 * * * naupegos renew --all --yes --progress none     # in a crontab`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return fail.New(fail.Invalid, "say which clusters").Do("name them, or give --all alone")
			}
			if all {
				var err error
				if args, err = a.storedNames(cmd.Context()); err != nil {
					return err
				}
			}
			return renew(cmd.Context(), a, args, &out, &f)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all clusters in the store")
	out.Bind(c)
	f.bind(c)
	return c
}

// renewal is the result for one cluster's certificates.
type renewal struct {
	Cluster string    `json:"cluster"`
	Renewed []string  `json:"renewed"`         // names of certificates
	Next    time.Time `json:"next,omitzero"`   // when the next one is due
	Error   string    `json:"error,omitempty"` // why the due ones could not be renewed
}

func renew(ctx context.Context, a *App, names []string, out *output.Format, f *runFlags) error {
	done, failed := []renewal{}, []error{}
	var differs error // a dry run has printed a plan
	for _, name := range names {
		r := renewal{Cluster: name, Renewed: []string{}}
		err := renewOne(ctx, a, &r, out, f)
		if code := exitCode(0); errors.As(err, &code) {
			differs = err
			continue
		}
		if err != nil {
			r.Error, failed = err.Error(), append(failed, err)
		}
		done = append(done, r)
		if ctx.Err() != nil {
			break
		}
	}
	if differs != nil && len(failed) == 0 {
		return differs
	}
	err := out.Print(a.Out, done, func(w io.Writer) error {
		for _, r := range done {
			if r.Error == "" {
				if _, err := fmt.Fprintln(w, r.words()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

func (r renewal) words() string {
	if len(r.Renewed) > 0 {
		return fmt.Sprintf("Cluster %s: %s renewed; the next is due at %s.", r.Cluster, words.Count(len(r.Renewed), "certificate", "certificates"), r.Next.Format(time.DateOnly))
	}
	if r.Next.IsZero() {
		return fmt.Sprintf("Cluster %s has no certificates yet.", r.Cluster)
	}
	return fmt.Sprintf("Cluster %s: nothing is due before %s.", r.Cluster, r.Next.Format(time.DateOnly))
}

func renewOne(ctx context.Context, a *App, r *renewal, out *output.Format, f *runFlags) error {
	_, done, err := a.carry(ctx, &verb{asked: operate.Asked{Verb: operate.Renew, Cluster: r.Cluster}, flags: f, out: out})
	r.Renewed, r.Next = append(r.Renewed, done.Renewed...), done.Next
	return err
}
