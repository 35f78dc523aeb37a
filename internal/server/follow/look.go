package follow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// look is one look at a repository.
type look struct {
	*Runner
	f        *Follow
	was, now Status
	rec      *store.Cluster // nil: the store does not know the cluster
	stored   string         // digest of its document
	forced   bool           // look as if everything were new
}

// look looks at a repository, and returns the news in words; empty: none.
func (r *Runner) look(ctx context.Context, d *store.Duty, f *Follow) (said string, err error) {
	l := &look{Runner: r, f: f, forced: d.Ended.IsZero()}
	s, err := r.follows.Status(ctx, f)
	if err != nil {
		return "", err
	}
	l.was, l.now = *s, *s
	if s.Review != nil {
		review := *s.Review
		l.now.Review = &review
	}
	under, err := l.settle(ctx)
	if err != nil {
		return "", err
	}
	if !under {
		err = l.follow(ctx)
	}
	if ctx.Err() != nil { // the end of this look is no state of the repository
		return "", cmp.Or(err, ctx.Err())
	}
	changed, unrecorded := l.record(ctx)
	if err == nil {
		err = unrecorded
	}
	if !changed {
		return "", err
	}
	return strings.TrimSuffix(l.now.State+": "+l.now.Why, ": "), err
}

// settle reports whether the job for the review, which a person or an earlier look added, is under way, and notes the result of an ended one.
func (l *look) settle(ctx context.Context) (under bool, err error) {
	r := l.now.Review
	if r == nil {
		return false, nil
	}
	jobs, err := l.c.Store.Jobs(ctx, l.f.Cluster, recent)
	if err != nil {
		return false, err
	}
	for i := range jobs {
		j := &jobs[i]
		var o work.Order
		if json.Unmarshal(j.Request, &o) != nil || o.Review != r.ID {
			continue
		}
		l.now.Job = j.ID
		if j.State != store.JobEnded {
			l.now.set(Under, nil)
			l.now.Why = "job " + j.ID + " of " + j.Who
			return true, nil
		}
		l.ended(j)
		return false, nil
	}
	l.forced = l.forced || l.now.State == Under // the job is so old that the store has forgotten it
	return false, nil
}

// ended notes the result of a job. After a failure the rest is planned again, and a person decides.
func (l *look) ended(j *store.Job) {
	var res work.Result
	err := json.Unmarshal(j.Result, &res)
	if err == nil {
		err = res.Err()
	}
	r := l.now.Review
	l.forced = true
	if err != nil {
		l.now.Failed, l.now.FailedAt = "job "+j.ID+" failed: "+err.Error(), r.Commit
	} else {
		l.now.Applied, l.now.Failed, l.now.FailedAt = r.Commit, "", ""
	}
	l.now.Review = nil
}

// set sets the state, and why it is so.
func (s *Status) set(state string, why error) {
	s.State, s.Why, s.Kind = state, "", ""
	if why != nil {
		s.Why, s.Kind = fail.Public(why).Error(), fail.KindOf(why).String()
	}
}

// follow reads the repository if it may have news, and acts on them. It returns errors of reading and planning; a bad commit is a state.
func (l *look) follow(ctx context.Context) error {
	if err := l.know(ctx); err != nil {
		return err
	}
	access, err := l.access(ctx)
	if err != nil {
		l.now.set(Unfetched, err)
		return err
	}
	head, err := gitread.Head(ctx, &l.f.Source, access)
	if err != nil {
		l.now.set(Unfetched, err)
		return err
	}
	if l.fresh(head) {
		return nil
	}
	since := ""
	if l.f.Apply == Auto && l.f.Signers != nil {
		since = l.now.Applied
	}
	found, err := gitread.Read(ctx, &l.f.Source, access, since)
	if err != nil {
		l.now.set(Unfetched, err)
		return err
	}
	l.now.Seen, l.now.Signer, l.now.Stored, l.now.Read = found.Commit, found.Signer, l.stored, time.Now().UTC().Truncate(time.Second)
	return l.judge(ctx, found)
}

// know reads the cluster's record.
func (l *look) know(ctx context.Context) (err error) {
	l.rec, err = l.c.Store.Cluster(ctx, l.f.Cluster)
	switch {
	case fail.KindOf(err) == fail.NotFound:
		l.rec, l.stored = nil, ""
		return nil
	case err == nil:
		l.stored = fmt.Sprintf("sha256:%x", sha256.Sum256(l.rec.Document))
	}
	return err
}

// access returns the inputs of a read, if the policy allows the repository's addresses and the credential is for its host.
func (l *look) access(ctx context.Context) (a gitread.Access, err error) {
	to, err := l.f.Address()
	if err != nil {
		return a, err
	}
	a.Dir, a.Beside = l.dir(), l.beside
	if a.Addresses, err = l.c.Resolve(ctx, to.Host); err != nil {
		return a, err
	}
	if err := l.c.Policy.CheckRepository(l.f.Cluster, to, a.Addresses); err != nil {
		return a, err
	}
	if l.f.Credential == "" {
		return a, nil
	}
	creds := policy.NewCredentials(l.c.Store.ServerSecrets())
	if err := creds.Within(ctx, l.f.Cluster, l.f.Credential, l.f.RepositoryPath()); err != nil {
		return a, err
	}
	a.Secret, err = creds.Find(ctx, l.f.Cluster, l.f.Credential, to)
	return a, err
}

// fresh reports whether the state still holds without reading the repository. A refused commit is read again at intervals: a changed policy, credential or
// bundle may allow it.
func (l *look) fresh(head string) bool {
	s := &l.now
	if l.forced || head != s.Seen || l.stored != s.Stored {
		return false
	}
	if s.Review != nil && s.State != Under && (s.Review.Person != "" || l.f.Apply != Auto) {
		s.set(Waits, nil) // also after the repository could not be reached for a while
		return true
	}
	return s.State == InStep || s.State == Refused && time.Since(s.Read) < again
}

// verdicts are the kinds of errors that refuse a document for good; other errors pass.
var verdicts = []fail.Kind{fail.Refused, fail.Invalid, fail.Unauthorized, fail.NotFound}

// judge acts on the commit that was read.
func (l *look) judge(ctx context.Context, found *gitread.Found) error {
	l.now.Review = nil
	if found.Refused != nil {
		l.now.set(Refused, found.Refused)
		return nil
	}
	same, err := l.check(found)
	if err != nil {
		l.now.set(Refused, err)
		return nil
	}
	failed := l.now.FailedAt == found.Commit && l.now.Failed != ""
	if same && !failed {
		l.now.Applied, l.now.Failed, l.now.FailedAt = found.Commit, "", ""
		l.now.set(InStep, nil)
		return nil
	}
	review, p, err := l.plan(ctx, found)
	switch {
	case err != nil && slices.Contains(verdicts, fail.KindOf(err)):
		l.now.set(Refused, err)
		return nil
	case err != nil:
		l.now.set(Unplanned, err)
		return err
	}
	if same && p.Empty() { // the failed job, or another one, did it all
		l.now.Applied, l.now.Failed, l.now.FailedAt = found.Commit, "", ""
		l.now.set(InStep, nil)
		return nil
	}
	review.Person = l.person(found, review, p)
	l.now.Review = review
	l.now.set(Waits, nil)
	if review.Person != "" {
		return nil
	}
	return l.start(ctx, review)
}

// check checks a document, and reports whether it says the same as the stored one: comments and the ends of lines do not count.
func (l *look) check(found *gitread.Found) (same bool, err error) {
	if err := l.embed(found); err != nil {
		return false, err
	}
	doc, err := validation.ParseFilledIn(l.f.Path, found.Content)
	if err != nil {
		return false, err
	}
	if doc.Metadata.Name != l.f.Cluster {
		return false, fail.New(fail.Invalid, "the document is of cluster %s, not of %s", doc.Metadata.Name, l.f.Cluster).At(l.f.Path).Do("a file that a cluster follows holds that cluster's document alone")
	}
	if l.rec == nil {
		return false, nil
	}
	was, err := validation.Parse("the stored document of "+l.f.Cluster, l.rec.Document)
	if err != nil {
		return false, nil //nolint:nilerr // another document may repair it
	}
	a, errA := json.Marshal(was)
	b, errB := json.Marshal(doc)
	return errA == nil && errB == nil && bytes.Equal(a, b), nil
}

// plan plans a document under the server's policy, as for an operator of this cluster alone.
func (l *look) plan(ctx context.Context, found *gitread.Found) (*Review, *plan.Plan, error) {
	asked := operate.Asked{Verb: operate.Apply, Document: string(found.Content), From: words.Clip(l.f.At(found.Commit), 900)}
	st, err := l.c.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := operate.Begin(ctx, st, asked, l.c.Options(asked, work.Need{Prepare: true}))
	if err != nil {
		return nil, nil, err
	}
	if b.Closed != nil {
		return nil, nil, b.CloseWith(b.Closed)
	}
	p := b.First.Plan
	r := &Review{ID: gitread.Short(found.Commit) + "-" + strings.ToLower(rand.Text()[:8]), Commit: found.Commit, Signer: found.Signer, Committer: found.Committer, Subject: found.Subject,
		Planned: time.Now().UTC().Truncate(time.Second), Summary: show.Summary(p), Consents: p.MissingConsents(nil), Later: b.Later(), Asked: b.Resolved()}
	if b.First.Unready != nil {
		r.Unready = fail.Public(b.First.Unready).Error()
	}
	if r.Digest, err = b.Digest(); err == nil {
		if r.Plan, err = json.Marshal(show.JSON(p)); len(r.Plan) > maxPlan {
			r.Plan = nil
		}
	}
	return r, p, b.CloseWith(err)
}

// person says why a person has to approve a review; empty: the administrator lets the server apply it by itself.
func (l *look) person(found *gitread.Found, r *Review, p *plan.Plan) string {
	var lost []string
	for _, s := range p.Steps {
		if s.Action == plan.Destroy || s.Disruption().AtLeast(plan.Removing) {
			lost = append(lost, s.Title)
		}
	}
	switch {
	case l.now.FailedAt == found.Commit && l.now.Failed != "":
		return l.now.Failed
	case l.f.Apply != Auto:
		return "each change waits for approval"
	case len(r.Consents) > 0:
		return "it needs consent: " + strings.Join(r.Consents, ", ")
	case len(lost) > 0:
		return "it takes something away: " + words.First(lost, 3)
	case r.Unready != "":
		return "it can't begin: " + r.Unready
	case l.now.Applied == found.Commit:
		return "the stored document was changed by other means after commit " + gitread.Short(found.Commit) + " was applied"
	case l.rec == nil && l.now.Applied != "":
		return "the cluster was there, and is gone"
	case found.Unknown != "":
		return "whether it comes after commit " + gitread.Short(l.now.Applied) + ", the last one applied, is not known: " + found.Unknown
	case !found.Descends && l.f.Signers != nil && l.now.Applied != "":
		return "it does not come after commit " + gitread.Short(l.now.Applied) + ", the last one applied"
	}
	return ""
}

// start adds the job for a review that no person needs to approve. The review is recorded first: its job is found by it after a crash.
func (l *look) start(ctx context.Context, r *Review) error {
	if _, err := l.record(ctx); err != nil {
		return err
	}
	j, err := l.c.Board.Add(ctx, l.who(r.Commit), l.f.Cluster, r.Order(nil, true))
	if err != nil {
		return err
	}
	l.now.Job = j.ID
	l.now.set(Under, nil)
	l.now.Why = "job " + j.ID + " of " + j.Who
	l.note(ctx, "apply", r.Commit, "done")
	return nil
}

// who names a follow as the author of a job.
func (l *look) who(commit string) string {
	return strings.TrimSuffix("follow "+l.f.Cluster+" at "+gitread.Short(commit), " at ")
}

// record stores the state, and notes in the audit that it has changed.
func (l *look) record(ctx context.Context) (changed bool, err error) {
	changed = l.now.State != l.was.State || l.now.Why != l.was.Why || l.now.Seen != l.was.Seen
	if changed {
		l.now.Since = time.Now().UTC().Truncate(time.Second)
	}
	a, errA := json.Marshal(&l.was)
	b, errB := json.Marshal(&l.now)
	if errA == nil && errB == nil && bytes.Equal(a, b) {
		return false, nil
	}
	if err := l.follows.put(ctx, l.f.Cluster, &l.now); err != nil {
		return changed, err
	}
	if changed {
		switch outcome := "done"; l.now.State {
		case Refused:
			outcome = "refused: " + l.now.Kind
			fallthrough
		case Waits:
			l.note(ctx, "review", l.now.Seen, outcome)
		case Unfetched, Unplanned:
			if l.was.State != l.now.State {
				l.note(ctx, "look", l.now.Seen, "failed: "+l.now.Kind)
			}
		}
		l.c.Log.Info("a followed repository", "cluster", l.f.Cluster, "commit", gitread.Short(l.now.Seen), "state", l.now.State, "why", l.now.Why)
	}
	l.was = l.now
	return changed, nil
}

// note writes an entry into the audit.
func (l *look) note(ctx context.Context, what, commit, outcome string) {
	e := store.AuditEntry{At: time.Now(), Who: l.who(commit), From: "server", Action: "follow " + what, Cluster: l.f.Cluster, Outcome: outcome}
	if err := l.c.Store.Note(ctx, e); err != nil {
		l.c.Log.Error("the audit could not be written", "error", err.Error())
	}
}
