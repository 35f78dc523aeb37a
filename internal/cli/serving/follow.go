package serving

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

func newFollowCmd(h Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "follow",
		Short: "Follow documents in Git repositories",
		Long: `A cluster may follow a document in a Git repository: a file of a branch. Servers look for new commits, check their
signatures and documents, and plan each change. The plan is a review, which a person approves here, on the pages or by
the API; with --apply auto the server applies it by itself, unless it needs consent or takes something away. A file that
vanishes changes nothing.`,
	}
	c.AddCommand(newFollowAddCmd(h), newFollowListCmd(h), newFollowShowCmd(h), newFollowApproveCmd(h), newFollowNowCmd(h), newFollowRemoveCmd(h))
	return c
}

// followFiles are the files that settings of a follow come from.
type followFiles struct {
	ca, knownHosts string
	signers        []string
}

// maxFollowFile limits such a file, in bytes.
const maxFollowFile = 1 << 20

func newFollowAddCmd(h Host) *cobra.Command {
	var f follow.Follow
	var files followFiles
	var every time.Duration
	var replace bool
	c := &cobra.Command{
		Use:   "add CLUSTER --repository URL --path FILE",
		Short: "Let a cluster follow a document in a Git repository",
		Long: `Let a cluster follow a document in a Git repository. The repository is read by HTTPS or SSH, and at most 256 MiB of it. For
SSH, --known-hosts names a file with the host's keys. --credential names a credential of the store that is bound to the
host and the cluster: for HTTPS USER:PASSWORD, or a token; for SSH a private key without a passphrase.

--signers names files with the keys that may sign the branch's newest commit: lines of ssh-keygen's allowed_signers, or
public keys of OpenPGP. Commits without such a signature are refused. A forge that merges signs with a key of its own.

The document passes the server's policy like one of an operator of this cluster alone. With --apply approve each change
waits for approval. With --apply auto the server applies a new commit by itself, unless the plan needs consent, removes or
destroys something, a former attempt failed, or, with --signers, the commit does not come after the last one applied:
these wait for approval, too.

A new cluster is created when its first review is approved, or by itself with auto.`,
		Example: "  naupegos server follow add prod --repository https://git.example.org/infra.git --path clusters/prod.yaml --credential git --signers signers\n" +
			"  naupegos server follow add lab --repository ssh://git@git.example.org/infra.git --path lab.yaml --credential deploy-key --known-hosts hosts --apply auto --every 5m",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Cluster, f.Every = args[0], every.String()
			if err := files.read(&f); err != nil {
				return err
			}
			err := h.withFollows(cmd.Context(), "server follow add", f.Cluster, func(_ store.Store, all follow.Follows) error {
				return all.Add(cmd.Context(), f, replace)
			})
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Cluster %s follows %s of branch %s. A server looks within seconds: naupegos server follow list\n", f.Cluster, f.Path, f.Branch)
			}
			return err
		},
	}
	c.Flags().StringVar(&f.URL, "repository", "", "URL of the repository: https://HOST/PATH or ssh://git@HOST/PATH")
	c.Flags().StringVar(&f.Branch, "branch", "main", "branch to follow")
	c.Flags().StringVar(&f.Path, "path", "", "path of the document in the repository")
	c.Flags().StringVar(&f.Credential, "credential", "", "name of the credential with which to read the repository")
	c.Flags().StringArrayVar(&files.signers, "signers", nil, "file with the keys that may sign commits: allowed_signers of SSH, or public keys of OpenPGP (repeatable)")
	c.Flags().StringVar(&files.knownHosts, "known-hosts", "", "file with the SSH keys of the repository's host, as ssh-keyscan prints them")
	c.Flags().StringVar(&files.ca, "ca", "", "file with the authority of the repository's host (PEM)")
	c.Flags().StringVar(&f.Apply, "apply", follow.Approve, "when to apply a change: approve (after approval) or auto")
	c.Flags().DurationVar(&every, "every", time.Minute, "how often to look for new commits")
	c.Flags().BoolVar(&replace, "replace", false, "replace the cluster's follow")
	return c
}

// read reads the files into the follow.
func (p *followFiles) read(f *follow.Follow) error {
	for _, t := range []struct {
		file string
		to   *string
	}{{p.ca, &f.CA}, {p.knownHosts, &f.KnownHosts}} {
		if t.file == "" {
			continue
		}
		data, err := readBounded(t.file)
		if err != nil {
			return err
		}
		*t.to = string(data)
	}
	if len(p.signers) == 0 {
		return nil
	}
	f.Signers = &gitread.Signers{}
	for _, file := range p.signers {
		data, err := readBounded(file)
		if err == nil {
			err = f.Signers.Add(file, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read a file of the follow")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFollowFile+1))
	if err == nil && len(data) > maxFollowFile {
		err = fail.New(fail.Invalid, "it is larger than %d KiB", maxFollowFile>>10).At(file)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read a file of the follow")
	}
	return data, nil
}

// withFollows calls do with the store and its follows. Unless action is empty, the audit has it before and after.
func (h Host) withFollows(ctx context.Context, action, cluster string, do func(store.Store, follow.Follows) error) error {
	return h.withStore(ctx, func(st store.Store) error {
		all := follow.NewFollows(st.ServerSecrets())
		if action == "" {
			return do(st, all)
		}
		return access.OnHost(ctx, st, action+" "+cluster, cluster, func() (string, error) { return "", do(st, all) })
	})
}

// followRow is a follow in a list.
type followRow struct {
	follow.Followed
	Looked time.Time `json:"looked,omitzero"` // when a server last looked
}

// rows lists follows with the times of the last looks.
func rows(ctx context.Context, st store.Store, all follow.Follows, sees func(string) bool) ([]followRow, error) {
	list, err := all.List(ctx, sees)
	if err != nil {
		return nil, err
	}
	duties, err := st.Duties(ctx, "")
	out := []followRow{}
	for _, f := range list {
		row := followRow{Followed: f}
		for _, d := range duties {
			if d.Kind == follow.Duty && d.Cluster == f.Cluster {
				row.Looked = d.Ended
			}
		}
		out = append(out, row)
	}
	return out, err
}

func newFollowListCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the clusters that follow a repository, with its state",
		Example: "  naupegos server follow list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withFollows(cmd.Context(), "", "", func(st store.Store, all follow.Follows) error {
				list, err := rows(cmd.Context(), st, all, func(string) bool { return true })
				if err != nil {
					return err
				}
				return out.Print(h.Out, list, func(w io.Writer) error { return followTable(w, list) })
			})
		},
	}
	out.Bind(c)
	return c
}

func followTable(w io.Writer, all []followRow) error {
	t := output.NewTable(w)
	t.Head("CLUSTER\tREPOSITORY\tBRANCH\tPATH\tAPPLY\tCOMMIT\tSIGNED BY\tSINCE\tLOOKED\tSTATE")
	for i := range all {
		f, s := &all[i].Follow, &all[i].Status
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Cluster, f.URL, f.Branch, f.Path, f.Apply, output.Dash(gitread.Short(s.Seen)), output.Dash(s.Signer), at(s.Since), at(all[i].Looked), stateOf(s))
	}
	return t.Flush()
}

// stateOf returns a state with its reason in one line.
func stateOf(s *follow.Status) string {
	why := s.Why
	if s.Review != nil && why == "" {
		why = s.Review.Person
	}
	if why == "" {
		return s.State
	}
	return s.State + ": " + words.Line(why)
}

func newFollowShowCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "show CLUSTER",
		Short:   "Show what a cluster follows, and the review that waits with its changes",
		Example: "  naupegos server follow show prod",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.withFollows(cmd.Context(), "", "", func(st store.Store, all follow.Follows) error {
				f, err := all.Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				s, err := all.Status(cmd.Context(), f)
				if err != nil {
					return err
				}
				was := ""
				if rec, err := st.Cluster(cmd.Context(), f.Cluster); err == nil {
					was = string(rec.Document)
				} else if fail.KindOf(err) != fail.NotFound {
					return err
				}
				return showFollow(h.Out, f, s, was)
			})
		},
	}
}

// showFollow writes the state of a follow, and its review: the changes of the document, then the plan.
func showFollow(w io.Writer, f *follow.Follow, s *follow.Status, was string) error {
	t := output.NewTable(w)
	t.Row("Cluster:\t%s\n", f.Cluster)
	t.Row("Follows:\t%s of %s, branch %s, applied with %s, every %s\n", f.Path, f.URL, f.Branch, f.Apply, f.Every)
	t.Row("State:\t%s, since %s\n", stateOf(s), at(s.Since))
	t.Row("Commit:\t%s\n", output.Dash(s.Seen))
	t.Row("Signed by:\t%s\n", output.Dash(s.Signer))
	t.Row("Applied:\t%s\n", output.Dash(s.Applied))
	r := s.Review
	if r == nil {
		return t.Flush()
	}
	t.Row("Review:\t%s, planned %s\n", r.ID, at(r.Planned))
	t.Row("Message:\t%s\n", output.Dash(r.Subject))
	t.Row("Committer:\t%s\n", output.Dash(r.Committer))
	t.Row("Approve:\tnaupegos server follow approve %s\n", approval(f.Cluster, r))
	if err := t.Flush(); err != nil {
		return err
	}
	hunks, _ := delta.Hunks(was, r.Asked.Document)
	for _, hunk := range show.SafeHunks(hunks) {
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n", hunk.Header(), strings.Join(hunk.Lines, "\n")); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if r.Plan == nil {
		_, err := fmt.Fprintf(w, "%s The plan is too large to be kept; the pages show it.\n", r.Summary)
		return err
	}
	p, err := show.Parse(r.Plan)
	if err != nil {
		return err
	}
	return show.WriteText(w, p, show.Look{Color: show.WantColor(w)})
}

// approval returns the arguments that approve a review.
func approval(cluster string, r *follow.Review) string {
	args := cluster + " " + gitread.Short(r.Commit)
	for _, c := range r.Consents {
		args += " --consent " + c
	}
	return args
}

func newFollowApproveCmd(h Host) *cobra.Command {
	var consents []string
	var yes bool
	c := &cobra.Command{
		Use:   "approve CLUSTER COMMIT",
		Short: "Approve the review of a commit: a server applies its document",
		Long: `Approve the review that waits. Just the plan of the review is carried out: if the branch has moved on, or the cluster has
changed since, nothing is done, and a new review follows.`,
		Example: "  naupegos server follow approve prod 1a2b3c4d5e6f",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cluster := cmd.Context(), args[0]
			var j *store.Job
			var r *follow.Review
			err := h.withFollows(ctx, "server follow approve "+words.Clip(args[1], 40), cluster, func(st store.Store, all follow.Follows) (err error) {
				if r, err = all.Reviewed(ctx, cluster, args[1]); err != nil {
					return err
				}
				for _, c := range r.Consents {
					if !slices.ContainsFunc(consents, func(given string) bool { return given == c || strings.HasPrefix(given, c+"=") }) {
						return fail.New(fail.Refused, "the plan needs your consent to %s; nothing was done", c).At(cluster).Do("naupegos server follow approve %s", approval(cluster, r))
					}
				}
				o := r.Order(consents, yes)
				o.MayBuild = true
				j, err = work.New(work.Config{Store: st, Reviewed: all.Check}).Add(ctx, access.HostUser(), cluster, o)
				return err
			})
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Job %s applies commit %s to cluster %s: naupegos server status, naupegos history %s\n", j.ID, gitread.Short(r.Commit), cluster, cluster)
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&consents, "consent", nil, "give a consent that the plan names: NAME, or NAME=MACHINE for one machine alone (repeatable)")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "also approve changes that turn out to follow, unless they remove something")
	return c
}

func newFollowNowCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "now CLUSTER",
		Short:   "Let a server look at the repository at once, and wait for the result",
		Example: "  naupegos server follow now prod",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cluster := cmd.Context(), args[0]
			var found []followRow
			err := h.withFollows(ctx, "server follow now", cluster, func(st store.Store, all follow.Follows) error {
				if _, err := all.Get(ctx, cluster); err != nil {
					return err
				}
				if err := lookNow(ctx, st, cluster); err != nil {
					return err
				}
				var err error
				found, err = rows(ctx, st, all, func(name string) bool { return name == cluster })
				return err
			})
			if err != nil {
				return err
			}
			return followTable(h.Out, found)
		},
	}
}

// Times of follow now: the longest wait, and how often it asks the store.
const (
	nowTime = 10 * time.Minute
	nowTick = 200 * time.Millisecond
)

// lookNow makes a look due, and waits for its end. A look that is under way may have begun before the commit was pushed: another one follows it.
func lookNow(ctx context.Context, st store.Store, cluster string) error {
	servers, err := st.Servers(ctx)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return fail.New(fail.NotReady, "no server is at work on this store").At(st.Where()).Do("naupegos server starts one, which looks by itself")
	}
	ctx, cancel := context.WithTimeout(ctx, nowTime)
	defer cancel()
	tick := time.NewTicker(nowTick)
	defer tick.Stop()
	for dropped := false; ; {
		all, err := st.Duties(ctx, cluster)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(d store.Duty) bool { return d.Kind == follow.Duty })
		switch {
		case dropped && i >= 0 && !all[i].Ended.IsZero():
			return nil
		case !dropped && (i < 0 || all[i].Holder == ""):
			if err := st.DropDuty(ctx, cluster, follow.Duty); err != nil {
				return err
			}
			dropped = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait for the look at the repository").At(cluster).Do("naupegos server follow list shows the result")
		}
	}
}

func newFollowRemoveCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "remove CLUSTER",
		Short:   "Follow no longer: the cluster stays as it is",
		Example: "  naupegos server follow remove prod",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := h.withFollows(cmd.Context(), "server follow remove", args[0], func(_ store.Store, all follow.Follows) error { return all.Remove(cmd.Context(), args[0]) })
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Cluster %s follows no repository any more.\n", args[0])
			}
			return err
		},
	}
}
