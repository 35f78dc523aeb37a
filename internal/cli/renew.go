package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

func newRenewCmd(a *App) *cobra.Command {
	var f runFlags
	var all bool
	var out output.Format
	c := &cobra.Command{
		Use:   "renew NAME... | --all",
		Short: "Give machines new certificates for those that are due, and do nothing else",
		Long: `Renew what naupegos apply would renew, and nothing else: for a timer or cron, at night, without anybody who watches. A certificate is due when
a third of its year is left. Where none is, no machine is asked anything.

What is due is renewed as apply does it: the control-plane machines one after another, with a gate after each. A cluster of which apply would
change more than certificates is left as it is, with exit status 4: look at naupegos plan, and apply. Authorities do not expire for ten years and
are rotated (naupegos certs rotate); kubelets renew their own certificates.

Several clusters are done one after another; one that can't be renewed does not keep the others from it, and the exit status is that of the first
which could not.`,
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
			return a.renew(cmd.Context(), args, &out, &f)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all clusters of the store")
	out.Bind(c)
	f.bind(c)
	return c
}

// renewal is what became of one cluster's certificates.
type renewal struct {
	Cluster string    `json:"cluster"`
	Renewed []string  `json:"renewed"`         // names of certificates
	Next    time.Time `json:"next,omitzero"`   // when the next one is due
	Error   string    `json:"error,omitempty"` // why those that are due could not be renewed
}

func (a *App) renew(ctx context.Context, names []string, out *output.Format, f *runFlags) error {
	done, failed := []renewal{}, []error{}
	for _, name := range names {
		r := renewal{Cluster: name, Renewed: []string{}}
		if err := a.renewOne(ctx, &r, f); err != nil {
			r.Error, failed = err.Error(), append(failed, err)
		}
		done = append(done, r)
		if ctx.Err() != nil {
			break
		}
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

// renewOne renews what is due of one cluster.
func (a *App) renewOne(ctx context.Context, r *renewal, f *runFlags) error {
	var due map[string]string
	look := func(s *session) (err error) {
		due, r.Next, err = s.Due(ctx)
		return err
	}
	if err := a.onCluster(ctx, r.Cluster, sessionOptions{readOnly: true}, look); err != nil || len(due) == 0 {
		return err
	}
	s, doc, err := a.openNamed(ctx, r.Cluster, sessionOptions{verb: "renew", readOnly: true, bundle: bundles.Made})
	if err != nil {
		return err
	}
	defer s.Close()
	first, err := s.Cluster.PlanRenewal(ctx)
	if err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Commit = func(ctx context.Context) error { return s.Commit(ctx, s.Record.Document) }
	if _, err := s.Converge(ctx, first, t); err != nil {
		return err
	}
	certs, err := s.Cluster.Certificates(ctx)
	if err != nil {
		return err
	}
	var still []string
	r.Next = time.Time{}
	for _, c := range certs {
		switch was := due[c.Name]; {
		case c.CA:
			continue
		case was == c.Fingerprint:
			still = append(still, c.Name)
		case was != "":
			r.Renewed = append(r.Renewed, c.Name)
		}
		r.Next = sooner(r.Next, c.RenewAt)
	}
	if len(still) > 0 {
		return fail.New(fail.NotReady, "cluster %s: due still are %s", r.Cluster, strings.Join(still, ", ")).Do("naupegos apply says why")
	}
	return nil
}

// sooner returns the earlier one; the zero time is no time.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
